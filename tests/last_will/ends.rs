//! The ends of a process, and when the next handler starts.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use nats_elect_testing::eventually;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::clock::Stamp;
use crate::sockets::connected;
use crate::stage::{SOON, Stage};
use crate::victim::{Victim, children};

pub type Test = fn() -> Pin<Box<dyn Future<Output = ()>>>;

pub const TESTS: &[(&str, Test)] = &[
    ("a_killed_process_is_not_waited_for", || Box::pin(killed())),
    ("other_deaths_are_seen_as_well", || Box::pin(other_deaths())),
    ("a_stopped_process_keeps_its_lease", || Box::pin(stopped())),
    ("a_companion_that_dies_is_replaced", || Box::pin(replaced())),
    ("without_a_companion_the_lease_decides", || {
        Box::pin(both_killed())
    }),
    ("a_companion_ends_with_its_manager", || Box::pin(graceful())),
];

/// A lease that is long beside everything that a release takes.
const LONG: Duration = Duration::from_secs(15);
const SHORT: Duration = Duration::from_secs(2);

async fn killed() {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    for round in 0..rounds(20) {
        let role = format!("killed-{round}");
        let mut victim = Victim::start(&stage.config, &role, LONG, stage.folder.path()).await;
        let mut next = stage.next(&role, LONG).await;
        let at = victim.kill();
        let started = next.started().await;
        assert!(started > victim.last_act(), "two handlers at once");
        took.push(started.since(at));
        stage.leave(&role).await;
    }
    tell("SIGKILL", &mut took);
    // The lease had nearly all of its time left.
    assert!(*took.last().expect("a round") < LONG / 2, "{took:?}");
}

async fn other_deaths() {
    let stage = Stage::set().await;
    for order in ["abort", "panic", "exit"] {
        let mut took = Vec::new();
        for round in 0..3 {
            let role = format!("{order}-{round}");
            let mut victim = Victim::start(&stage.config, &role, LONG, stage.folder.path()).await;
            let mut next = stage.next(&role, LONG).await;
            let at = victim.order(order);
            let status = victim.wait();
            assert!(!status.success(), "{status}");
            let started = next.started().await;
            assert!(started > victim.last_act(), "two handlers at once");
            took.push(started.since(at));
            stage.leave(&role).await;
        }
        tell(order, &mut took);
        assert!(took.iter().all(|it| *it < LONG / 2), "{took:?}");
    }
}

async fn stopped() {
    let stage = Stage::set().await;
    let role = "stopped";
    let victim = Victim::start(&stage.config, role, SHORT, stage.folder.path()).await;
    let companion = victim.companion(None).await;
    let mut next = stage.next(role, SHORT).await;
    victim.signal(Signal::STOP);
    let at = Stamp::now();
    let started = next.started().await;
    // The last heartbeat was sent an interval before the stop at most. The lease counts from what
    // the candidate received.
    let heartbeat = SHORT / 5;
    assert!(
        started.since(at) + heartbeat * 2 >= SHORT,
        "{:?}",
        started.since(at)
    );
    test_kill_process(companion).expect("it waits on");
    victim.signal(Signal::CONT);
    stage.leave(role).await;
}

async fn replaced() {
    let stage = Stage::set().await;
    let role = "replaced";
    let mut victim = Victim::start(&stage.config, role, LONG, stage.folder.path()).await;
    let mut next = stage.next(role, LONG).await;
    let first = victim.companion(None).await;
    kill_process(first, Signal::KILL).expect("it lives");
    let second = victim.companion(Some(first)).await;
    connected(second, &[stage.server.port()]).await;
    assert!(!next.has_started(), "the leader lives");
    let at = victim.kill();
    let started = next.started().await;
    assert!(started > victim.last_act(), "two handlers at once");
    assert!(started.since(at) < LONG / 2, "{:?}", started.since(at));
    is_gone(second).await;
    stage.leave(role).await;
}

async fn both_killed() {
    let stage = Stage::set().await;
    let role = "both";
    let mut victim = Victim::start(&stage.config, role, SHORT, stage.folder.path()).await;
    let mut next = stage.next(role, SHORT).await;
    let companion = victim.companion(None).await;
    // It can start no other companion meanwhile.
    victim.signal(Signal::STOP);
    kill_process(companion, Signal::KILL).expect("it lives");
    let at = victim.kill();
    let started = next.started().await;
    let heartbeat = SHORT / 5;
    assert!(
        started.since(at) + heartbeat * 2 >= SHORT,
        "{:?}",
        started.since(at)
    );
    stage.leave(role).await;
}

async fn graceful() {
    let stage = Stage::set().await;
    let role = "graceful";
    let mut victim = Victim::start(&stage.config, role, LONG, stage.folder.path()).await;
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

pub async fn is_gone(process: Pid) {
    eventually(SOON, "the companion's end", async || {
        test_kill_process(process).is_err().then_some(())
    })
    .await;
}

/// How often something is to be done.
pub fn rounds(default: u32) -> u32 {
    std::env::var("LAST_WILL_ROUNDS").map_or(default, |it| it.parse().expect("a number"))
}

/// Prints how long it took until the next handler started.
pub fn tell(what: &str, took: &mut [Duration]) {
    took.sort();
    let at = |share: usize| took[(took.len() - 1) * share / 100];
    println!(
        "  {what}: {} times, min {:?}, median {:?}, p99 {:?}, max {:?}",
        took.len(),
        at(0),
        at(50),
        at(99),
        at(100)
    );
}
