//! A rolling restart to a new version.

use nats_elect_core::plan::{Fleet, Standing, plan};

use crate::fleets::{carry_out, fleet, owned, remove, settle, spread};

/// How a restart goes: whether the new one comes before the old one leaves, whether it tells a newer
/// version, and whether the coordinator knows how often each unit moved.
type Way = [bool; 3];

/// Restarts ten members with 256 units, one after the other. Returns how often each unit moved that had
/// an owner, and how many units each member owns in the end.
fn restart([has_spare, is_newer, is_known]: Way) -> (Vec<u32>, Vec<usize>) {
    let mut it = fleet("10xv=1", "256x-");
    settle(&mut it);
    it.rolls = true;
    let (mut moved, mut sequence) = (vec![0; 256], 0);
    let mut rest = |it: &mut Fleet| {
        while let next = plan(it)
            && !next.moves.is_empty()
        {
            for of in &next.moves {
                moved[of.unit] += u32::from(it.units[of.unit].owner.is_some());
            }
            carry_out(it, &next);
            for (unit, moved) in it.units.iter_mut().zip(&moved) {
                unit.moved = if is_known { *moved } else { 0 };
            }
            sequence += 1;
            for of in &next.moves {
                it.units[of.unit].since = sequence;
            }
        }
    };
    let new = fleet(if is_newer { "v=2" } else { "v=1" }, "").members;
    for _ in 0..10 {
        if has_spare {
            it.members.extend(new.clone());
            rest(&mut it);
        }
        it.members[0].standing = Standing::Leaves;
        rest(&mut it);
        assert_eq!(owned(&it)[0], 0);
        remove(&mut it, 0);
        if !has_spare {
            rest(&mut it);
            it.members.extend(new.clone());
            rest(&mut it);
        }
    }
    (moved, owned(&it))
}

#[test]
fn a_restart_of_all_moves_few_units() {
    // The most moves of all units, and of one.
    let ways = [
        ([true, true, true], 256, 1),
        ([true, true, false], 256, 1),
        ([false, true, true], 308, 2),
        ([false, true, false], 308, 3),
        ([false, false, false], 512, 2),
    ];
    for (way, all, each) in ways {
        let (moved, owned) = restart(way);
        let (total, most) = (moved.iter().sum::<u32>(), moved.iter().max());
        let often = moved.iter().filter(|it| **it > 2).count();
        println!(
            "spare, newer, known: {way:?}: {total} moves, at most {most:?}, {often} more than twice, {owned:?}"
        );
        assert!(total <= all && most <= Some(&each), "{total}, {most:?}");
        assert!(spread(&owned) <= 1, "{owned:?}");
    }
}

#[test]
fn a_new_version_gets_its_part_when_nobody_came_or_went_for_a_while() {
    let mut it = fleet("9xv=1", "90x-");
    settle(&mut it);
    it.members.extend(fleet("v=2", "").members);
    it.rolls = true;
    assert_eq!(plan(&it).moves, []);
    it.rolls = false;
    assert_eq!(settle(&mut it), 9);
    assert_eq!(owned(&it)[9], 9);
}
