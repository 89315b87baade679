//! What holds for every fleet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::group::Epoch;
use nats_elect_core::group::policy::{
    Balanced, Fleet, Hold, Member, Plan, Policy, Standing, Unit, Verdict,
};
use nats_elect_core::name::UnitName;
use proptest::prelude::*;

use crate::carry_out::{arrive, carry_out, settle};
use crate::fleets::{any_fleet, cases, loads, settings, unlimited, weighted_fleet};

fn settled_at(member: &Member) -> Moment {
    let settings = settings();
    member.since
        + if member.flapped {
            settings.settle_after_flap
        } else {
            settings.settle
        }
}

fn takes_now(fleet: &Fleet, unit: &Unit, member: &Member) -> bool {
    member.standing == Standing::Active
        && settled_at(member) <= fleet.now
        && unit.requires.is_subset(&member.labels)
}

/// The units that a member has, or will have by the moves under way.
fn held_by(fleet: &Fleet, id: &Epoch) -> usize {
    let units = fleet.units.iter();
    units
        .filter(|(unit, it)| {
            let coming = fleet.under_way.get(*unit) == Some(id)
                && fleet.members[id].standing == Standing::Active;
            it.owner.as_ref() == Some(id) || coming
        })
        .count()
}

/// Whether the move under way of this unit is not planned anew.
fn is_locked(fleet: &Fleet, unit: &UnitName) -> bool {
    let to = fleet.under_way.get(unit);
    let member = to.and_then(|to| fleet.members.get(to));
    member.is_some_and(|member| member.standing == Standing::Active)
        && fleet.units[unit].owner.as_ref() != to
}

fn obeys_the_rules(fleet: &Fleet, plan: &Plan) -> Result<(), TestCaseError> {
    let mut moved = BTreeSet::new();
    let mut come: BTreeMap<&Epoch, usize> = BTreeMap::new();
    let mut counted = 0;
    for it in &plan.moves {
        let (unit, member) = (&fleet.units[&it.unit], &fleet.members[&it.to]);
        prop_assert!(moved.insert(&it.unit), "one move per unit");
        prop_assert!(!is_locked(fleet, &it.unit), "not while it moves");
        prop_assert!(takes_now(fleet, unit, member), "{it:?}");
        let owner = unit
            .owner
            .as_ref()
            .filter(|id| fleet.members.contains_key(*id));
        prop_assert_eq!(owner, it.from.as_ref());
        prop_assert_ne!(owner, Some(&it.to));
        if let Some(owner) = owner {
            let standing = fleet.members[owner].standing;
            prop_assert!(!matches!(standing, Standing::Silent | Standing::Waiting));
        }
        prop_assert_eq!(it.cause.is_exempt(), owner.is_none());
        counted += usize::from(owner.is_some());
        *come.entry(&it.to).or_default() += 1;
    }
    for (id, come) in come {
        let cap = fleet.members[id].cap.map_or(usize::MAX, |cap| cap as usize);
        prop_assert!(
            held_by(fleet, id) + come <= cap,
            "more than its cap on {id}"
        );
    }
    let already = fleet.under_way.keys().filter(|unit| {
        let owner = fleet.units[*unit].owner.as_ref();
        is_locked(fleet, unit) && owner.is_some_and(|id| fleet.members.contains_key(id))
    });
    let already = already.count();
    prop_assert!(counted == 0 || counted + already <= settings().max_moves as usize);
    Ok(())
}

/// Whether a unit without an owner could still be given to a member as it is.
fn one_is_left_over(fleet: &Fleet, plan: &Plan) -> Option<String> {
    let mut after = fleet.clone();
    for it in &plan.moves {
        after.under_way.insert(it.unit.clone(), it.to);
    }
    for (id, unit) in &after.units {
        let owned = unit
            .owner
            .as_ref()
            .is_some_and(|id| after.members.contains_key(id));
        if owned || is_locked(&after, id) {
            continue;
        }
        let held = plan.held.iter().find(|held| &held.planned.unit == id);
        if held.is_some_and(|held| held.hold == Hold::Room) {
            // Another unit makes room for it.
            continue;
        }
        for (member, it) in &after.members {
            let cap = it.cap.map_or(usize::MAX, |cap| cap as usize);
            if takes_now(&after, unit, it) && held_by(&after, member) < cap {
                return Some(format!("{member} could take {id}"));
            }
        }
    }
    None
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn plans_obey_labels_caps_standing_settling_and_the_limit(fleet in any_fleet()) {
        for max_moves in [1, 3] {
            let settings = settings().max_moves(max_moves);
            let plan = Balanced::new(settings).plan(&fleet);
            obeys_the_rules(&fleet, &plan)?;
        }
    }

    #[test]
    fn a_unit_without_an_owner_is_given_to_whoever_may_take_it(fleet in any_fleet()) {
        let plan = Balanced::new(settings()).plan(&fleet);
        prop_assert_eq!(one_is_left_over(&fleet, &plan), None);
        // Each one has a move now, later, or a reason.
        for (id, unit) in &fleet.units {
            let owned = unit.owner.as_ref().is_some_and(|id| fleet.members.contains_key(id));
            let moves = plan.moves.iter().filter(|it| &it.unit == id).count();
            let held = plan.held.iter().filter(|it| &it.planned.unit == id).count();
            let unplaced = plan.unplaced.iter().filter(|it| &it.unit == id).count();
            prop_assert!(moves + held + unplaced <= 1);
            prop_assert!(owned || is_locked(&fleet, id) || moves + held + unplaced == 1);
        }
    }

    #[test]
    fn no_room_is_left_where_units_have_no_place(fleet in any_fleet()) {
        let mut fleet = fleet;
        fleet.under_way.clear();
        for unit in fleet.units.values_mut() {
            unit.owner = None;
        }
        let plan = Balanced::new(settings()).plan(&fleet);
        prop_assert_eq!(plan.moves.len(), most_placed(&fleet));
    }

    #[test]
    fn a_plan_that_was_carried_out_leaves_nothing_to_do(fleet in any_fleet()) {
        let mut fleet = fleet;
        arrive(&mut fleet);
        // Nothing that waits for time.
        for member in fleet.members.values_mut() {
            member.since = Moment::from_nanos(0);
        }
        let policy = Balanced::new(unlimited());
        let mut states = BTreeSet::new();
        loop {
            let plan = policy.plan(&fleet);
            if plan.moves.is_empty() {
                break;
            }
            // With room for all it seldom takes more than one plan, and never many.
            prop_assert!(states.len() < 20);
            carry_out(&mut fleet, &plan);
            let owners: Vec<_> = fleet.units.values().map(|unit| unit.owner).collect();
            prop_assert!(states.insert(owners), "in a circle");
        }
    }

    #[test]
    fn limits_and_time_change_nothing_about_the_end(fleet in any_fleet()) {
        let mut fleet = fleet;
        arrive(&mut fleet);
        let policy = Balanced::new(settings().max_moves(1));
        let far = fleet.now + Duration::from_secs(3_600);
        settle(&mut fleet, &policy, far);
        // Without limits there is nothing to do either.
        let plan = Balanced::new(unlimited()).plan(&fleet);
        prop_assert_eq!(&plan.moves, &[]);
        // Only units that must change places between full members still wait, and others for them.
        let mut held = plan.held.iter();
        let waits = held.any(|it| it.hold == Hold::Room && !it.planned.cause.is_improvement());
        prop_assert!(waits || plan.held.is_empty(), "{:?}", plan.held);
    }

    #[test]
    fn an_explanation_tells_what_the_plan_does(fleet in any_fleet()) {
        let policy = Balanced::new(settings());
        let plan = policy.plan(&fleet);
        for id in fleet.units.keys() {
            let told = policy.explain(&fleet, id).expect("a unit");
            prop_assert_eq!(told.choices.len(), fleet.members.len());
            let now = plan.moves.iter().find(|it| &it.unit == id);
            match told.verdict {
                Verdict::Moves { to, cause } => {
                    let now = now.expect("a move");
                    prop_assert_eq!((&now.to, now.cause), (&to, cause));
                    let choice = told.choices.iter().find(|choice| choice.member == to);
                    prop_assert_eq!(&choice.expect("a member").refusal, &None);
                }
                Verdict::UnderWay(to) => prop_assert_eq!(&fleet.under_way[id], &to),
                Verdict::Held { .. } => {
                    prop_assert!(plan.held.iter().any(|it| &it.planned.unit == id));
                }
                Verdict::Unplaced(why) => {
                    let unplaced = plan.unplaced.iter().find(|it| &it.unit == id);
                    prop_assert_eq!(&unplaced.expect("no place").why, &why);
                }
                _ => prop_assert!(now.is_none()),
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(fleet in any_fleet()) {
        let mut other = Fleet::new(fleet.now);
        other.units.extend(fleet.units.clone().into_iter().rev());
        other.members.extend(fleet.members.clone().into_iter().rev());
        other.under_way.extend(fleet.under_way.clone().into_iter().rev());
        other.round = fleet.round;
        let policy = Balanced::new(settings());
        let plan = policy.plan(&fleet);
        prop_assert_eq!(&plan, &policy.plan(&other));
        prop_assert_eq!(&plan, &policy.plan(&fleet));
    }
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn loads_are_within_the_band_where_weights_allow_it(fleet in weighted_fleet()) {
        let mut fleet = fleet;
        let policy = Balanced::new(unlimited());
        let plan = policy.plan(&fleet);
        carry_out(&mut fleet, &plan);
        prop_assert!(plan.after.most <= 1100, "{:?}", plan.after);
        prop_assert!(plan.after.least >= 900, "{:?}", plan.after);
        let total: u64 = loads(&fleet).iter().sum();
        let count = fleet.members.len() as u64;
        for load in loads(&fleet) {
            // The imbalance is in whole thousandths.
            prop_assert!(load * count * 1000 < total * 1101);
        }
        prop_assert!(policy.plan(&fleet).moves.is_empty());
    }
}

/// How many units can have an owner at once: augmenting paths over single places.
fn most_placed(fleet: &Fleet) -> usize {
    let units: Vec<_> = fleet.units.values().collect();
    let mut places = Vec::new();
    for member in fleet.members.values() {
        let cap = member.cap.map_or(units.len(), |cap| cap as usize);
        places.extend(std::iter::repeat_n(member, cap.min(units.len())));
    }
    let mut taken = vec![None; places.len()];
    (0..units.len())
        .filter(|unit| {
            let mut seen = vec![false; places.len()];
            find_place(fleet, &units, &places, *unit, &mut seen, &mut taken)
        })
        .count()
}

fn find_place(
    fleet: &Fleet,
    units: &[&Unit],
    places: &[&Member],
    unit: usize,
    seen: &mut [bool],
    taken: &mut [Option<usize>],
) -> bool {
    for place in 0..places.len() {
        if seen[place] || !takes_now(fleet, units[unit], places[place]) {
            continue;
        }
        seen[place] = true;
        let free = match taken[place] {
            None => true,
            Some(other) => find_place(fleet, units, places, other, seen, taken),
        };
        if free {
            taken[place] = Some(unit);
            return true;
        }
    }
    false
}
