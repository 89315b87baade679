//! Balance: how even it gets, by how many moves, and what loads do to it.

use nats_elect_core::plan::{Fleet, Member, Standing, Unit, plan};

use crate::fleets::{carry_out, fleet, owned, remove, settle, spread};
use crate::random::Random;

/// The fewest moves of units with an owner after which the members that take units differ by one at most.
fn fewest(fleet: &Fleet) -> usize {
    let takes: Vec<_> = (0..fleet.members.len())
        .filter(|it| fleet.members[*it].standing == Standing::Takes)
        .collect();
    let mut least = usize::MAX;
    let all = takes
        .len()
        .pow(u32::try_from(fleet.units.len()).expect("few"));
    for mut number in 0..all {
        let (mut counts, mut moves) = (vec![0_usize; takes.len()], 0);
        for unit in &fleet.units {
            let at = number % takes.len();
            number /= takes.len();
            counts[at] += 1;
            moves += usize::from(unit.owner.is_some_and(|it| it != takes[at]));
        }
        if spread(&counts) <= 1 {
            least = least.min(moves);
        }
    }
    least
}

#[test]
fn equal_units_are_evened_out_with_the_fewest_moves() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let members = 2 + random.below(3);
        let mut fleet = fleet(&format!("{members}x-"), "");
        for _ in 0..=random.below(7) {
            let owner = Some(random.below(members + 1)).filter(|it| *it < members);
            fleet.units.push(Unit {
                owner,
                ..Unit::default()
            });
        }
        if random.below(3) == 0 {
            fleet.members[0].standing = Standing::Leaves;
        }
        let fewest = fewest(&fleet);
        assert_eq!(settle(&mut fleet), fewest, "seed {seed}");
        let leaves = usize::from(fleet.members[0].standing == Standing::Leaves);
        assert!(spread(&owned(&fleet)[leaves..]) <= 1, "seed {seed}");
    }
}

#[test]
fn members_differ_by_one_unit_at_most_after_each_join_and_leave() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let units = 1 + random.below(300);
        let mut fleet = fleet("2x-", &format!("{units}x-"));
        fleet.limits.moves = 1 + random.below(40);
        settle(&mut fleet);
        for _ in 0..12 {
            let members = fleet.members.len();
            let mut least = 0;
            match random.below(3) {
                0 if members > 1 => remove(&mut fleet, random.below(members)),
                1 if members > 1 => {
                    let leaver = random.below(members);
                    least = owned(&fleet)[leaver];
                    fleet.members[leaver].standing = Standing::Leaves;
                    let first = plan(&fleet);
                    assert_eq!(first.moves.len(), least, "one map for all");
                    assert_eq!(settle(&mut fleet), least);
                    remove(&mut fleet, leaver);
                    least = 0;
                }
                _ => {
                    fleet.members.push(Member::default());
                    least = units / (members + 1);
                }
            }
            assert_eq!(settle(&mut fleet), least, "seed {seed}: the fewest moves");
            assert!(
                spread(&owned(&fleet)) <= 1,
                "seed {seed}: {:?}",
                owned(&fleet)
            );
        }
    }
}

#[test]
fn weights_are_evened_out_to_a_tenth_of_the_mean() {
    for seed in 0..50 {
        let mut random = Random(seed);
        let members = 2 + random.below(4);
        let mut fleet = fleet(&format!("{members}x-"), "");
        for _ in 0..200 + random.below(100) {
            let owner = Some(random.below(members)).filter(|_| seed % 2 == 0);
            let weight = u32::try_from(200 + random.below(800)).ok();
            fleet.units.push(Unit {
                owner,
                weight,
                ..Unit::default()
            });
        }
        settle(&mut fleet);
        let after = plan(&fleet).after;
        let total: u64 = fleet
            .units
            .iter()
            .map(|it| u64::from(it.weight.expect("one")))
            .sum();
        let mean = total / members as u64;
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
            unit.load = Some(80 + u32::try_from(random.below(40)).expect("small"));
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
