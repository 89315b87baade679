//! One run of one plan, to its end or to the first broken promise.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use nats_elect_core::config::RoleSettings;

use crate::checkers::{Promise, Violation};
use crate::plan::{Kind, Plan};
use crate::seeds::Ending;
use crate::tally::Tally;
use crate::world::{World, ms};

/// Runs a plan, to the end or to the first broken promise.
pub fn run(plan: &Plan) -> Ending<Tally, Violation> {
    attempt(plan, false)
}

/// Runs a plan and prints all that happens in it.
pub fn tell(plan: &Plan) -> Option<Violation> {
    attempt(plan, true).violation
}

fn attempt(plan: &Plan, trace: bool) -> Ending<Tally, Violation> {
    match catch_unwind(AssertUnwindSafe(|| strike_and_heal(plan, trace))) {
        Ok(ending) => ending,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
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
    let mut world = plan.world();
    world.trace |= trace;
    for blow in &plan.blows {
        world.run(blow.after);
        if world.violation.is_some() {
            break;
        }
        blow.fault.strike(&mut world, blow.node);
    }
    let bound = bound(plan, &world);
    let mut recovery = 0.0;
    if world.violation.is_none() {
        world.heal();
        match leads_within(&mut world, bound) {
            Some(took) => recovery = took.as_secs_f64() / bound.as_secs_f64(),
            None if world.violation.is_none() => {
                world.violation = Some(Violation {
                    promise: Promise::SomebodyLeads,
                    at: world.now,
                    detail: format!("nobody leads {bound:?} after the last fault"),
                });
            }
            None => {}
        }
    }
    Ending {
        violation: world.violation.take(),
        simulated: world.now,
        tally: std::mem::take(&mut world.tally),
        recovery,
    }
}

/// How long a role may be without a leader once faults have stopped: two leases of the longest that
/// anybody claims (one for what stands there, and one where a refused claim or fence record shows
/// that somebody led meanwhile), where keys expire the expiry on top, the longest cool-down, the
/// longest pause between two attempts, and a few round trips.
///
/// Where no fence record is left, a record that no leader wrote is waited for longer: four leases.
fn bound(plan: &Plan, world: &World) -> Duration {
    let settings = || world.nodes.iter().map(|node| &node.settings);
    let longest = settings().map(|s| s.ttl).max().expect("somebody");
    let lease = if world.bucket.fence().is_none() {
        longest * 4
    } else {
        longest
    };
    let aged = match plan.kind {
        Kind::Aging { max_age, .. } => max_age + plan.expiry_late,
        _ => Duration::ZERO,
    };
    let cooldown = settings().map(|s| s.max_cooldown).max().expect("somebody");
    let backoff = settings()
        .map(|s| s.retry.max_backoff)
        .max()
        .expect("somebody");
    let timeout = settings()
        .map(|s| s.request_timeout)
        .max()
        .expect("somebody");
    let slow = plan.slow.unwrap_or_default();
    // A role that was handed over is left to its heir for so long.
    let hold = settings().map(RoleSettings::handoff_hold).max();
    let hold = hold.expect("somebody");
    let waits = lease + longest + aged * 2 + cooldown + backoff * 11 / 10 + hold;
    // Clocks may be slow by a hundredth.
    (waits + timeout * 8 + slow * 24) * 101 / 100 + ms(300)
}

/// A leader that stays. Returns how long it took.
fn leads_within(world: &mut World, bound: Duration) -> Option<Duration> {
    let start = world.now;
    let stay = world.nodes.iter().map(|node| node.settings.ttl).max()? / 2;
    loop {
        let left = (start + bound).checked_sub(world.now)?;
        world.run_until(left, |world| world.leader().is_some())?;
        let (leader, since) = (world.leader(), world.now);
        world.run(stay);
        if world.violation.is_some() {
            return None;
        }
        if world.leader() == leader {
            return Some(since - start);
        }
    }
}
