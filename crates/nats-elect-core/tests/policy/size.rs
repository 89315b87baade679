//! Large groups. `cargo test --release --test policy size -- --nocapture` shows how long plans take.

use nats_elect_core::group::policy::{Balanced, Fleet, Imbalance, Plan, Policy, Standing, Unit};

use crate::carry_out::carry_out;
use crate::fleets::{labels, member_id, plain, unit_id, unlimited, well};

const EVEN: Imbalance = Imbalance {
    most: 1000,
    least: 1000,
};

#[expect(
    clippy::disallowed_methods,
    reason = "it is shown, and decides nothing"
)]
fn timed(what: &str, fleet: &Fleet) -> Plan {
    let policy = Balanced::new(unlimited());
    let began = std::time::Instant::now();
    let plan = policy.plan(fleet);
    let took = began.elapsed();
    println!("{what:60} {took:10.1?}, {} moves", plan.moves.len());
    plan
}

fn plans(members: usize) {
    let what = |of: &str| format!("10,000 units on {members} members: {of}");
    let mut fleet = plain(10_000, members);
    let plan = timed(&what("the start"), &fleet);
    assert_eq!((plan.moves.len(), plan.after), (10_000, EVEN));
    carry_out(&mut fleet, &plan);

    let plan = timed(&what("nothing to do"), &fleet);
    assert_eq!(plan.moves, []);

    let mut died = fleet.clone();
    died.members.remove(&member_id(0));
    let plan = timed(&what("one died"), &died);
    assert_eq!(plan.moves.len(), 10_000 / members);

    let mut joined = fleet.clone();
    joined.members.insert(member_id(members), well());
    let plan = timed(&what("one joined"), &joined);
    assert_eq!(plan.moves.len(), 10_000 / (members + 1));

    let mut drained = fleet.clone();
    for n in 0..members / 2 {
        let member = drained.members.get_mut(&member_id(n)).expect("a member");
        member.standing = Standing::Cordoned;
    }
    let plan = timed(&what("half of them drained"), &drained);
    assert_eq!(plan.moves.len(), 5_000);

    let mut one_sided = fleet.clone();
    for unit in one_sided.units.values_mut() {
        unit.owner = Some(member_id(0));
    }
    let plan = timed(&what("all on one"), &one_sided);
    assert_eq!(plan.moves.len(), 10_000 - 10_000 / members);

    let mut weighted = fleet.clone();
    for (n, unit) in weighted.units.values_mut().enumerate() {
        unit.weight = 100 + u32::try_from(n * 7919 % 1000).expect("small");
        unit.owner = Some(member_id(n * n % members));
    }
    let plan = timed(&what("weights, out of balance"), &weighted);
    assert!(plan.after.most <= 1100 && plan.after.least >= 900);

    let mut capped = fleet.clone();
    for member in capped.members.values_mut() {
        member.cap = Some(u32::try_from(9_000 / members).expect("small"));
    }
    for unit in capped.units.values_mut() {
        unit.owner = None;
    }
    let plan = timed(&what("caps too low"), &capped);
    assert_eq!((plan.moves.len(), plan.unplaced.len()), (9_000, 1_000));

    let wishes = with_wishes(members);
    let plan = timed(&what("labels, zones, apart, preferences"), &wishes);
    assert_eq!(plan.moves.len(), 10_000);
    let mut wishes = wishes;
    carry_out(&mut wishes, &plan);
    let plan = timed(&what("the same, nothing to do"), &wishes);
    assert_eq!(plan.moves, []);
}

fn with_wishes(members: usize) -> Fleet {
    let mut fleet = plain(10_000, members);
    for (n, member) in fleet.members.values_mut().enumerate() {
        let label = if n % 2 == 0 { "ssd" } else { "gpu" };
        *member = well().zone(["a", "b", "c"][n % 3]).labels(labels(&[label]));
    }
    for (n, unit) in fleet.units.values_mut().enumerate() {
        let it = Unit::default().spread(["red", "blue"][n % 2]);
        *unit = match n % 4 {
            0 => it.requires(labels(&["ssd"])),
            1 => it.prefers(labels(&["gpu"])),
            2 => it.apart_from([unit_id(n + 1), unit_id(n / 2)].into()),
            _ => it,
        };
    }
    fleet
}

#[test]
fn ten_thousand_units_on_ten_members() {
    plans(10);
}

#[test]
fn ten_thousand_units_on_a_hundred_members() {
    plans(100);
}
