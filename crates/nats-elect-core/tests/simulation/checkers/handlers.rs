//! A handler never runs outside its own valid lease, except within the scheduling allowance after a
//! revocation, after a pause of its whole process that was longer than the lease, or in an overrun
//! that was told of.

use std::time::Duration;

use nats_elect_core::{Effect, Moment, TermId, TermStart};

use super::{Note, demand};
use crate::node::{Node, SharedTerm};
use crate::world::World;

pub fn hear(world: &World, note: &Note) -> Result<(), String> {
    match note {
        // Timers of this very instant may still come.
        Note::Moved { instant_over: true } => {
            for (i, node) in world.nodes.iter().enumerate() {
                within_leases(world, i, node)?;
            }
            Ok(())
        }
        Note::Wants {
            node,
            effect: Effect::StartTerm(start),
        } => starts(world, *node, start),
        _ => Ok(()),
    }
}

fn within_leases(world: &World, i: usize, node: &Node) -> Result<(), String> {
    if node.paused {
        return Ok(());
    }
    let now = node.clock.at(world.now);
    for (id, term) in node.terms.iter().filter(|(_, term)| term.running) {
        demand(
            term.is_valid(now) || excused(world, node, term, now),
            || format!("node-{i}'s handler of {id:?} runs outside its lease: {term:?}"),
        )?;
    }
    Ok(())
}

fn excused(world: &World, node: &Node, term: &SharedTerm, now: Moment) -> bool {
    let allowance =
        node.settings.abort_allowance() * 2 + world.timer_lag.end + Duration::from_millis(1);
    let revoked = term.revoked.is_some_and(|at| world.now <= at + allowance);
    let told = term.overrun || now < term.lease + world.timer_lag.end;
    let blocks = term.handler.aborts_in.is_none() && term.aborted.is_some() && told;
    // A process that was paused through its deadline aborts the moment it wakes.
    let just_aborted = term
        .aborted
        .is_some_and(|at| world.now <= at + term.handler.aborts_in.unwrap_or_default());
    revoked || blocks || just_aborted
}

fn starts(world: &World, i: usize, start: &TermStart) -> Result<(), String> {
    let node = &world.nodes[i];
    let now = node.clock.at(world.now);
    let TermId(id) = start.term;
    demand(!node.runs_handler(), || {
        format!("node-{i} starts a second handler, for term {id}")
    })?;
    demand(!node.terms.contains_key(&start.term), || {
        format!("node-{i} starts term {id} twice")
    })?;
    demand(now < start.lease - node.settings.stop_budget, || {
        format!("node-{i} starts term {id} too late to wind it down in time")
    })
}
