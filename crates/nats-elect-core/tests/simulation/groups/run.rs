//! One run of one plan, to its end or to the first broken promise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nats_elect_core::group::LONGEST_LEASE;
use nats_elect_core::group::policy::PolicySettings;

use super::checkers::{Promise, Violation};
use super::plan::Plan;
use super::tally::Tally;
use super::watching::WATCH_ANEW;
use super::world::World;
use crate::seeds::Ending;
use crate::world::ms;

/// Runs a plan, to the end or to the first broken promise.
pub fn run(plan: &Plan, trace: bool) -> Ending<Tally, Violation> {
    match catch_unwind(AssertUnwindSafe(|| strike_and_heal(plan, trace))) {
        Ok(ending) => ending,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Ending {
                violation: Some(Violation {
                    promise: Promise::NoPanic,
                    at: Duration::ZERO,
                    detail: text.unwrap_or_default(),
                }),
                tally: Tally::default(),
                recovery: 0.0,
                simulated: Duration::ZERO,
            }
        }
    }
}

fn strike_and_heal(plan: &Plan, trace: bool) -> Ending<Tally, Violation> {
    let mut world = World::of(plan, trace);
    for blow in &plan.blows {
        world.run(blow.after);
        if world.violation.is_some() {
            break;
        }
        blow.fault.strike(&mut world, blow.node);
    }
    let bound = bound(plan);
    let mut recovery = 0.0;
    if world.violation.is_none() {
        world.heal();
        let start = world.now;
        if let Some(took) = served_within(&mut world, bound, plan) {
            recovery = (took - start).as_secs_f64() / bound.as_secs_f64();
            grows_calm(&mut world, plan);
        } else if world.violation.is_none() {
            let units = world.units();
            let counts: Vec<_> = units
                .iter()
                .map(|unit| format!("{unit}: {}", world.owners(unit)))
                .collect();
            let detail = format!("owners {bound:?} after the last fault: {counts:?}");
            let promise = Promise::EachOwned;
            let at = world.now;
            world.violation = Some(Violation {
                promise,
                at,
                detail,
            });
        }
    }
    Ending {
        violation: world.violation.take(),
        simulated: world.now,
        tally: std::mem::take(&mut world.tally),
        recovery,
    }
}

/// For how long a handler's failure counts.
const FAILURES_COUNT_FOR: Duration = Duration::from_secs(300);

/// How long a unit may be without an owner once faults have stopped. In the worst case:
///
/// - A member's lease ends (one ttl), and it waits for the leases that it finds when it joins again.
/// - A value that nobody understands ages for the longest lease. What is written over it ages for
///   as long. A generation that is to be closed has such units, and its successor's units age
///   meanwhile.
/// - A handler that did not listen is given its stop budget and one ttl. A unit that comes back while it
///   hangs is passed on a stop budget later. One that failed often rests for 32 heartbeats.
/// - Each write may wait for the turns of all members, a heartbeat each, and be refused once. There
///   are up to four of them after one another: a tombstone, a creation, a record, a record over it.
/// - What no watch shows is found when the next watch begins.
fn bound(plan: &Plan) -> Duration {
    let settings = || plan.members.iter().map(|member| &member.settings);
    let ttl = plan.longest_ttl();
    let heartbeat = settings().map(|it| it.heartbeat).max().expect("somebody");
    let stop = settings().map(|it| it.stop_budget).max().expect("somebody");
    let members = u32::try_from(plan.members.len()).expect("a few");
    let turns = heartbeat * (members + 1) * 4;
    // Clocks may be slow by a hundredth.
    (WATCH_ANEW + LONGEST_LEASE * 2 + ttl * 3 + stop * 2 + heartbeat * 32 + turns) * 101 / 100
        + ms(1000)
}

/// Owners that stay. Returns when it came to that.
fn served_within(world: &mut World, bound: Duration, plan: &Plan) -> Option<Duration> {
    let end = world.now + bound;
    loop {
        let left = end.checked_sub(world.now)?;
        if !world.run_until(left, World::is_served) {
            return None;
        }
        let since = world.now;
        let stays = plan.longest_ttl() / 2;
        if !world.run_until(stays, |world| !world.is_served()) && world.violation.is_none() {
            return Some(since);
        }
        if world.violation.is_some() {
            return None;
        }
    }
}

/// When each unit has its owner and no fault is at work, writes come to an end. Records and epochs
/// that nobody needs are waited for during one longest lease. Failures of handlers count for five
/// minutes, after which units may come back for the sake of balance. What was purged may be noticed
/// by the next watch only. A member that was lost before settles then, and units come back to it,
/// with a pause between two rounds of moves.
fn grows_calm(world: &mut World, plan: &Plan) {
    let ttl = plan.longest_ttl();
    let policy = PolicySettings::new(Duration::ZERO);
    let hidden = world.tally.purges + world.tally.losses > 0;
    let unseen = if hidden { WATCH_ANEW } else { Duration::ZERO };
    let moves = policy.settle_after_flap + policy.cool_down * 2;
    world.run(FAILURES_COUNT_FOR + unseen + LONGEST_LEASE + ttl + moves);
    let before = world.checkers.writes;
    world.run(ttl);
    let more = world.checkers.writes - before;
    if more > 0 && world.violation.is_none() {
        world.violation = Some(Violation {
            promise: Promise::FewWrites,
            at: world.now,
            detail: format!("{more} writes in {ttl:?} although nothing happens"),
        });
    }
    if !world.is_served() && world.violation.is_none() {
        world.violation = Some(Violation {
            promise: Promise::EachOwned,
            at: world.now,
            detail: "a unit lost its owner although nothing happens".to_owned(),
        });
    }
    let undead: Vec<_> = world.undead().collect();
    if !undead.is_empty() && world.violation.is_none() {
        world.violation = Some(Violation {
            promise: Promise::EachDeposed,
            at: world.now,
            detail: format!("members without a lease have records: {undead:?}"),
        });
    }
}
