//! What was before `top` started.

use nats_elect::StepDown;
use nats_elect_testing::{NatsServer, TcpProxy, eventually};

use super::instance as unpublished;
use super::terminal::Terminal;
use crate::fleet::{ROLE, SOON, comes_true, instance, led, lines, output};

/// Waits until the history has so many events.
async fn published(server: &NatsServer, events: usize) {
    eventually(SOON, "the events", async || {
        let told = lines(&output(server, &["history", "--json"]));
        (told.len() >= events).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_before_the_start_is_shown_with_its_cause() {
    let server = NatsServer::start().expect("a server");
    let proxy = TcpProxy::start(server.url()).expect("a proxy");
    let first = instance(&server, "node-1").servers(proxy.url());
    let first = first.start().await.expect("start");
    let role = first.role(ROLE).expect("the role");
    comes_true("a term", async || role.is_leader()).await;
    published(&server, 1).await;
    let second = instance(&server, "node-2").start().await.expect("start");
    // It sees heartbeats come: a record that it finds may be old.
    let standing = second.role(ROLE).expect("the role");
    let beyond = async |past: u64| {
        let seen = async || standing.status().revision.filter(|seen| *seen > past);
        eventually(SOON, "a heartbeat", seen).await
    };
    let mut seen = 0;
    for _ in 0..3 {
        seen = beyond(seen).await;
    }
    proxy.cut();
    comes_true("a term", async || standing.is_leader()).await;
    published(&server, 2).await;
    let told = lines(&output(&server, &["history", "--json"]));
    let last = told.last().expect("an event");
    assert_eq!(last["gap_is_at_most"], true, "{last}");
    let gap = last["gap_seconds"].as_f64().expect("a gap");
    assert!(gap >= 3.0, "a lease had to run out: {last}");
    let table = output(&server, &["history"]).stdout;
    assert!(table.contains("≤ "), "{table}");

    let url = server.url();
    let mut terminal = Terminal::run((50, 200), &["top", "-s", &url], &[]);
    terminal
        .shows(&[
            "Changes latest first ─",
            "scheduler: node-1 leads: no earlier leader",
            "scheduler: node-2 leads: lease of node-1 ran out, nobody led for ≤ ",
            "Candidates of scheduler",
        ])
        .await;
    // The bucket has when its term began.
    terminal
        .shows_or_not(&[("led by node-2 for ≥", false)])
        .await;

    // A change while it looks is in the history, too.
    standing.step_down(StepDown::any()).await.expect("it led");
    let freed = "scheduler: node-2 leads: freed by node-2, nobody led for ";
    terminal.shows(&[freed]).await;
    published(&server, 4).await;
    let later = Terminal::run((24, 80), &["top", "-s", &url], &[]);
    let told = [
        "ended: stepped down",
        "leads: freed by node-2, nobody led for ",
    ];
    later.shows(&told).await;

    let once = output(&server, &["top", "--once"]).stdout;
    assert!(once.contains(freed), "{once}");
    terminal.quit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_history_changes_begin_with_the_start_and_the_screen_says_so() {
    let server = NatsServer::start().expect("a server");
    let one = unpublished(&server, "node-1", nats_elect::AdminConfig::default()).await;
    let role = one.role(ROLE).expect("the role");
    comes_true("a term", async || role.is_leader()).await;
    let url = server.url();
    let mut terminal = Terminal::run((24, 80), &["top", "-s", &url], &[]);
    let screen = terminal.shows(&[": no history is kept", "● leader"]).await;
    assert!(screen.contains("none since the start"), "{screen}");
    terminal.quit().await;
}

/// Whoever may publish events may write what they like into them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_a_stranger_do_not_break_the_screen() {
    let (server, _one) = led().await;
    published(&server, 1).await;
    let client = async_nats::connect(server.url()).await.expect("connected");
    let event = serde_json::json!({
        "v": 1, "event": "term_started", "bucket": "leaders", "role": ROLE,
        "instance_id": format!("mad\u{1b}[2J\u{202e}{}", "x".repeat(3000)),
        "incarnation": "00000000-0000-0000-0000-000000000001", "correlation_id": "c\u{9b}",
        "fencing_token": "ffffffffffffffffffffffffffffffff", "at_ms": 9_007_199_254_740_991_u64,
        "vacancy": "\r\nforged", "previous": "\u{1b}]0;title\u{7}", "silence_seconds": 1e15,
    });
    let subject = format!("nats-elect-events.leaders.{ROLE}");
    let jetstream = async_nats::jetstream::new(client);
    let sent = jetstream.publish(subject, event.to_string().into()).await;
    sent.expect("sent").await.expect("stored");
    let url = server.url();
    for size in [(24, 80), (50, 200)] {
        let mut terminal = Terminal::run(size, &["top", "-s", &url], &[]);
        let screen = terminal
            .shows(&["scheduler: mad[2Jxxx", "q quit", "● leader"])
            .await;
        assert!(screen.contains("nats-elect top"), "{screen}");
        assert!(!screen.contains('\u{202e}'), "{screen}");
        terminal.quit().await;
    }
}
