//! The ends of a process, and when the next handler starts.

use std::future::Future;
use std::os::unix::process::ExitStatusExt;
use std::pin::Pin;
use std::process::ExitStatus;

use rustix::process::{Signal, test_kill_process};

use crate::cgroup::Cgroup;
use crate::clock::Stamp;
use crate::stage::Stage;
use crate::took::{LONG, SHORT, at_once, dies, rounds, tell, with_the_lease};
use crate::victim::Birth;

pub type Test = fn() -> Pin<Box<dyn Future<Output = ()>>>;

pub const TESTS: &[(&str, Test)] = &[
    ("a_killed_process_is_not_waited_for", || Box::pin(killed())),
    ("an_abort_is_seen", || {
        Box::pin(dies_of("abort", Birth::default(), by_signal(6)))
    }),
    ("an_exit_is_seen", || {
        Box::pin(dies_of("exit", Birth::default(), |status| {
            status.code() == Some(3)
        }))
    }),
    ("a_panic_is_seen_where_it_aborts", || {
        Box::pin(dies_of("panic", Birth::default(), by_signal(6)))
    }),
    ("a_process_without_memory_is_seen", || {
        let birth = Birth::through(&LITTLE_ADDRESS_SPACE);
        Box::pin(dies_of("no memory", birth, by_signal(6)))
    }),
    ("a_process_that_the_oom_killer_takes_is_seen", || {
        Box::pin(oom_killed())
    }),
    ("a_stopped_process_keeps_its_lease", || Box::pin(stopped())),
];

/// In KiB. It is enough for threads and their stacks.
const LITTLE_ADDRESS_SPACE: [&str; 3] = ["sh", "-c", "ulimit -v 1000000 && exec \"$0\""];
/// In bytes. The companion fits in twice.
const LITTLE_MEMORY: u64 = 200 << 20;

async fn killed() {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    for round in 0..rounds(20) {
        let role = format!("killed-{round}");
        let birth = Birth {
            has_bound: round % 2 == 1,
            ..Birth::default()
        };
        let mut victim = stage.victim(birth, &role, LONG).await;
        let mut next = stage.next(&role, LONG).await;
        took.push(dies(&mut victim, &mut next).await);
        stage.leave(&role).await;
    }
    tell("SIGKILL", took);
}

/// A victim gets an order, and ends in that way.
async fn dies_of(order: &str, birth: Birth, is_so: impl Fn(ExitStatus) -> bool) {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    for round in 0..rounds(3) {
        let role = format!("{}-{round}", order.replace(' ', "-"));
        let mut victim = stage.victim(birth.clone(), &role, LONG).await;
        let mut next = stage.next(&role, LONG).await;
        victim.order(order);
        let status = victim.wait();
        let at = Stamp::now();
        assert!(is_so(status), "{status}");
        let started = next.started().await;
        // It may have come before the end was reaped here.
        took.push(at_once(&victim, at, started));
        stage.leave(&role).await;
    }
    tell(order, took);
}

fn by_signal(signal: i32) -> impl Fn(ExitStatus) -> bool {
    move |status| status.signal() == Some(signal)
}

async fn oom_killed() {
    let Some(group) = Cgroup::of_bytes(LITTLE_MEMORY) else {
        println!("  left out: no control group can be made here");
        return;
    };
    let words = group.words();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    dies_of("out of memory", Birth::through(&words), by_signal(9)).await;
}

async fn stopped() {
    let stage = Stage::set().await;
    let mut took = Vec::new();
    for round in 0..rounds(1) {
        let role = format!("stopped-{round}");
        let victim = stage.victim(Birth::default(), &role, SHORT).await;
        let companion = victim.companion(None).await;
        let mut next = stage.next(&role, SHORT).await;
        victim.signal(Signal::STOP);
        let at = Stamp::now();
        let started = next.started().await;
        took.push(with_the_lease(at, started));
        test_kill_process(companion).expect("it waits on");
        victim.signal(Signal::CONT);
        // It notices that it leads no more.
        victim.has_ended().await;
        victim.acts_were_before(started);
        stage.leave(&role).await;
    }
    tell("SIGSTOP", took);
}
