//! The ends of companions.

use std::time::Duration;

use nats_elect::LastWillStatus;
use nats_elect::admin::AdminClient;
use nats_elect_testing::eventually;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::clock::Stamp;
use crate::ends::Test;
use crate::stage::{SOON, Stage};
use crate::took::{LONG, SHORT, dies, rounds, tell, with_the_lease};
use crate::victim::{Birth, Victim, children};

pub const TESTS: &[(&str, Test)] = &[
    ("a_companion_that_dies_is_replaced", || Box::pin(replaced())),
    (
        "a_companion_that_stands_still_is_woken_by_the_death",
        || Box::pin(stood_still()),
    ),
    ("without_a_companion_the_lease_decides", || {
        Box::pin(both_killed())
    }),
    ("a_companion_ends_with_its_manager", || Box::pin(graceful())),
    (
        "a_stop_does_not_wait_for_a_companion_that_stands_still",
        || Box::pin(stop_beside_a_stopped_one()),
    ),
];

async fn replaced() {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    for round in 0..rounds(1) {
        let role = format!("replaced-{round}");
        let mut victim = stage.victim(Birth::default(), &role, LONG).await;
        let mut next = stage.next(&role, LONG).await;
        let second = another_companion(&victim, &stage).await;
        assert!(!next.has_started(), "the leader lives");
        took.push(dies(&mut victim, &mut next).await);
        is_gone(second).await;
        stage.leave(&role).await;
    }
    tell("SIGKILL after another companion", took);
}

/// The kernel wakes a stopped process group up whose parent dies, and the companion ignores the
/// SIGHUP that comes with it.
async fn stood_still() {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    for round in 0..rounds(1) {
        let role = format!("still-{round}");
        let mut victim = stage.victim(Birth::default(), &role, LONG).await;
        let mut next = stage.next(&role, LONG).await;
        let companion = victim.companion(None).await;
        stand_still(companion).await;
        took.push(dies(&mut victim, &mut next).await);
        is_gone(companion).await;
        stage.leave(&role).await;
    }
    tell("SIGKILL, companion stopped", took);
}

async fn both_killed() {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    for round in 0..rounds(1) {
        let role = format!("both-{round}");
        let mut victim = stage.victim(Birth::default(), &role, SHORT).await;
        let mut next = stage.next(&role, SHORT).await;
        let companion = victim.companion(None).await;
        // It can start no other companion meanwhile.
        victim.signal(Signal::STOP);
        kill_process(companion, Signal::KILL).expect("it lives");
        let at = victim.kill();
        let started = next.started().await;
        took.push(with_the_lease(at, started));
        stage.leave(&role).await;
    }
    tell("SIGKILL of both", took);
}

async fn graceful() {
    let stage = Stage::set().await;
    let role = "graceful";
    let mut victim = stage.victim(Birth::default(), role, LONG).await;
    let companion = victim.companion(None).await;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        kill_process(companion, signal).expect("it stays");
    }
    let mut next = stage.next(role, LONG).await;
    victim.order("stop");
    next.started().await;
    assert!(victim.wait().success());
    is_gone(companion).await;
    assert_eq!(children(victim.id()), []);
    stage.leave(role).await;
}

async fn stop_beside_a_stopped_one() {
    let stage = Stage::set().await;
    let role = "beside";
    let mut victim = stage.victim(Birth::default(), role, LONG).await;
    let companion = victim.companion(None).await;
    let mut next = stage.next(role, LONG).await;
    stand_still(companion).await;
    let at = victim.order("stop");
    next.started().await;
    assert!(victim.wait().success());
    // As long as a companion may take to say anything: it is not asked.
    let took = Stamp::now().since(at);
    assert!(took < Duration::from_secs(5), "{took:?}");
    test_kill_process(companion).expect_err("it is gone");
    stage.leave(role).await;
}

/// Stops a companion. The kernel wakes it later if all of its threads have stopped before.
async fn stand_still(companion: Pid) {
    kill_process(companion, Signal::STOP).expect("it lives");
    let tasks = format!("/proc/{}/task", companion.as_raw_nonzero());
    let has_stopped = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat"));
        let stat = stat.unwrap_or_default();
        stat.rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.starts_with('T'))
    };
    eventually(SOON, "a stopped companion", async || {
        let mut tasks = std::fs::read_dir(&tasks).expect("its threads").flatten();
        tasks.all(has_stopped).then_some(())
    })
    .await;
}

/// Kills the companion of a process. Returns the next one, once it is ready: then it has been told
/// of the terms.
pub async fn another_companion(of: &Victim, stage: &Stage) -> Pid {
    let first = of.companion(None).await;
    kill_process(first, Signal::KILL).expect("it lives");
    let second = of.companion(Some(first)).await;
    let client = async_nats::connect(stage.server.url()).await;
    let admin = AdminClient::new(client.expect("a connection"), &stage.config.bucket);
    let admin = admin.expect("a name");
    eventually(SOON, "a companion that is ready", async || {
        let victim = admin.instance("victim", SOON).await.ok()?;
        let report = admin.status(&victim).await.ok()?;
        (report.last_will == Some(LastWillStatus::Ready)).then_some(())
    })
    .await;
    second
}

pub async fn is_gone(process: Pid) {
    eventually(SOON, "the companion's end", async || {
        test_kill_process(process).is_err().then_some(())
    })
    .await;
}
