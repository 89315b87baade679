//! `check-role`: the state of a role for monitoring systems.

use nats_elect::StopOptions;
use nats_elect_testing::{NatsServer, eventually};

use crate::fleet::{ROLE, SOON, bucket, leader, lines, output};
use crate::{ended, nats_elect};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_living_leader_is_ok_and_a_role_without_one_gets_worse_with_time() {
    let server = NatsServer::start().expect("start");
    let a = leader(&server, "node-1").await;
    let patient = ["check-role", ROLE, "--wait", "30s"];
    let good = output(&server, &patient);
    assert_eq!(good.code, Some(0), "{}{}", good.stdout, good.stderr);
    let (words, data) = good.stdout.split_once(" | ").expect("performance data");
    assert!(
        words.starts_with("ROLE OK - scheduler: node-1 leads"),
        "{words}"
    );
    assert!(data.starts_with("silence=0."), "{data}");
    assert!(data.contains("s;5;15;0 lease="), "{data}");
    assert!(data.trim_end().ends_with(";;;0;3"), "{data}");

    let limits = ["--warning-changes", "0", "--critical-changes", "9"];
    let changed = eventually(SOON, "an event", async || {
        let changed = output(&server, &[&patient[..], &limits].concat());
        changed
            .stdout
            .contains("changes=1;0;9;0")
            .then_some(changed)
    })
    .await;
    assert_eq!(changed.code, Some(1), "{}", changed.stdout);
    assert!(
        changed.stdout.contains(", 1 change in 1h |"),
        "{}",
        changed.stdout
    );

    a.stop(StopOptions::default()).await.expect("a stop");
    for (warning, critical, expected) in [("1h", "2h", 0), ("0s", "1h", 1), ("0s", "0s", 2)] {
        let limits = ["--warning", warning, "--critical", critical];
        let free = output(&server, &[&["check-role", ROLE][..], &limits].concat());
        assert_eq!(free.code, Some(expected), "{}", free.stdout);
        assert!(
            free.stdout.contains("nobody leads, its leader freed it"),
            "{}",
            free.stdout
        );
    }
    let json = lines(&output(&server, &["check-role", ROLE, "--json"]));
    assert!(json[0]["silence_seconds"].is_number() && json[0]["leader"].is_null());
}

#[tokio::test]
async fn a_role_that_was_never_led_is_critical_and_one_that_can_not_be_seen_unknown() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let never = output(&server, &["check-role", "backup"]);
    assert_eq!(never.code, Some(2), "{}", never.stdout);
    assert!(never.stdout.contains("never led"), "{}", never.stdout);
    for arguments in [
        &[
            "-s",
            "127.0.0.1:1",
            "--timeout",
            "300ms",
            "check-role",
            "backup",
        ][..],
        &["check-role", "no name"],
    ] {
        let unseen = ended(&mut nats_elect(arguments));
        assert_eq!(unseen.code, Some(3), "{}", unseen.stderr);
        assert!(
            unseen.stdout.starts_with("ROLE UNKNOWN - "),
            "{}",
            unseen.stdout
        );
        assert_eq!(unseen.stdout.lines().count(), 1, "{}", unseen.stdout);
    }
    assert!(!never.stdout.contains('|'), "no data: {}", never.stdout);
    for thresholds in [
        &["-w", "20s"][..],
        &["-w", "6s", "-c", "5s"],
        &["--warning-changes", "9", "--critical-changes", "8"],
    ] {
        let output = output(&server, &[&["check-role", "backup"], thresholds].concat());
        assert_eq!(output.code, Some(3), "{thresholds:?}: {}", output.stdout);
        let expected = "must not be more than --critical";
        assert!(output.stdout.contains(expected), "{}", output.stdout);
    }
    let wrong = ended(&mut nats_elect(&["check-role", "backup", "--nonsense"]));
    assert_eq!(wrong.code, Some(3), "not CRITICAL: {}", wrong.stderr);
}
