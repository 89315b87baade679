//! Bands, limits, cool-downs, settling and the start of a fleet.

use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::group::policy::{Balanced, Cause, Fleet, Hold, Member, Policy, Round, Unfit};

use crate::carry_out::{carry_out, settle};
use crate::fleets::{
    HEARTBEAT, NOW, member_id, owned, plain, policy, settings, unit_id, unlimited, well,
};

/// 200 units on two members, with so many on the first one.
fn uneven(first: usize) -> Fleet {
    let mut fleet = plain(200, 2);
    for (n, unit) in fleet.units.values_mut().enumerate() {
        unit.owner = Some(member_id(usize::from(n >= first)));
    }
    fleet
}

#[test]
fn nothing_moves_within_the_band() {
    assert_eq!(policy().plan(&uneven(110)).moves, []);
    assert!(!policy().plan(&uneven(111)).moves.is_empty());
    assert_eq!(
        Balanced::new(settings().band(20)).plan(&uneven(120)).moves,
        []
    );
}

#[test]
fn a_round_that_has_begun_goes_on_within_the_band() {
    let mut fleet = uneven(120);
    let moves = settle(&mut fleet, &Balanced::new(settings().max_moves(3)), NOW);
    assert_eq!(owned(&fleet), [100, 100]);
    assert_eq!(moves.len(), 20);
    assert!(matches!(fleet.round, Round::Over { at: Some(_) }));
}

#[test]
fn a_new_planner_finishes_the_round_of_its_predecessor() {
    let mut fleet = uneven(105);
    fleet.round = Round::default();
    assert_eq!(policy().plan(&fleet).moves.len(), 5);
}

#[test]
fn a_round_waits_for_the_cool_down_and_units_of_the_dead_do_not() {
    let mut fleet = uneven(150);
    let ended = NOW - Duration::from_secs(4);
    fleet.round = Round::Over { at: Some(ended) };
    fleet.units.get_mut(&unit_id(0)).expect("a unit").owner = Some(member_id(7));
    let plan = policy().plan(&fleet);
    let causes: Vec<_> = plan.moves.iter().map(|it| it.cause).collect();
    assert_eq!(causes, [Cause::OwnerDied]);
    let again = ended + Duration::from_secs(10);
    assert_eq!(plan.again, Some(again));
    carry_out(&mut fleet, &plan);
    fleet.now = again;
    assert_eq!(policy().plan(&fleet).moves[0].cause, Cause::Balance);
}

#[test]
fn units_of_the_dead_are_exempt_from_the_limit() {
    let mut fleet = plain(300, 3);
    for (n, unit) in fleet.units.values_mut().enumerate() {
        unit.owner = Some(member_id(if n < 200 { 9 } else { 0 }));
    }
    let plan = policy().plan(&fleet);
    let dead = plan.moves.iter().filter(|it| it.cause == Cause::OwnerDied);
    assert_eq!(dead.count(), 200);
    assert_eq!(
        plan.moves.len(),
        200,
        "and the first one has its fair share"
    );
}

#[test]
fn moves_under_way_count_for_the_limit() {
    let policy = Balanced::new(settings().max_moves(5));
    let mut fleet = uneven(200);
    let plan = policy.plan(&fleet);
    assert_eq!(plan.moves.len(), 5);
    assert_eq!(plan.held.len(), 95);
    assert!(plan.held.iter().all(|it| it.hold == Hold::Limit));
    for it in &plan.moves[..3] {
        fleet.under_way.insert(it.unit.clone(), it.to);
    }
    fleet.round = plan.round;
    let next = policy.plan(&fleet);
    assert_eq!(next.moves.len(), 2);
    assert_eq!(next.moves, plan.moves[3..]);
    assert_eq!((next.after.most, next.after.least), (1000, 1000));
}

#[test]
fn a_move_to_a_member_that_is_gone_is_planned_anew() {
    let mut fleet = uneven(100);
    let unit = fleet.units.get_mut(&unit_id(0)).expect("a unit");
    unit.owner = None;
    fleet.under_way.insert(unit_id(0), member_id(9));
    assert_eq!(policy().plan(&fleet).moves.len(), 1);
    fleet.under_way.insert(unit_id(0), member_id(0));
    assert_eq!(policy().plan(&fleet).moves, []);
}

#[test]
fn a_new_member_takes_units_when_it_has_settled() {
    let mut fleet = uneven(100);
    let joined = NOW - Duration::from_millis(500);
    fleet.members.insert(member_id(2), Member::new(joined));
    let plan = policy().plan(&fleet);
    assert_eq!(plan.moves, []);
    let settled = joined + 2 * HEARTBEAT;
    assert_eq!(plan.again, Some(settled));
    assert!(
        plan.held
            .iter()
            .all(|it| it.hold == Hold::Settling(settled))
    );
    fleet.now = settled;
    assert!(!policy().plan(&fleet).moves.is_empty());
}

#[test]
fn a_member_that_flapped_settles_for_longer_and_nobody_waits_for_it() {
    let mut fleet = uneven(100);
    let joined = NOW - Duration::from_secs(5);
    fleet
        .members
        .insert(member_id(2), Member::new(joined).flapped(true));
    let plan = policy().plan(&fleet);
    assert_eq!((plan.moves, plan.held), (vec![], vec![]));
    assert_eq!(plan.again, Some(joined + Duration::from_secs(30)));
}

#[test]
fn a_drain_waits_for_a_member_that_settles_and_units_of_the_dead_do_not() {
    let policy = Balanced::new(unlimited());
    let mut fleet = uneven(100);
    let joined = NOW - Duration::from_secs(1);
    fleet.members.insert(member_id(2), Member::new(joined));
    let leaver = fleet.members.get_mut(&member_id(0)).expect("a member");
    leaver.standing = nats_elect_core::group::policy::Standing::Cordoned;
    let plan = policy.plan(&fleet);
    assert_eq!((plan.moves.len(), plan.held.len()), (0, 100));
    fleet.members.remove(&member_id(0));
    assert_eq!(policy.plan(&fleet).moves.len(), 100);
}

#[test]
fn the_first_member_of_a_starting_fleet_does_not_take_all() {
    let policy = Balanced::new(settings().min_members(3));
    let mut fleet = plain(9, 2);
    let young = Member::new(NOW - Duration::from_secs(1));
    fleet.members.insert(member_id(2), young);
    let plan = policy.plan(&fleet);
    assert_eq!(plan.moves, []);
    assert_eq!(plan.unplaced.len(), 9);
    let why = Unfit::Starting {
        settled: 2,
        needed: 3,
    };
    assert!(
        plan.unplaced
            .iter()
            .all(|it| it.why == why && it.kept_by.is_none())
    );
    assert_eq!(plan.again, Some(NOW + Duration::from_secs(1)));
    fleet.now = NOW + Duration::from_secs(1);
    let plan = policy.plan(&fleet);
    carry_out(&mut fleet, &plan);
    assert_eq!(owned(&fleet), [3, 3, 3]);
    // Once started, fewer will do.
    fleet.members.remove(&member_id(1));
    assert_eq!(policy.plan(&fleet).moves.len(), 3);
}

#[test]
fn settling_begins_anew_with_the_time_that_a_member_is_well() {
    let mut fleet = plain(4, 0);
    fleet.members.insert(member_id(0), Member::new(NOW));
    let plan = policy().plan(&fleet);
    let settled = NOW + 2 * HEARTBEAT;
    assert!(
        plan.unplaced
            .iter()
            .all(|it| it.why == Unfit::Settling(settled))
    );
    assert_eq!(plan.again, Some(settled));
    assert!(settled > Moment::from_nanos(0));
    fleet.members.insert(member_id(1), well());
    assert_eq!(policy().plan(&fleet).moves.len(), 4);
}
