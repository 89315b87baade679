//! The number of moves, compared with all assignments that are as good.

use nats_elect_core::group::policy::{Balanced, Fleet, Policy, Standing};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::carry_out::carry_out;
use crate::fleets::{cases, member_id, owned, plain, unit_id, unlimited};

/// The fewest moves of units with an owner after which the active members differ by one at most.
fn fewest(fleet: &Fleet) -> usize {
    let active: Vec<_> = fleet
        .members
        .iter()
        .filter(|(_, member)| member.standing == Standing::Active)
        .map(|(id, _)| id)
        .collect();
    let owners: Vec<_> = fleet
        .units
        .values()
        .map(|unit| {
            let owner = unit.owner.as_ref();
            let owner = owner.filter(|id| fleet.members.contains_key(*id));
            owner.map(|id| active.iter().position(|other| *other == id))
        })
        .collect();
    let mut least = usize::MAX;
    let all = active.len().pow(u32::try_from(owners.len()).expect("few"));
    for mut number in 0..all {
        let (mut counts, mut moves) = (vec![0_usize; active.len()], 0);
        for owner in &owners {
            let at = number % active.len();
            number /= active.len();
            counts[at] += 1;
            moves += usize::from(owner.is_some_and(|owner| owner != Some(at)));
        }
        let most = counts.iter().max().expect("a member");
        let fewest = counts.iter().min().expect("a member");
        if most - fewest <= 1 {
            least = least.min(moves);
        }
    }
    least
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn equal_units_are_evened_out_with_the_fewest_moves(
        owners in vec(0..6_usize, 1..8),
        members in 2..5_usize,
        cordoned in 0..2_usize,
    ) {
        let mut fleet = plain(owners.len(), members);
        for (n, owner) in owners.iter().enumerate() {
            // Some are dead, and some units never had an owner.
            let unit = fleet.units.get_mut(&unit_id(n)).expect("a unit");
            unit.owner = (*owner < 5).then(|| member_id(*owner));
        }
        if cordoned == 1 {
            let member = fleet.members.get_mut(&member_id(0)).expect("a member");
            member.standing = Standing::Cordoned;
        }
        let plan = Balanced::new(unlimited().band(0)).plan(&fleet);
        let moves = plan.moves.iter().filter(|it| it.from.is_some()).count();
        prop_assert_eq!(moves, fewest(&fleet));
        carry_out(&mut fleet, &plan);
        let counts = &owned(&fleet)[cordoned..];
        let (most, least) = (counts.iter().max(), counts.iter().min());
        prop_assert!(most.expect("one") - least.expect("one") <= 1);
    }
}
