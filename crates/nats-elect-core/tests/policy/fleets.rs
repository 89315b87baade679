//! Fleets to plan for.

use std::collections::BTreeSet;
use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::group::Epoch;
use nats_elect_core::group::policy::{
    Balanced, Fleet, Member, PolicySettings, Round, Standing, Unit,
};
use nats_elect_core::name::UnitName;
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;

/// The time of most plans: everything that began at 0 has settled.
pub const NOW: Moment = Moment::from_nanos(1_000_000_000_000);

pub const HEARTBEAT: Duration = Duration::from_secs(1);

pub fn settings() -> PolicySettings {
    PolicySettings::new(HEARTBEAT)
}

pub fn policy() -> Balanced {
    Balanced::new(settings())
}

/// So many cases, without files of those that failed.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Settings under which nothing waits but for room.
pub fn unlimited() -> PolicySettings {
    settings().max_moves(u32::MAX).cool_down(Duration::ZERO)
}

/// A member that has been well for long.
pub fn well() -> Member {
    Member::new(Moment::from_nanos(0))
}

pub fn unit_named(name: &str) -> UnitName {
    UnitName::new(name).expect("a name")
}

/// An epoch of at most 16 letters. The order is that of the names.
pub fn member_named(name: &str) -> Epoch {
    let mut bytes = [0; 16];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    Epoch::new(bytes)
}

pub fn unit_id(n: usize) -> UnitName {
    unit_named(&format!("{n:05}"))
}

pub fn member_id(n: usize) -> Epoch {
    Epoch::new((n as u128).to_be_bytes())
}

pub fn labels(labels: &[&str]) -> BTreeSet<String> {
    labels.iter().map(|label| (*label).to_owned()).collect()
}

/// Equal units without owners, and members that are well.
pub fn plain(units: usize, members: usize) -> Fleet {
    let mut fleet = Fleet::new(NOW);
    fleet.units = (0..units).map(|n| (unit_id(n), Unit::default())).collect();
    fleet.members = (0..members).map(|n| (member_id(n), well())).collect();
    fleet.round = Round::Over { at: None };
    fleet
}

/// How many units each member owns, in the order of their ids.
pub fn owned(fleet: &Fleet) -> Vec<usize> {
    let ids = fleet.members.keys();
    ids.map(|id| {
        let units = fleet.units.values();
        units.filter(|it| it.owner.as_ref() == Some(id)).count()
    })
    .collect()
}

/// The load of each member, in the order of their ids.
pub fn loads(fleet: &Fleet) -> Vec<u64> {
    let ids = fleet.members.keys();
    ids.map(|id| {
        let units = fleet.units.values();
        let own = units.filter(|it| it.owner.as_ref() == Some(id));
        own.map(|it| u64::from(it.weight.max(1))).sum()
    })
    .collect()
}

const MEMBERS: usize = 6;
const LABELS: [&str; 3] = ["gpu", "ssd", "eu"];

fn some_labels() -> impl Strategy<Value = BTreeSet<String>> {
    btree_set(prop::sample::select(&LABELS[..]), 0..=2)
        .prop_map(|set| set.into_iter().map(str::to_owned).collect())
}

fn few_labels() -> impl Strategy<Value = BTreeSet<String>> {
    prop_oneof![3 => Just(BTreeSet::new()), 1 => some_labels()]
}

prop_compose! {
    fn any_unit()(
        weight in prop_oneof![Just(1000_u32), 0..5000_u32, Just(u32::MAX)],
        requires in few_labels(),
        prefers in few_labels(),
        spread in option::weighted(0.3, prop::sample::select(&["red", "blue"][..])),
        apart in prop_oneof![3 => Just(BTreeSet::new()), 1 => btree_set(0..24_usize, 1..3)],
        failing in prop_oneof![4 => Just(BTreeSet::new()), 1 => btree_set(0..MEMBERS, 1..3)],
        // One of them is no member.
        owner in option::weighted(0.8, 0..=MEMBERS),
        moved in option::of(900..1000_u64),
    ) -> Unit {
        let mut unit = Unit::default()
            .weight(weight)
            .requires(requires)
            .prefers(prefers)
            .apart_from(apart.into_iter().map(unit_id).collect())
            .failing_on(failing.into_iter().map(member_id).collect());
        unit.spread = spread.map(str::to_owned);
        unit.owner = owner.map(member_id);
        unit.moved = moved.map(|seconds| Moment::from_nanos(seconds * 1_000_000_000));
        unit
    }
}

prop_compose! {
    fn any_member()(
        labels in some_labels(),
        zone in option::of(prop::sample::select(&["a", "b", "c"][..])),
        cap in option::weighted(0.4, 0..8_u32),
        standing in prop_oneof![
            6 => Just(Standing::Active), 1 => Just(Standing::Cordoned), 1 => Just(Standing::Silent),
            1 => Just(Standing::Waiting)
        ],
        seconds in prop_oneof![4 => Just(0), 1 => 960..1000_u64],
        flapped in prop::bool::weighted(0.2),
    ) -> Member {
        let since = Moment::from_nanos(seconds * 1_000_000_000);
        let mut member = Member::new(since).labels(labels);
        member = member.standing(standing).flapped(flapped);
        member.zone = zone.map(str::to_owned);
        member.cap = cap;
        member
    }
}

prop_compose! {
    /// A fleet with everything that makes plans hard.
    pub fn any_fleet()(
        units in vec(any_unit(), 0..24),
        members in vec(any_member(), 0..=MEMBERS),
        round in prop_oneof![
            Just(Round::Unknown),
            Just(Round::Open),
            Just(Round::Over { at: None }),
            Just(Round::Over { at: Some(NOW - Duration::from_secs(3)) }),
        ],
        under_way in prop::collection::btree_map(0..24_usize, 0..=MEMBERS, 0..4),
    ) -> Fleet {
        let mut fleet = Fleet::new(NOW);
        fleet.units = units.into_iter().enumerate().map(|(n, it)| (unit_id(n), it)).collect();
        fleet.members = members.into_iter().enumerate().map(|(n, it)| (member_id(n), it)).collect();
        fleet.under_way = under_way
            .into_iter()
            .map(|(unit, member)| (unit_id(unit), member_id(member)))
            .filter(|(unit, _)| fleet.units.contains_key(unit))
            .collect();
        fleet.round = round;
        fleet
    }
}

prop_compose! {
    /// Units of different weights, without other rules. Nothing weighs more than a twentieth of a fair
    /// share.
    pub fn weighted_fleet()(
        weights in vec(200..=1000_u32, 200..300),
        members in 1..5_usize,
        seed in any::<u32>(),
        owned in any::<bool>(),
    ) -> Fleet {
        let mut fleet = Fleet::new(NOW);
        for n in 0..members {
            fleet.members.insert(member_id(n), well());
        }
        for (n, weight) in weights.into_iter().enumerate() {
            let mut unit = Unit::default().weight(weight);
            if owned {
                let at = (seed >> (n % 28)) as usize % members;
                unit.owner = Some(member_id(at));
            }
            fleet.units.insert(unit_id(n), unit);
        }
        fleet.round = Round::Over { at: None };
        fleet
    }
}
