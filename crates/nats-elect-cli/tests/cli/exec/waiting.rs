//! Leadership that does not come.

use nats_elect_testing::NatsServer;
use rustix::process::Signal;

use crate::ended;
use crate::exec::command::Conduct;
use crate::exec::history::{History, stamp};
use crate::exec::instance::{Exec, exec};
use crate::exec::scene;
use crate::running::Teller;

/// A lease that nobody waits for.
const LONG: [&str; 2] = ["--ttl", "60s"];
const NOT_LED: i32 = 75;

async fn held(server: &NatsServer, history: &History) -> Exec {
    let leader = Exec::start("leader", &server.url(), history, Conduct::Obey, &LONG);
    leader.runs(history).await;
    leader
}

#[tokio::test]
async fn a_role_that_another_instance_leads_is_not_waited_for_longer_than_was_asked() {
    let (server, history) = scene();
    let _leader = held(&server, &history).await;
    for (limit, why) in [
        (&["--try"][..], "the role is taken: leader leads worker"),
        (
            &["--wait-timeout", "2s"],
            "leadership did not come within 2s: leader leads worker",
        ),
    ] {
        let begun = stamp();
        let mut other = exec("other", &server.url());
        let other = other.args(LONG).args(limit);
        let ended = ended(other.args(["--", "sh", "-c", "echo runs"])).with_code(NOT_LED);
        assert_eq!(ended.stdout, "", "{limit:?}");
        let (said, why) = (ended.stderr, format!("error: {why}\n"));
        assert!(said.ends_with(&why), "{limit:?}: {said}");
        assert!(stamp() - begun < 30_000_000_000, "{limit:?}");
    }
}

#[test]
fn a_free_role_is_led_at_once_with_try_and_the_command_may_outlast_the_wait() {
    let server = NatsServer::start().expect("a server");
    for limit in [&["--try"][..], &["--wait-timeout", "10s"]] {
        let mut only = exec("only", &server.url());
        let only = only.args(limit);
        ended(only.args(["--", "sh", "-c", "sleep 1; exit 7"])).assert_code(7);
    }
}

#[test]
fn a_wait_that_nats_does_not_answer_is_no_lost_election() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    drop(server);
    let mut only = exec("only", &url);
    ended(only.args(["--wait-timeout", "500ms", "--", "true"])).assert_code(5);
}

#[tokio::test]
async fn the_leader_is_reported_once_while_an_instance_waits() {
    let (server, history) = scene();
    let mut leader = held(&server, &history).await;
    let mut other = exec("other", &server.url());
    let mut other = Teller::of_stderr(other.args(LONG).args(["--", "true"]));
    let more = other.tells("waiting for worker: leader leads");
    assert_eq!(more, "");
    leader.signal(Signal::TERM);
    leader.exited().await;
    // It leads, and ends with its command.
    let (code, told) = other.ended();
    assert_eq!((code, told.matches("waiting for").count()), (Some(0), 1));
}

#[tokio::test]
async fn a_quiet_instance_waits_without_a_word() {
    let (server, history) = scene();
    let _leader = held(&server, &history).await;
    // Another program under the same role would be warned of.
    let same = std::env::current_exe().expect("this program");
    let mut other = exec("other", &server.url());
    let quiet = ["--quiet", "--wait-timeout", "2s", "--"];
    let ended = ended(other.args(LONG).args(quiet).arg(same)).with_code(NOT_LED);
    assert_eq!(ended.stderr, "");
}

#[tokio::test]
async fn a_signal_ends_a_wait_with_the_code_of_the_signal() {
    let (server, history) = scene();
    let _leader = held(&server, &history).await;
    let mut other = exec("other", &server.url());
    let waits = ["--wait-timeout", "600s", "--", "true"];
    let mut other = Teller::of_stderr(other.args(LONG).args(waits));
    other.line();
    other.process.signal(Signal::TERM);
    assert_eq!(other.process.code(), Some(128 + 15));
}
