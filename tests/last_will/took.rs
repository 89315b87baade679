//! How long it takes until the next handler starts, and how long it may.

use std::time::Duration;

use crate::clock::Stamp;
use crate::stage::{Next, Stage};
use crate::victim::Victim;

/// A lease that is long beside everything that a release takes.
pub const LONG: Duration = Duration::from_secs(15);
/// A lease that can be waited for.
pub const SHORT: Duration = Duration::from_secs(2);

const ROUNDS: &str = "LAST_WILL_ROUNDS";

/// How often each end happens.
pub fn rounds(few: u32) -> u32 {
    std::env::var(ROUNDS).map_or(few, |it| it.parse().expect("a number"))
}

/// Whether somebody wants to know how long it takes.
pub fn is_measured() -> bool {
    std::env::var_os(ROUNDS).is_some()
}

/// Checks that the next handler started after the victim's last act, and without a wait for the
/// lease, which is `LONG`. Returns how long that took.
#[track_caller]
pub fn at_once(victim: &Victim, end: Stamp, started: Stamp) -> Duration {
    victim.acts_were_before(started);
    let took = started.since(end);
    assert!(took < LONG / 2, "{took:?}");
    took
}

/// Kills the victim. Its role is led next as [`at_once`] says.
pub async fn dies(victim: &mut Victim, next: &mut Next) -> Duration {
    let at = victim.kill();
    let started = next.started().await;
    at_once(victim, at, started)
}

/// A process dies, and its role `r` is led at once.
pub async fn released(what: &str, stage: &Stage, mut victim: Victim) {
    let mut next = stage.next("r", LONG).await;
    tell(what, vec![dies(&mut victim, &mut next).await]);
    stage.leave("r").await;
}

/// Checks that the lease, which is `SHORT`, was waited for, and not much longer. Returns how long
/// that took.
///
/// The last heartbeat was sent an interval before the end at most. The lease counts from what the
/// candidate received.
#[track_caller]
pub fn with_the_lease(end: Stamp, started: Stamp) -> Duration {
    let took = started.since(end);
    let heartbeat = SHORT / 5;
    assert!(took + heartbeat * 2 >= SHORT, "{took:?}");
    assert!(took < SHORT * 3, "{took:?}");
    took
}

pub fn tell(what: &str, mut took: Vec<Duration>) {
    if let [once] = took[..] {
        return println!("  {what}: {once:?}");
    }
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
