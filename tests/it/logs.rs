//! The log of an instance while something goes wrong.

use nats_elect::StepDown;
use nats_elect_testing::eventually;

use crate::support::bucket::Stranger;
use crate::support::child::{self, ChildInstance, Orders};
use crate::support::clock::Stamp;
use crate::support::instance::{guest, hand_over, instance, standing};
use crate::support::logs::{self, has_all, record, records};
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, proxied, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_logged_once_with_what_happens_next() {
    let logs = logs::install();
    let (leader, follower) = ("logged-leader", "logged-follower");
    let (_server, proxy, journal) = proxied();
    let a = standing(leader, proxy.url(), &journal, leased_for(ms(5000))).await;
    let term = journal.started(ROLE, 0).await;
    let b = standing(follower, proxy.url(), &journal, leased_for(ms(5000))).await;
    b.wait_until_following(leader).await;

    proxy.cut();
    journal.ended(ROLE, 0).await;
    comes_true("no leader", async || b.role(ROLE).leader().is_none()).await;
    proxy.restore();
    journal.started(ROLE, 1).await;
    eventually(SOON, "both are back", async || {
        let log = logs.text();
        [leader, follower]
            .iter()
            .all(|id| !records(&log, id, "connected to NATS again").is_empty())
            .then_some(())
    })
    .await;

    let log = logs.text();
    for id in [leader, follower] {
        let lost = record(&log, id, "connection to NATS lost");
        assert!(
            lost.contains(" WARN ") && lost.contains("server="),
            "{lost}"
        );
        let again = record(&log, id, "connected to NATS again");
        assert!(again.contains("failed_attempts="), "{again}");
    }
    let lost = record(&log, leader, "leadership lost");
    has_all(
        &lost,
        &[
            " WARN ",
            "role=scheduler",
            "cause=\"",
            "server=",
            "the handler is being stopped",
        ],
    );
    let unknown = record(&log, follower, "no leader known: NATS is out of reach");
    has_all(
        &unknown,
        &[" WARN ", "role=scheduler", "last_leader=\"logged-leader\""],
    );
    // The span has the token, so the record has not.
    let token = term.term().fencing_token().to_string();
    let started = record(
        &log,
        leader,
        &format!("fencing_token={token}}}: nats_elect::actors::announce: term started"),
    );
    assert_eq!(started.matches(&token).count(), 1, "{started}");
    let framework: Vec<_> = log.lines().filter(|line| line.contains("Actor{")).collect();
    assert!(framework.is_empty(), "{framework:#?}");
    a.stop().await;
    b.stop().await;
}

/// A watch that has caught up did not break its connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_monitor_tells_each_leader_whose_grace_period_is_over() {
    let logs = logs::install();
    let id = "graced-leader";
    let (_server, proxy, journal) = proxied();
    let leased = || leased_for(ms(60_000)).heartbeat_interval(ms(400));
    let graced = |grace| leased().disconnect_grace_period(ms(grace));
    let a = instance(id, proxy.url(), &journal)
        .standing(graced(1000))
        .role("later", graced(2000))
        .role("unlimited", leased())
        .start()
        .await;
    journal.started(ROLE, 0).await;
    journal.started("later", 0).await;
    let unlimited = journal.started("unlimited", 0).await;

    proxy.cut();
    journal.ended(ROLE, 0).await;
    journal.ended("later", 0).await;
    let over = "the grace period is over";
    comes_true("two words of the monitor", async || {
        records(&logs.text(), id, over).len() == 2
    })
    .await;
    let told = records(&logs.text(), id, over);
    assert!(told[0].contains("role=scheduler grace=1s"), "{told:?}");
    assert!(told[1].contains("role=later grace=2s"), "{told:?}");
    let lost = records(&logs.text(), id, "leadership lost");
    assert_eq!(lost.len(), 2, "{lost:#?}");
    for line in &lost {
        assert!(line.contains("cause=\"connection_lost\""), "{line}");
    }
    assert!(unlimited.term().is_valid());

    proxy.restore();
    // Its own record it need not wait for.
    let second = journal.started(ROLE, 1).await;
    assert!(second.term().is_valid());
    assert_eq!(journal.terms("unlimited").len(), 1);
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_lost_again_and_again_costs_no_watch() {
    let logs = logs::install();
    let (leader, follower) = ("steady-leader", "flapping-follower");
    let (server, proxy, journal) = proxied();
    let a = standing(leader, server.url(), &journal, leased_for(ms(5000))).await;
    journal.started(ROLE, 0).await;
    let b = standing(follower, proxy.url(), &journal, leased_for(ms(5000))).await;
    b.wait_until_following(leader).await;
    for _ in 0..6 {
        // Two heartbeats that the watch shows.
        for _ in 0..2 {
            let seen = b.role(ROLE).status().revision;
            comes_true("a heartbeat", async || {
                b.role(ROLE).status().revision != seen
            })
            .await;
        }
        proxy.cut();
        proxy.restore();
    }
    b.wait_until_following(leader).await;
    let log = logs.text();
    let rests = records(&log, follower, "doing without a watch");
    assert!(rests.is_empty(), "{rests:#?}");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_nats_is_logged_at_once_and_its_success_names_what_is_used() {
    let logs = logs::install();
    let id = "logged-start";
    let (mut server, journal) = served();
    let address = server.url();
    server.kill();
    let joining = instance(id, &address, &journal).standing(leased_for(ms(5000)));
    let starting = tokio::spawn(joining.start());
    let problem = eventually(SOON, "a word of it", async || {
        records(&logs.text(), id, "no connection to NATS").pop()
    })
    .await;
    let tried = address.trim_start_matches("nats://");
    has_all(&problem, &[" WARN ", "refused", tried, "trying for 30s"]);
    server.restart().expect("restart");
    let a = starting.await.expect("no panic");
    let log = logs.text();
    let started = record(&log, id, "connected to NATS: started");
    has_all(
        &started,
        &[
            " INFO ",
            "server=",
            "version=",
            "replicas=1",
            "roles=\"scheduler\"",
            "bucket=leaders",
        ],
    );
    record(&log, id, "created the bucket");
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_recreated_is_named_by_each_instance() {
    let logs = logs::install();
    let (leader, creator) = ("logged-before", "logged-creator");
    let (server, journal) = served();
    let b = standing(creator, server.url(), &journal, leased_for(ms(5000))).await;
    journal.started(ROLE, 0).await;
    let joining = guest(leader, server.url(), &journal).standing(leased_for(ms(5000)));
    let a = joining.start().await;
    a.wait_until_following(creator).await;
    hand_over(&b.role(ROLE), leader).await;
    journal.started(ROLE, 1).await;

    Stranger::connect(&server.url()).await.delete_bucket().await;
    journal.started(ROLE, 2).await;
    eventually(SOON, "both saw it", async || {
        let log = logs.text();
        let created = records(&log, creator, "created it; all that it held is lost");
        let seen = records(&log, leader, "the bucket was recreated or restored");
        (!created.is_empty() && !seen.is_empty()).then_some(())
    })
    .await;
    let log = logs.text();
    let created = record(&log, creator, "created it; all that it held is lost");
    let seen = record(&log, leader, "the bucket was recreated or restored");
    for told in [created, seen] {
        assert!(
            told.contains(" WARN ") && told.contains("leaders"),
            "{told}"
        );
    }
    for id in [leader, creator] {
        for wrong in ["another instance's record", "may publish there"] {
            let warned = records(&log, id, wrong);
            let warned = warned.iter().find(|line| !line.contains(" DEBUG "));
            assert_eq!(warned, None, "{wrong}");
        }
    }
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_value_that_is_no_record_is_logged_as_such() {
    let logs = logs::install();
    let id = "logged-garbage";
    let (server, journal) = served();
    let a = standing(id, server.url(), &journal, leased_for(ms(2000))).await;
    journal.started(ROLE, 0).await;
    let store = Stranger::connect(&server.url()).await.store().await;
    let revision = store.put(ROLE, "rubbish".into()).await.expect("put");
    journal.started(ROLE, 1).await;
    let log = logs.text();
    let told = record(&log, id, "a value that is no record");
    has_all(
        &told,
        &[" WARN ", "role=scheduler", &format!("revision={revision}")],
    );
    for nameless in ["leader= ", "last_leader=\"\""] {
        assert_eq!(records(&log, id, nameless), [""; 0]);
    }
    a.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_returns_fails_or_does_not_end_is_logged_with_what_follows() {
    let logs = logs::install();
    let (server, journal) = served();
    // One that is late by a stop budget takes the machine for one that stood still.
    let config = || {
        leased_for(ms(10_000))
            .stop_budget(ms(1000))
            .cooldown(ms(100))
    };
    let a = instance("logged-handlers", server.url(), &journal)
        .working("brief", config(), |_| async { Ok(()) })
        .working("failing", config(), |_| async { Err("no".into()) })
        .working("deaf", config(), |_| async {
            std::future::pending::<()>().await;
            Ok(())
        })
        .working("late", config(), |term| async move {
            term.cancelled().await;
            Err("too late".into())
        })
        .start()
        .await;
    journal.started("deaf", 0).await;
    journal.started("late", 0).await;
    journal.started("brief", 3).await;
    let down = a.role("deaf").step_down(StepDown::any()).await;
    down.expect("stepped down");
    journal.started("failing", 2).await;
    a.stop().await;
    let log = logs.text();
    let id = "logged-handlers";
    // The first end of a row has the cool-down as it is configured, and it doubles from then on.
    let ended = records(&log, id, "term ended cause=\"failed\"");
    for (ended, cooldown) in ended.iter().zip(["cooldown=100ms", "cooldown=200ms"]) {
        assert!(ended.contains(cooldown), "{cooldown} in {ended}");
    }
    assert!(ended.len() >= 2, "{ended:#?}");
    let brief = record(&log, id, "the handler returned `Ok`");
    let aborted = &records(&log, id, "aborting it")[0];
    let failed = records(&log, id, "the handler failed");
    let is_failing = |told: &String| told.contains("role=failing");
    assert!(failed.iter().all(is_failing), "{failed:#?}");
    let late = record(&log, id, "after its term was cancelled error=too late");
    assert!(late.contains(" INFO "), "{late}");
    let failed = &failed[0];
    for (told, part) in [
        (&brief, "role=brief"),
        (aborted, "role=deaf"),
        (aborted, "stop_budget=1s"),
        (failed, "role=failing"),
        (failed, "stays out"),
    ] {
        assert!(told.contains(" WARN ") && told.contains(part), "{told}");
    }
    assert!(!failed.contains("cooldown="), "{failed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_stood_still_says_so_and_reports_no_overrun() {
    let (server, journal) = served();
    journal.allow_overlaps();
    let orders = Orders {
        program: "logs::child_process".to_owned(),
        ..Orders::new("child", server.url(), ms(10_000))
    };
    let child = ChildInstance::start(&orders, &journal);
    journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ms(10_000))).await;
    b.wait_until_following("child").await;
    child.pause();
    journal.started(ROLE, 1).await;
    let resumed = Stamp::now();
    child.resume();
    let term = journal.ended(ROLE, 0).await;
    // The abort allowance. On a busy machine the handler may really need longer.
    let in_time = term.end().since(resumed) < ms(100);
    eventually(SOON, "its end", async || {
        let ended = |note: &String| note.contains("term ended");
        child.notes().iter().any(ended).then_some(())
    })
    .await;
    let notes = child.notes();
    let lost: Vec<_> = notes
        .iter()
        .filter(|it| it.contains("leadership lost"))
        .collect();
    assert_eq!(lost.len(), 1, "{notes:#?}");
    has_all(
        lost[0],
        &[" WARN ", "this process stood still", "stood_still="],
    );
    for wrong in ["still runs", "aborting it", " ERROR "] {
        assert!(
            !in_time || !notes.iter().any(|it| it.contains(wrong)),
            "{wrong}: {notes:#?}"
        );
    }
    b.stop().await;
}

/// Not a test: the child, which notes what it logs.
#[test]
#[ignore = "run by another test in a process of its own"]
fn child_process() {
    struct Noted;
    impl std::io::Write for Noted {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            child::note(String::from_utf8_lossy(bytes).into_owned());
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    if child::is_ordered() {
        tracing_subscriber::fmt()
            .with_env_filter("nats_elect=info")
            .with_ansi(false)
            .with_writer(|| Noted)
            .init();
    }
    child::run(|term, _| async move { term.cancelled().await });
}
