//! Large groups. `cargo test --release -p nats-elect-core --test plan size -- --nocapture` shows how long
//! plans take.

use nats_elect_core::plan::{Fleet, Member, Plan, Standing, plan};

use crate::fleets::{carry_out, fleet, owned, spread};

fn check(fleet: &Fleet, plan: &Plan) {
    let budget = fleet.limits.budget.max(2 * fleet.members.len());
    assert!(plan.evaluated <= budget && plan.is_spent == (plan.evaluated == budget));
}

#[expect(
    clippy::disallowed_methods,
    reason = "it is shown, and decides nothing"
)]
fn timed(what: &str, fleet: &Fleet) -> Plan {
    let began = std::time::Instant::now();
    let plan = plan(fleet);
    let took = began.elapsed();
    let (of, on, moves) = (fleet.units.len(), fleet.members.len(), plan.moves.len());
    println!(
        "{of} units on {on}: {what:35} {took:10.1?}, {} compared, {moves} moves",
        plan.evaluated
    );
    check(fleet, &plan);
    plan
}

/// Carries plans out until there is nothing to do. Shows the first one and the last one.
fn timed_to_rest(what: &str, fleet: &mut Fleet) {
    let mut next = timed(what, fleet);
    let mut plans = 0;
    while !next.moves.is_empty() {
        carry_out(fleet, &next);
        next = plan(fleet);
        check(fleet, &next);
        plans += 1;
        assert!(plans < 2_000, "{what}");
    }
    let last = timed(&format!("  at rest after {plans} plans"), fleet);
    assert_eq!(last.moves, []);
}

fn plans(units: usize, members: usize) {
    let mut even = fleet(&format!("{members}x-"), &format!("{units}x-"));
    timed_to_rest("the start", &mut even);

    let mut it = even.clone();
    it.members[0].standing = Standing::Leaves;
    assert_eq!(timed("one leaves", &it).moves.len(), owned(&it)[0]);

    let mut it = even.clone();
    it.members.push(Member::default());
    timed_to_rest("one joins", &mut it);
    assert!(spread(&owned(&it)) <= 1);

    let mut it = even.clone();
    it.limits.moves = usize::MAX;
    it.units.iter_mut().for_each(|unit| unit.owner = Some(0));
    timed_to_rest("all on one, no limit of moves", &mut it);
    assert!(spread(&owned(&it)) <= 1);

    let mut it = even.clone();
    for (index, unit) in it.units.iter_mut().enumerate() {
        unit.load = u32::try_from(100 + index * 7_919 % 1_000).ok();
        unit.owner = Some(index * index % members);
    }
    timed_to_rest("loads, out of balance", &mut it);
    it.units.iter_mut().for_each(|unit| unit.owner = None);
    let most = u32::try_from(units / members * 9 / 10).ok();
    it.members
        .iter_mut()
        .for_each(|member| member.max_units = most);
    let short = timed("loads, too few places", &it);
    assert_eq!(
        (short.moves.len(), short.unplaced.len()),
        (units * 9 / 10, units / 10)
    );

    let mut it = even.clone();
    for (index, unit) in it.units.iter_mut().enumerate() {
        (unit.owner, unit.apart) = (None, vec![index / 1_000]);
    }
    timed_to_rest("apart sets of 1,000, the start", &mut it);
    it.members.push(Member::default());
    timed_to_rest("apart sets of 1,000, one joins", &mut it);
    it.members[0].standing = Standing::Leaves;
    timed_to_rest("apart sets of 1,000, one leaves", &mut it);
    for (index, unit) in it.units.iter_mut().enumerate() {
        unit.owner = Some(1 + index % 7);
    }
    timed_to_rest("apart sets of 1,000, all on seven", &mut it);
    assert!(spread(&owned(&it)[1..]) <= 1);

    let mut it = even;
    for (index, member) in it.members.iter_mut().enumerate() {
        member.zone = Some(["a", "b", "c"][index % 3].to_owned());
        member.labels = [["ssd", "gpu"][index % 2].to_owned()].into();
    }
    for (index, unit) in it.units.iter_mut().enumerate() {
        (unit.owner, unit.zones) = (None, vec![index % 2]);
        match index % 4 {
            0 => unit.requires = ["ssd".to_owned()].into(),
            1 => unit.prefers = ["gpu".to_owned()].into(),
            2 => unit.apart = vec![index / 100],
            _ => {}
        }
    }
    timed_to_rest("labels, zones, apart, preferences", &mut it);
}

#[test]
fn ten_thousand_units_on_ten_members() {
    plans(10_000, 10);
}

#[test]
fn ten_thousand_units_on_a_hundred_members() {
    plans(10_000, 100);
}

#[test]
fn as_many_units_as_a_group_has() {
    let it = fleet("500x-", "65536x-");
    assert_eq!(timed("the start", &it).moves.len(), 65_536);
}

#[test]
fn a_plan_ends_at_its_budget_and_the_next_one_goes_on() {
    for budget in [0, 300, 10_000] {
        let mut it = fleet("100x-", "1000x-");
        for (index, unit) in it.units.iter_mut().enumerate() {
            unit.weight = u32::try_from(500 + index).ok();
            (unit.apart, unit.prefers) = (vec![index % 20], [index.to_string()].into());
        }
        it.limits.budget = budget;
        timed_to_rest(&format!("a budget of {budget}"), &mut it);
        assert!(it.units.iter().all(|unit| unit.owner.is_some()));
    }
}
