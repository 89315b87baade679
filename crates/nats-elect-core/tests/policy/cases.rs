//! Fleets that users will have, by name.

use nats_elect_core::group::Epoch;
use nats_elect_core::group::policy::{
    Balanced, Cause, Fleet, Imbalance, Member, Plan, Policy, Refusal, Round, Standing, Unfit, Unit,
    Verdict,
};

use crate::carry_out::carry_out;
use crate::fleets::{
    NOW, labels, loads, member_id, member_named, owned, plain, policy, settings, unit_id,
    unit_named, unlimited, well,
};

fn fleet(units: &[(&str, Unit)], members: &[(&str, Member)]) -> Fleet {
    let mut fleet = Fleet::new(NOW);
    let units = units.iter().cloned();
    fleet.units = units.map(|(id, it)| (unit_named(id), it)).collect();
    let members = members.iter().cloned();
    fleet.members = members.map(|(id, it)| (member_named(id), it)).collect();
    fleet.round = Round::Over { at: None };
    fleet
}

fn at(member: &str) -> Unit {
    Unit::default().owner(member_named(member))
}

fn to_of(plan: &Plan, unit: &str) -> Option<Epoch> {
    let it = plan.moves.iter().find(|it| it.unit.as_str() == unit)?;
    Some(it.to)
}

#[test]
fn three_roles_are_spread_over_three_instances() {
    let roles = [
        ("metrics", Unit::default()),
        ("network", Unit::default()),
        ("scheduler", Unit::default()),
    ];
    let mut it = fleet(&roles, &[("a", well()), ("b", well()), ("c", well())]);
    let plan = policy().plan(&it);
    assert!(plan.moves.iter().all(|it| it.cause == Cause::Unowned));
    carry_out(&mut it, &plan);
    assert_eq!(owned(&it), [1, 1, 1]);
    // One dies: its role goes to one of the others, and nothing else moves.
    it.members.remove(&member_named("b"));
    let plan = policy().plan(&it);
    assert_eq!(plan.moves.len(), 1);
    carry_out(&mut it, &plan);
    // It returns: it gets a role back.
    it.members.insert(member_named("b2"), well());
    let plan = policy().plan(&it);
    assert_eq!(plan.moves.len(), 1);
    carry_out(&mut it, &plan);
    assert_eq!(owned(&it), [1, 1, 1]);
}

#[test]
fn units_are_kept_apart_also_at_the_cost_of_balance() {
    let network = labels(&["network"]);
    let apart = network.iter().map(|id| unit_named(id)).collect();
    let roles = [
        ("metrics", at("b").weight(3000)),
        ("network", at("a")),
        ("scheduler", at("a").apart_from(apart)),
    ];
    let two = [("a", well()), ("b", well())];
    let mut it = fleet(&roles, &two);
    let plan = policy().plan(&it);
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.moves[0].cause, Cause::Apart);
    carry_out(&mut it, &plan);
    assert_eq!(policy().plan(&it).moves, []);
    // Where it can't be helped, they are together.
    it.members.remove(&member_named("b"));
    let plan = policy().plan(&it);
    carry_out(&mut it, &plan);
    assert_eq!(owned(&it), [3]);
    assert_eq!(plan.unplaced, []);
}

#[test]
fn units_of_a_set_are_spread_over_zones_however_many_members_each_has() {
    let mut it = plain(0, 0);
    for n in 0..5 {
        let zone = if n == 0 { "a" } else { "b" };
        it.members.insert(member_id(n), well().zone(zone));
    }
    for n in 0..6 {
        it.units.insert(unit_id(n), Unit::default().spread("db"));
    }
    let plan = policy().plan(&it);
    carry_out(&mut it, &plan);
    assert_eq!(owned(&it)[0], 3, "{:?}", owned(&it));
    assert_eq!(policy().plan(&it).moves, []);
    // A zone that comes back gets its part.
    let lost = it.members.remove(&member_id(0)).expect("a member");
    let plan = policy().plan(&it);
    carry_out(&mut it, &plan);
    it.members.insert(member_id(9), lost);
    let plan = policy().plan(&it);
    assert!(plan.moves.iter().all(|it| it.cause == Cause::Zones));
    carry_out(&mut it, &plan);
    assert_eq!(owned(&it)[4], 3, "{:?}", owned(&it));
}

#[test]
fn required_labels_are_required_and_missing_ones_are_named() {
    let units = [
        ("gpu", at("a").requires(labels(&["gpu"]))),
        ("tpu", Unit::default().requires(labels(&["eu", "tpu"]))),
        ("both", Unit::default().requires(labels(&["eu", "gpu"]))),
    ];
    let members = [
        ("a", well().labels(labels(&["eu"]))),
        ("b", well().labels(labels(&["gpu"]))),
    ];
    let it = fleet(&units, &members);
    let plan = policy().plan(&it);
    assert_eq!(to_of(&plan, "gpu"), Some(member_named("b")));
    assert_eq!(plan.moves[0].cause, Cause::Labels);
    let why: Vec<_> = plan
        .unplaced
        .iter()
        .map(|it| (it.unit.as_str(), &it.why))
        .collect();
    let both = Unfit::Labels(labels(&["eu", "gpu"]));
    let tpu = Unfit::Labels(labels(&["tpu"]));
    assert_eq!(why, [("both", &both), ("tpu", &tpu)]);
}

#[test]
fn a_unit_that_nobody_else_may_take_stays_with_its_owner() {
    let units = [("gpu", at("a").requires(labels(&["gpu"]))), ("x", at("b"))];
    let draining = well().standing(Standing::Cordoned);
    let members = [("a", draining.labels(labels(&["gpu"]))), ("b", well())];
    let plan = policy().plan(&fleet(&units, &members));
    assert_eq!(plan.moves, []);
    assert_eq!(plan.unplaced.len(), 1);
    assert_eq!(plan.unplaced[0].kept_by, Some(member_named("a")));
}

#[test]
fn caps_that_fit_exactly_strand_no_unit() {
    // "any" must leave the member with the label, or "gpu" has no place.
    let units = [
        ("any", at("a")),
        ("gpu", Unit::default().requires(labels(&["gpu"]))),
    ];
    let members = [
        ("a", well().cap(1).labels(labels(&["gpu"]))),
        ("b", well().cap(1)),
    ];
    let mut it = fleet(&units, &members);
    let plan = policy().plan(&it);
    assert_eq!(to_of(&plan, "any"), Some(member_named("b")));
    assert_eq!(plan.moves[0].cause, Cause::Room);
    assert_eq!(plan.held.len(), 1, "until then there is no room");
    carry_out(&mut it, &plan);
    let plan = policy().plan(&it);
    assert_eq!(to_of(&plan, "gpu"), Some(member_named("a")));
    carry_out(&mut it, &plan);
    assert_eq!(owned(&it), [1, 1]);
}

#[test]
fn caps_that_do_not_fit_leave_units_unowned_and_say_so() {
    let mut it = plain(10, 0);
    it.members.insert(member_id(0), well().cap(3));
    it.members.insert(member_id(1), well().cap(4));
    let plan = policy().plan(&it);
    assert_eq!((plan.moves.len(), plan.unplaced.len()), (7, 3));
    let why = Unfit::Caps(vec![member_id(0), member_id(1)]);
    assert!(plan.unplaced.iter().all(|it| it.why == why));
    it.members.clear();
    let plan = policy().plan(&it);
    assert!(plan.unplaced.iter().all(|it| it.why == Unfit::NoMember));
    let nothing = Imbalance {
        most: 1000,
        least: 1000,
    };
    assert_eq!((plan.before, plan.after), (nothing, nothing));
}

#[test]
fn a_lower_cap_moves_what_is_beyond_it_and_keeps_what_has_no_other_place() {
    let units = [
        ("a", at("a").requires(labels(&["gpu"]))),
        ("b", at("a").requires(labels(&["gpu"]))),
        ("c", at("a")),
    ];
    let members = [
        ("a", well().cap(1).labels(labels(&["gpu"]))),
        ("b", well().cap(5)),
    ];
    let mut it = fleet(&units, &members);
    let plan = policy().plan(&it);
    assert_eq!(to_of(&plan, "c"), Some(member_named("b")));
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.unplaced.len(), 1);
    assert_eq!(plan.unplaced[0].kept_by, Some(member_named("a")));
    carry_out(&mut it, &plan);
    assert_eq!(policy().plan(&it).moves, []);
}

#[test]
fn a_preference_decides_within_the_band_and_not_beyond() {
    let eu = labels(&["eu"]);
    let mut it = plain(100, 4);
    for unit in it.units.values_mut() {
        *unit = Unit::default().prefers(eu.clone());
    }
    let member = it.members.get_mut(&member_id(2)).expect("a member");
    *member = well().labels(eu);
    let plan = policy().plan(&it);
    carry_out(&mut it, &plan);
    assert_eq!(
        owned(&it)[2],
        26,
        "5 % more than a fair share at most: {:?}",
        owned(&it)
    );
    assert_eq!(policy().plan(&it).moves, []);
}

#[test]
fn a_unit_that_prefers_a_member_goes_there_when_it_returns() {
    let roles = [
        ("metrics", at("b")),
        ("network", at("c")),
        ("scheduler", at("b").prefers(labels(&["big"]))),
    ];
    let members = [
        ("a", well().labels(labels(&["big"]))),
        ("b", well()),
        ("c", well()),
    ];
    let plan = policy().plan(&fleet(&roles, &members));
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(to_of(&plan, "scheduler"), Some(member_named("a")));
    assert_eq!(plan.moves[0].cause, Cause::Preference);
}

#[test]
fn a_unit_that_keeps_failing_is_moved_alone() {
    let mut it = plain(12, 3);
    let plan = policy().plan(&it);
    carry_out(&mut it, &plan);
    // No round may begin.
    it.round = Round::Over { at: Some(it.now) };
    let sick = it.units.get_mut(&unit_id(5)).expect("a unit");
    let owner = sick.owner.expect("an owner");
    sick.failing_on.insert(owner);
    let plan = policy().plan(&it);
    assert_eq!(plan.moves.len(), 1);
    assert_eq!(plan.moves[0].cause, Cause::Failing);
    assert_eq!(plan.moves[0].unit, unit_id(5));
    carry_out(&mut it, &plan);
    // It fails everywhere: it stays where it is.
    let sick = it.units.get_mut(&unit_id(5)).expect("a unit");
    sick.failing_on = it.members.keys().copied().collect();
    assert_eq!(policy().plan(&it).moves, []);
}

#[test]
fn a_reported_weight_may_be_anything() {
    let mut it = plain(120, 3);
    let plan = policy().plan(&it);
    carry_out(&mut it, &plan);
    assert_eq!(owned(&it), [40, 40, 40]);
    it.units.get_mut(&unit_id(0)).expect("a unit").weight = u32::MAX;
    it.units.get_mut(&unit_id(1)).expect("a unit").weight = 0;
    let plan = policy().plan(&it);
    assert!(plan.after.most <= plan.before.most);
}

#[test]
fn few_heavy_units_move_before_many_light_ones() {
    let mut it = plain(0, 2);
    for n in 0..60 {
        let weight = if n < 20 { 1000 } else { 10 };
        let owner = member_id(0);
        it.units
            .insert(unit_id(n), Unit::default().weight(weight).owner(owner));
    }
    let plan = Balanced::new(unlimited()).plan(&it);
    carry_out(&mut it, &plan);
    let loads = loads(&it);
    assert!(
        loads.iter().all(|load| (9_690..=10_710).contains(load)),
        "{loads:?}"
    );
    assert_eq!(plan.moves.len(), 10);
}

#[test]
fn stickiness_leaves_small_gains_alone() {
    let mut it = plain(100, 2);
    for (n, unit) in it.units.values_mut().enumerate() {
        unit.owner = Some(member_id(usize::from(n >= 60)));
    }
    let moves = |stickiness| {
        let settings = settings().stickiness(stickiness);
        Balanced::new(settings).plan(&it).moves.len()
    };
    assert_eq!(moves(100), 10);
    // Half of the band remains: 52 and 48.
    assert_eq!(moves(101), 8);
}

#[test]
fn a_member_that_is_silent_or_waits_keeps_its_units_and_gets_none() {
    for standing in [Standing::Silent, Standing::Waiting] {
        let mut it = plain(10, 2);
        for unit in it.units.values_mut() {
            unit.owner = Some(member_id(0));
        }
        it.members
            .get_mut(&member_id(0))
            .expect("a member")
            .standing = standing;
        assert_eq!(policy().plan(&it).moves, []);
        it.units.get_mut(&unit_id(0)).expect("a unit").owner = None;
        let plan = policy().plan(&it);
        assert_eq!(plan.moves.len(), 1);
        assert_eq!(plan.moves[0].to, member_id(1));
    }
}

#[test]
fn an_explanation_says_why_each_member_is_worse() {
    let apart = [unit_named("network")].into();
    let scheduler = at("a").requires(labels(&["ssd"])).apart_from(apart);
    let roles = [("network", at("c")), ("scheduler", scheduler)];
    let ssd = labels(&["ssd"]);
    let members = [
        ("a", well().labels(ssd.clone())),
        ("b", well()),
        ("c", well().labels(ssd.clone())),
        ("d", well().labels(ssd.clone()).cap(0)),
        ("e", well().standing(Standing::Cordoned)),
    ];
    let it = fleet(&roles, &members);
    let told = policy()
        .explain(&it, &unit_named("scheduler"))
        .expect("a unit");
    assert_eq!(told.owner, Some(member_named("a")));
    assert_eq!(told.verdict, Verdict::Stays);
    let refusals: Vec<_> = told.choices.iter().map(|it| it.refusal.clone()).collect();
    let lacks = Refusal::Labels(ssd);
    let refused = [
        None,
        Some(lacks),
        None,
        Some(Refusal::Cap(0)),
        Some(Refusal::Cordoned),
    ];
    assert_eq!(refusals, refused);
    assert_eq!(told.choices[2].beside, [unit_named("network")]);
    // Two units on four members that take some: half a unit is a fair share.
    assert_eq!(told.choices[0].load, Some(2000));
    assert_eq!(told.choices[2].load, Some(4000));
    assert_eq!(told.choices[4].load, None);
    assert_eq!(policy().explain(&it, &unit_named("nobody")), None);
}
