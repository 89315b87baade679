//! Balance: how even it gets, by how many moves, and what loads do to it.

use std::cmp::Reverse;

use nats_elect_core::plan::{Fleet, Member, Standing, plan};

use crate::fleets::{carry_out, fleet, owned, remove, settle, spread};
use crate::random::Random;

/// The fewest moves of units with an owner after which the members that take units differ by one at most.
fn fewest(fleet: &Fleet) -> usize {
    let members = owned(fleet).into_iter().zip(&fleet.members);
    let (takers, others): (Vec<_>, Vec<_>) =
        members.partition(|it| it.1.standing == Standing::Takes);
    let mut counts: Vec<_> = takers.iter().map(|it| it.0).collect();
    counts.sort_unstable_by_key(|it| Reverse(*it));
    let (each, rest) = (
        fleet.units.len() / counts.len(),
        fleet.units.len() % counts.len(),
    );
    let parts = counts.iter().enumerate();
    let surplus = parts.map(|(index, it)| it.saturating_sub(each + usize::from(index < rest)));
    surplus.sum::<usize>() + others.iter().map(|it| it.0).sum::<usize>()
}

#[test]
fn members_differ_by_one_unit_at_most_after_each_change_by_the_fewest_moves() {
    for seed in 0..100 {
        let mut random = Random(seed);
        let units = 1 + random.below(if seed % 2 == 0 { 10 } else { 300 });
        let mut fleet = fleet("4x-", &format!("{units}x-"));
        fleet.limits.moves = 1 + random.below(40);
        for unit in &mut fleet.units {
            unit.owner = Some(random.below(5)).filter(|it| *it < 4);
        }
        for _ in 0..12 {
            let which = random.below(fleet.members.len());
            let has_others = fleet.members.len() > 1;
            match random.below(4) {
                0 if has_others => remove(&mut fleet, which),
                1 if has_others => fleet.members[which].standing = Standing::Leaves,
                _ => fleet.members.push(Member::default()),
            }
            let fewest = fewest(&fleet);
            assert_eq!(settle(&mut fleet), fewest, "seed {seed}");
            if fleet.members.len() > which && fleet.members[which].standing == Standing::Leaves {
                remove(&mut fleet, which);
            }
            let owned = owned(&fleet);
            assert!(spread(&owned) <= 1, "seed {seed}: {owned:?}");
        }
    }
}

#[test]
fn weights_are_evened_out_to_a_tenth_of_the_mean() {
    for seed in 0..50 {
        let mut random = Random(seed);
        let members = 2 + random.below(4);
        let mut total = 0;
        let mut unit = || {
            let weight = 200 + random.below(800);
            total += weight as u64;
            let owner = random.below(members + 1);
            format!(
                "{},w={weight}",
                if owner < members {
                    owner.to_string()
                } else {
                    "-".into()
                }
            )
        };
        let units: Vec<_> = (0..250).map(|_| unit()).collect();
        let mut fleet = fleet(&format!("{members}x-"), &units.join(" "));
        settle(&mut fleet);
        let (after, mean) = (plan(&fleet).after, total / members as u64);
        assert!(after.most <= mean * 106 / 100, "seed {seed}: {after:?}");
        assert!(after.least >= mean * 94 / 100, "seed {seed}: {after:?}");
    }
}

#[test]
fn loads_that_change_move_few_units() {
    let mut random = Random(7);
    let mut fleet = fleet("10x-", "256x-");
    settle(&mut fleet);
    let mut moved = 0;
    for _ in 0..200 {
        for unit in &mut fleet.units {
            unit.load = Some(80 + random.small(40));
        }
        moved += settle(&mut fleet);
    }
    assert!(moved <= 10, "{moved} moves by noise of a fifth");
    // One shard is as heavy as twenty: its owner keeps few others.
    fleet.units[0].load = Some(2_000);
    settle(&mut fleet);
    let (owner, after) = (fleet.units[0].owner.expect("one"), plan(&fleet).after);
    assert!(owned(&fleet)[owner] < 16, "{:?}", owned(&fleet));
    assert!(after.most * 100 <= after.least * 125, "{after:?}");
}

#[test]
fn loads_have_any_measure_and_unknown_ones_count_as_the_weight() {
    for unit in [1, 1_000_000] {
        let units = format!("4x0,load={unit} 4x1,load={unit} 2x2");
        let mut it = fleet("3x-", &units);
        settle(&mut it);
        assert!(spread(&owned(&it)) <= 1, "{:?}", owned(&it));
    }
    let idle = fleet("2x-", "4x0,load=0");
    assert_eq!(plan(&idle).moves.len(), 2, "idle units are spread, too");
}

#[test]
fn a_plan_moves_no_more_than_it_may_and_all_that_must() {
    let mut it = fleet("leaves 3x-", "100x0 200x1 50x-");
    it.limits.moves = 5;
    let first = plan(&it);
    assert_eq!(first.moves.len(), 155);
    assert!(first.after.most < first.before.most);
    carry_out(&mut it, &first);
    assert_eq!(plan(&it).moves.len(), 5);
}
