//! A rolling restart: one member after the other is cordoned, leaves when it owns nothing, and
//! returns as a new one.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect_core::group::policy::{Balanced, Fleet, Member, Policy, Standing};
use nats_elect_core::name::UnitName;

use crate::carry_out::carry_out;
use crate::fleets::{member_id, owned, plain, settings};

/// How long an instance is away.
const AWAY: Duration = Duration::from_secs(5);

struct Restart {
    fleet: Fleet,
    policy: Balanced,
    moves: BTreeMap<UnitName, usize>,
}

impl Restart {
    /// Plans and carries out once. Returns whether there was anything to do, or to wait for.
    fn step(&mut self) -> bool {
        let plan = self.policy.plan(&self.fleet);
        for it in &plan.moves {
            *self.moves.entry(it.unit.clone()).or_default() += 1;
        }
        carry_out(&mut self.fleet, &plan);
        self.fleet.now = self.fleet.now + Duration::from_millis(100);
        !plan.moves.is_empty() || !plan.held.is_empty() || plan.again.is_some()
    }

    /// Restarts one after the other. The next one begins when the last one is back, or when all is
    /// at rest.
    fn run(units: usize, members: usize, max_moves: u32, at_rest: bool) -> Self {
        let mut it = Self {
            fleet: plain(units, members),
            policy: Balanced::new(settings().max_moves(max_moves)),
            moves: BTreeMap::new(),
        };
        while it.step() {}
        it.moves.clear();
        for n in 0..members {
            let leaver = it.fleet.members.get_mut(&member_id(n));
            leaver.expect("a member").standing = Standing::Cordoned;
            while owned(&it.fleet)[0] > 0 {
                it.step();
            }
            it.fleet.members.remove(&member_id(n));
            let back = it.fleet.now + AWAY;
            while it.fleet.now < back {
                it.step();
            }
            let returned = Member::new(it.fleet.now);
            it.fleet.members.insert(member_id(members + n), returned);
            while at_rest && it.step() {}
        }
        while it.step() {}
        it
    }
}

fn most(moves: &BTreeMap<UnitName, usize>) -> usize {
    moves.values().copied().max().unwrap_or(0)
}

#[test]
fn each_unit_moves_twice_at_most() {
    for max_moves in [1, 4, 16, 1000] {
        for at_rest in [true, false] {
            let it = Restart::run(256, 10, max_moves, at_rest);
            let owned = owned(&it.fleet);
            let total: usize = it.moves.values().sum();
            println!("{max_moves} at once, at rest {at_rest}: {total} moves, {owned:?}");
            assert!(
                most(&it.moves) <= 2,
                "{max_moves} {at_rest}: {:?}",
                it.moves
            );
            let difference = owned.iter().max().expect("one") - owned.iter().min().expect("one");
            assert!(difference <= 1, "{owned:?}");
        }
    }
}
