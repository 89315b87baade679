//! What holds for every fleet.

use std::collections::BTreeSet;

use nats_elect_core::plan::{Fleet, Plan, Reason, Standing, Unit, explain, plan};

use crate::fleets::{carry_out, fleet, moves, owned};

/// Numbers that are the same for a seed each time (`SplitMix64`).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((it ^ (it >> 31)) >> 32).expect("32 bits") % bound
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    pub fn small(&mut self, bound: usize) -> u32 {
        u32::try_from(self.below(bound)).expect("small")
    }

    /// Some of so many numbers, each with this chance.
    fn some(&mut self, count: usize, chance: usize) -> Vec<usize> {
        (0..count).filter(|_| self.one_in(chance)).collect()
    }

    fn labels(&mut self) -> BTreeSet<String> {
        let labels = self.some(3, 3).into_iter();
        labels
            .map(|it| ["gpu", "ssd", "eu"][it].to_owned())
            .collect()
    }
}

/// A fleet with everything that makes plans hard.
fn any_fleet(seed: u64) -> Fleet {
    let mut random = Random(seed);
    let random = &mut random;
    let (members, units) = (random.below(7), random.below(25));
    let is_told = random.one_in(3);
    let mut fleet = fleet(&format!("{members}x-"), &format!("{units}x-"));
    fleet.rolls = random.one_in(4);
    fleet.limits.moves = 1 + random.below(30);
    for it in &mut fleet.members {
        it.standing = match random.below(7) {
            0 => Standing::Waits,
            1 => Standing::Cordoned,
            2 => Standing::Leaves,
            _ => Standing::Takes,
        };
        it.labels = random.labels();
        it.zone = Some(random.below(3).to_string()).filter(|it| it != "0");
        it.max_units = Some(random.small(9)).filter(|_| random.one_in(3));
        it.version = Some(random.below(2).to_string()).filter(|_| random.one_in(2));
        it.failing = (0..random.below(3)).map(|_| random.below(25)).collect();
    }
    for it in &mut fleet.units {
        it.owner = Some(random.below(8)).filter(|it| *it < members);
        it.in_change = random.one_in(12);
        it.weight = Some(random.small(5_000)).filter(|_| random.one_in(3));
        it.load = Some(random.small(50)).filter(|_| is_told && !random.one_in(4));
        (it.since, it.moved) = (random.below(3) as u64, random.small(3));
        if random.one_in(4) {
            it.requires = random.labels();
        }
        if random.one_in(4) {
            it.prefers = random.labels();
        }
        (it.apart, it.zones) = (random.some(3, 5), random.some(2, 5));
    }
    fleet
}

fn may_take(fleet: &Fleet, unit: &Unit, member: usize) -> bool {
    let it = &fleet.members[member];
    it.standing == Standing::Takes && unit.requires.is_subset(&it.labels)
}

fn has_room(fleet: &Fleet, member: usize) -> bool {
    let owned = owned(fleet)[member];
    let most = fleet.members[member].max_units;
    most.is_none_or(|most| owned < most as usize)
}

/// The first rule that a plan breaks.
fn broken_rule(fleet: &Fleet, after: &Fleet, plan: &Plan) -> Option<String> {
    let could_stay = plan.moves.iter().filter(|it| it.cause >= Reason::Zones);
    let count = could_stay.count();
    if plan.is_spent || plan.evaluated > fleet.limits.budget || count > fleet.limits.moves {
        return Some("a limit".into());
    }
    for it in &plan.moves {
        let unit = &fleet.units[it.unit];
        let may = it.to.is_none_or(|to| may_take(fleet, unit, to));
        if unit.in_change || it.to == unit.owner || !may {
            return Some(format!("{it:?}"));
        }
    }
    let unplaced: BTreeSet<_> = plan.unplaced.iter().map(|it| it.unit).collect();
    for (index, member) in fleet.members.iter().enumerate() {
        let own = || (0..after.units.len()).filter(|it| after.units[*it].owner == Some(index));
        let kept = own().filter(|it| unplaced.contains(it)).count();
        let fixed = own().filter(|it| after.units[*it].in_change).count();
        let most = member
            .max_units
            .map_or(usize::MAX, |it| (it as usize).max(fixed) + kept);
        let leaves = member.standing == Standing::Leaves;
        if own().count() > most || (leaves && own().count() > fixed) {
            return Some(format!("{index} has too many"));
        }
    }
    for (index, unit) in after.units.iter().enumerate() {
        let is_unplaced = unplaced.contains(&index);
        let may = |it: usize| may_take(after, unit, it) && has_room(after, it);
        let somebody = (0..after.members.len()).any(may);
        let nobody = unit.owner.is_none() && !unit.in_change;
        if (nobody && !is_unplaced) || (is_unplaced && somebody) {
            return Some(format!("{index} has no place"));
        }
    }
    None
}

#[test]
fn plans_obey_the_rules_and_come_to_rest() {
    for seed in 0..5_000 {
        let mut fleet = any_fleet(seed);
        for plans in 0.. {
            let it = plan(&fleet);
            assert_eq!(it, plan(&fleet), "seed {seed}: the same plan");
            let mut after = fleet.clone();
            carry_out(&mut after, &it);
            let broken = broken_rule(&fleet, &after, &it);
            assert_eq!(broken, None, "seed {seed}: {}", moves(&it));
            if it.moves.is_empty() {
                break;
            }
            fleet = after;
            assert!(plans < 100, "seed {seed}: no end: {}", moves(&it));
        }
    }
}

#[test]
fn an_explanation_agrees_with_the_plan() {
    for seed in 0..1_000 {
        let fleet = any_fleet(seed);
        let it = plan(&fleet);
        let mut after = fleet.clone();
        carry_out(&mut after, &it);
        for (index, unit) in after.units.iter().enumerate() {
            let told = explain(&fleet, index).expect("a unit");
            let its_move = it.moves.iter().find(|it| it.unit == index);
            let its_lack = it.unplaced.iter().find(|it| it.unit == index);
            assert_eq!(told.moves.as_ref(), its_move);
            assert_eq!(told.unplaced, its_lack.map(|it| it.why));
            for (at, (why, member)) in told.why_not.iter().zip(&after.members).enumerate() {
                let is_there = unit.owner == Some(at);
                let is_right = match why {
                    None => is_there,
                    Some(Reason::Labels) => !unit.requires.is_subset(&member.labels),
                    Some(Reason::Leaves) => member.standing == Standing::Leaves,
                    Some(Reason::Cordoned) => member.standing == Standing::Cordoned,
                    Some(Reason::Waits) => member.standing == Standing::Waits,
                    Some(Reason::Full) => is_there || !has_room(&after, at),
                    Some(Reason::Failing) => member.failing.contains(&index),
                    Some(Reason::Zones) => !unit.zones.is_empty(),
                    Some(Reason::Apart) => !unit.apart.is_empty(),
                    Some(Reason::Preference) => !unit.prefers.is_subset(&member.labels),
                    Some(_) => {
                        may_take(&after, unit, at) && (unit.owner.is_some() || unit.in_change)
                    }
                };
                assert!(is_right, "seed {seed}, unit {index}: {why:?} on {at}");
            }
        }
    }
}
