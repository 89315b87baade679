//! The ends of companions.

use nats_elect_testing::eventually;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::ends::{LONG, SHORT, Test, not_before_the_lease, rounds, tell};
use crate::sockets::connected;
use crate::stage::{SOON, Stage};
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
        let at = victim.kill();
        let started = next.started().await;
        victim.acts_were_before(started);
        took.push(started.since(at));
        is_gone(second).await;
        stage.leave(&role).await;
    }
    tell("SIGKILL after another companion", took, LONG / 2);
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
        kill_process(companion, Signal::STOP).expect("it lives");
        eventually(SOON, "a stopped companion", async || {
            let stat =
                std::fs::read_to_string(format!("/proc/{}/stat", companion.as_raw_nonzero()));
            let (_, rest) = stat.as_deref().ok()?.rsplit_once(") ")?;
            rest.starts_with('T').then_some(())
        })
        .await;
        let at = victim.kill();
        let started = next.started().await;
        victim.acts_were_before(started);
        took.push(started.since(at));
        is_gone(companion).await;
        stage.leave(&role).await;
    }
    tell("SIGKILL, companion stopped", took, LONG / 2);
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
        not_before_the_lease(started, at);
        took.push(started.since(at));
        stage.leave(&role).await;
    }
    tell("SIGKILL of both", took, SHORT * 3);
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

/// Kills the companion of a process. Returns the next one, once it is connected.
pub async fn another_companion(of: &Victim, stage: &Stage) -> Pid {
    let first = of.companion(None).await;
    kill_process(first, Signal::KILL).expect("it lives");
    let second = of.companion(Some(first)).await;
    connected(second, &[stage.server.port()]).await;
    second
}

pub async fn is_gone(process: Pid) {
    eventually(SOON, "the companion's end", async || {
        test_kill_process(process).is_err().then_some(())
    })
    .await;
}
