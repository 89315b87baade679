//! `end-lease`.

use std::time::Duration;

use nats_elect::{RoleConfig, RoleManager, RoleState};
use nats_elect_testing::NatsServer;

use crate::fleet::{ROLE, bucket, comes_true, is_fit_for_a_terminal, led, lines, obedient, output};
use crate::pair::answer;
#[cfg(unix)]
use crate::top::terminal::Terminal;

const STRAY: &str = r#"{"id":"x","token":"secret-secret-secret","ttl_ms":3600000}"#;

/// An instance that waits for a lease in vain.
async fn waiting(server: &NatsServer, id: &str) -> RoleManager {
    let config = RoleConfig::default().ttl(Duration::from_secs(60));
    let started = RoleManager::builder()
        .servers(server.url())
        .instance_id(id)
        .role(ROLE, config, obedient())
        .start()
        .await;
    let manager = started.expect("start");
    let role = manager.role(ROLE).expect("the role");
    comes_true("somebody else's record", async || {
        role.status().state == RoleState::Follower
    })
    .await;
    manager
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_nobody_holds_is_waited_for_no_longer() {
    let server = NatsServer::start().expect("a server");
    let revision = bucket(&server).await.put(ROLE, STRAY.into()).await;
    let revision = revision.expect("a stray record");
    let first = waiting(&server, "node-1").await;
    let second = waiting(&server, "node-2").await;
    answer(&server, 2).await;

    let hasty = output(&server, &["end-lease", ROLE]).with_code(2);
    hasty.complains("--yes");
    for manager in [&first, &second] {
        let role = manager.role(ROLE).expect("the role");
        assert!(!role.is_leader());
    }

    let done = output(&server, &["end-lease", ROLE, "--yes"]).with_code(0);
    is_fit_for_a_terminal(&done);
    done.does_not_complain("secret");
    let shown = format!("revision {revision}");
    done.complains_all([&*shown, "\"x\"", "1h, by its ttl_ms"]);
    done.says_all(["no longer waits for this lease", "leads now"]);
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sits_before_a_terminal_is_asked_first() {
    let server = NatsServer::start().expect("a server");
    let put = bucket(&server).await.put(ROLE, STRAY.into()).await;
    put.expect("a stray record");
    let waits = waiting(&server, "node-1").await;
    answer(&server, 1).await;
    let url = server.url();
    let arguments = ["end-lease", ROLE, "--server", url.as_str()];

    let mut terminal = Terminal::run((24, 100), &arguments, &[]);
    terminal.shows(&["1h", "Is x certainly gone?"]).await;
    terminal.press("\r");
    terminal.shows(&["not confirmed: nothing was done"]).await;
    assert_eq!(terminal.ended().await, 4);
    assert!(!waits.role(ROLE).expect("the role").is_leader());

    let mut terminal = Terminal::run((24, 100), &arguments, &[]);
    terminal.shows(&["Is x certainly gone?"]).await;
    terminal.press("y\r");
    terminal
        .shows(&["no longer waits for this lease", "leads now"])
        .await;
    assert_eq!(terminal.ended().await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_are_told_who_noted_it() {
    let server = NatsServer::start().expect("a server");
    let put = bucket(&server).await.put(ROLE, STRAY.into()).await;
    let revision = put.expect("a stray record");
    let _waiting = waiting(&server, "node-1").await;
    answer(&server, 1).await;
    let done = output(&server, &["end-lease", ROLE, "--yes", "--json"]).with_code(0);
    let output = &lines(&done)[0];
    assert_eq!(output["revision"], revision);
    assert_eq!(output["instance_id"], "x");
    assert_eq!(output["ttl_seconds"], 3600);
    assert_eq!(output["answers"][0]["answer"], "noted");
    assert_eq!(output["leader"]["instance_id"], "node-1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_in_use_is_not_ended() {
    let (server, leads) = led().await;
    answer(&server, 1).await;
    let token = || leads.status()[ROLE].fencing_token;
    let before = token();
    let refused = output(&server, &["end-lease", ROLE, "--yes"]).with_code(4);
    refused.complains("reports that it leads");
    // Nor does a leader believe that it leads no more.
    output(&server, &["end-lease", ROLE, "--yes", "--force"]).assert_code(4);
    assert!(leads.role(ROLE).expect("the role").is_leader());
    assert_eq!(token(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_waits_there_is_nothing_to_end() {
    let server = NatsServer::start().expect("a server");
    output(&server, &["end-lease", ROLE, "--yes"]).assert_code(3);
    let put = bucket(&server).await.put(ROLE, STRAY.into()).await;
    put.expect("a stray record");
    let none = output(&server, &["end-lease", ROLE, "--yes"]).with_code(3);
    none.complains("takes part in");
    output(&server, &["end-lease", "a.b", "--yes"]).assert_code(2);
}
