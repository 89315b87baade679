//! Carrying plans out.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::group::policy::{Fleet, Plan, Policy};
use nats_elect_core::name::UnitName;

/// Carries out all moves of a plan at once, and takes over the state of its round.
pub fn carry_out(fleet: &mut Fleet, plan: &Plan) {
    for it in &plan.moves {
        let unit = fleet.units.get_mut(&it.unit).expect("a unit");
        unit.owner = Some(it.to);
        unit.moved = Some(fleet.now);
        fleet.under_way.remove(&it.unit);
        // A record each, one after the other.
        fleet.now = fleet.now + Duration::from_micros(1);
    }
    fleet.round = plan.round;
}

/// All units whose moves under way have ended where they were to go.
pub fn arrive(fleet: &mut Fleet) {
    for (unit, to) in std::mem::take(&mut fleet.under_way) {
        if fleet.members.contains_key(&to) {
            let unit = fleet.units.get_mut(&unit).expect("a unit");
            unit.owner = Some(to);
            unit.moved = Some(fleet.now);
        }
    }
}

/// Plans and carries out, until nothing is left to do and nothing to wait for before `until`.
/// Returns how often each unit moved that had an owner.
pub fn settle(fleet: &mut Fleet, policy: &impl Policy, until: Moment) -> BTreeMap<UnitName, usize> {
    let mut moves = BTreeMap::new();
    for _ in 0..10_000 {
        let plan = policy.plan(fleet);
        for it in plan.moves.iter().filter(|it| it.from.is_some()) {
            *moves.entry(it.unit.clone()).or_default() += 1;
        }
        carry_out(fleet, &plan);
        if plan.moves.is_empty() {
            match plan.again {
                Some(again) if again <= until => fleet.now = again.max(fleet.now),
                _ => return moves,
            }
        }
    }
    panic!("plans come to no end: {:?}", policy.plan(fleet));
}
