//! Members join and leave: balance after each, and the fewest moves.

use nats_elect_core::group::policy::{Balanced, Cause, Fleet, Policy, Standing};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::carry_out::{carry_out, settle};
use crate::fleets::{cases, member_id, owned, plain, settings, unlimited, well};

fn difference(fleet: &Fleet) -> usize {
    let counts = owned(fleet);
    counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0)
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn members_differ_by_one_unit_at_most_after_each_join_and_leave(
        units in 1..300_usize,
        members in 1..12_usize,
        changes in vec(any::<(bool, usize)>(), 1..12),
    ) {
        let policy = Balanced::new(unlimited());
        let mut fleet = plain(units, members);
        let plan = policy.plan(&fleet);
        carry_out(&mut fleet, &plan);
        prop_assert!(difference(&fleet) <= 1);
        let mut next = members;
        for (joins, which) in changes {
            let before = fleet.clone();
            if joins || fleet.members.len() == 1 {
                fleet.members.insert(member_id(next), well());
                next += 1;
            } else {
                let id = fleet.members.keys().nth(which % fleet.members.len());
                let id = *id.expect("a member");
                fleet.members.remove(&id);
            }
            let plan = policy.plan(&fleet);
            carry_out(&mut fleet, &plan);
            prop_assert!(difference(&fleet) <= 1);
            prop_assert!(policy.plan(&fleet).moves.is_empty());
            let moves = plan.moves.iter().filter(|it| it.from.is_some()).count();
            let fewest = if fleet.members.len() > before.members.len() {
                units / fleet.members.len()
            } else {
                0
            };
            prop_assert!(moves <= fewest, "{moves} instead of {fewest}");
        }
    }

    #[test]
    fn a_limit_on_moves_leaves_as_much_balance_with_as_few_moves(
        units in 1..300_usize,
        members in 1..12_usize,
        max_moves in 1..20_u32,
    ) {
        let policy = Balanced::new(settings().max_moves(max_moves));
        let mut fleet = plain(units, members);
        let far = fleet.now + std::time::Duration::from_secs(600);
        settle(&mut fleet, &policy, far);
        fleet.members.insert(member_id(members), well());
        let moves: usize = settle(&mut fleet, &policy, far).values().sum();
        prop_assert!(difference(&fleet) <= 1);
        prop_assert_eq!(moves, units / (members + 1));
    }

    #[test]
    fn a_drain_in_waves_moves_each_unit_once(
        units in 1..300_usize,
        members in 2..12_usize,
        max_moves in 1..20_u32,
        leaver in any::<usize>(),
    ) {
        let policy = Balanced::new(settings().max_moves(max_moves));
        let mut fleet = plain(units, members);
        let far = fleet.now + std::time::Duration::from_secs(600);
        settle(&mut fleet, &policy, far);
        let leaver = member_id(leaver % members);
        let owned_by_it = fleet.units.values().filter(|it| it.owner.as_ref() == Some(&leaver));
        let owned_by_it = owned_by_it.count();
        fleet.members.get_mut(&leaver).expect("a member").standing = Standing::Cordoned;
        let plan = policy.plan(&fleet);
        prop_assert!(plan.moves.iter().all(|it| it.cause == Cause::Drain));
        let moves = settle(&mut fleet, &policy, far);
        prop_assert!(moves.values().all(|moves| *moves == 1));
        prop_assert_eq!(moves.len(), owned_by_it);
        fleet.members.remove(&leaver);
        prop_assert!(difference(&fleet) <= 1);
        prop_assert!(policy.plan(&fleet).moves.is_empty());
    }
}
