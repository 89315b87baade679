//! Fleets written as text, and plans carried out.

use nats_elect_core::plan::{Fleet, Member, Plan, Standing, Unit, plan};

/// A fleet of these members and units, each a word: `3x` before it for three of the kind.
///
/// A member is a list of labels (`-` is none), `zone=a`, `max=3`, `v=2`, `fails=0`, `cordoned`, `leaves`
/// and `waits`. A unit begins with the index of its owner, or `-`, and goes on with `w=3000`, `load=5`,
/// `need=gpu`, `like=gpu`, `apart=0`, `zones=0`, `since=7`, `moved=2` and
/// `change`.
pub fn fleet(members: &str, units: &str) -> Fleet {
    Fleet {
        members: each(members, member),
        units: each(units, unit),
        ..Fleet::default()
    }
}

fn each<T: Clone>(words: &str, parse: fn(&str) -> T) -> Vec<T> {
    let word = |word: &str| match word.split_once('x') {
        Some((count, of)) if count.bytes().all(|it| it.is_ascii_digit()) => {
            vec![parse(of); count.parse().expect("a number")]
        }
        _ => vec![parse(word)],
    };
    words.split_whitespace().flat_map(word).collect()
}

fn number<T: TryFrom<usize>>(text: &str) -> T {
    let number: usize = text.parse().expect("a number");
    T::try_from(number).ok().expect("a small number")
}

fn member(word: &str) -> Member {
    let mut it = Member::default();
    for part in word.split(',') {
        match part.split_once('=').unwrap_or((part, "")) {
            ("-", _) => {}
            ("zone", zone) => it.zone = Some(zone.to_owned()),
            ("max", most) => it.max_units = Some(number(most)),
            ("v", version) => it.version = Some(version.to_owned()),
            ("fails", unit) => _ = it.failing.insert(number(unit)),
            ("cordoned", _) => it.standing = Standing::Cordoned,
            ("leaves", _) => it.standing = Standing::Leaves,
            ("waits", _) => it.standing = Standing::Waits,
            (label, _) => _ = it.labels.insert(label.to_owned()),
        }
    }
    it
}

fn unit(word: &str) -> Unit {
    let mut it = Unit::default();
    for (index, part) in word.split(',').enumerate() {
        match part.split_once('=').unwrap_or((part, "")) {
            (owner, _) if index == 0 => it.owner = owner.parse().ok(),
            ("w", weight) => it.weight = Some(number(weight)),
            ("load", load) => it.load = Some(number(load)),
            ("need", label) => _ = it.requires.insert(label.to_owned()),
            ("like", label) => _ = it.prefers.insert(label.to_owned()),
            ("apart", set) => it.apart.push(number(set)),
            ("zones", set) => it.zones.push(number(set)),
            ("since", map) => it.since = number(map),
            ("moved", times) => it.moved = number(times),
            ("change", _) => it.in_change = true,
            (other, _) => panic!("{other}"),
        }
    }
    it
}

/// The moves as text: `0>1 balance, 3>- leaves`.
pub fn moves(plan: &Plan) -> String {
    let to = |to: Option<usize>| to.map_or("-".to_owned(), |it| it.to_string());
    let moves = plan.moves.iter();
    let moves = moves.map(|it| format!("{}>{} {}", it.unit, to(it.to), it.cause));
    moves.collect::<Vec<_>>().join(", ")
}

/// The units without a place as text: `0 labels, 2 full`.
pub fn unplaced(plan: &Plan) -> String {
    let units = plan.unplaced.iter();
    let units = units.map(|it| format!("{} {}", it.unit, it.why));
    units.collect::<Vec<_>>().join(", ")
}

/// Gives units the owners of the plan.
pub fn carry_out(fleet: &mut Fleet, plan: &Plan) {
    for it in &plan.moves {
        let unit = &mut fleet.units[it.unit];
        unit.moved += u32::from(unit.owner.is_some());
        unit.owner = it.to;
    }
}

/// Plans and carries out until nothing is left to do. Returns how many units with an owner moved.
pub fn settle(fleet: &mut Fleet) -> usize {
    let mut moved = 0;
    for _ in 0..1_000 {
        let plan = plan(fleet);
        if plan.moves.is_empty() && !plan.is_spent {
            return moved;
        }
        let had_owner = |it: &usize| fleet.units[*it].owner.is_some();
        moved += plan
            .moves
            .iter()
            .map(|it| it.unit)
            .filter(had_owner)
            .count();
        carry_out(fleet, &plan);
    }
    panic!("plans come to no end: {}", moves(&plan(fleet)));
}

/// How many units each member owns.
pub fn owned(fleet: &Fleet) -> Vec<usize> {
    let mut owned = vec![0; fleet.members.len()];
    for owner in fleet.units.iter().filter_map(|it| it.owner) {
        owned[owner] += 1;
    }
    owned
}

/// The most less the fewest.
pub fn spread(counts: &[usize]) -> usize {
    counts.iter().max().expect("one") - counts.iter().min().expect("one")
}

/// Removes a member. Its units have no owner any more.
pub fn remove(fleet: &mut Fleet, member: usize) {
    fleet.members.remove(member);
    for unit in &mut fleet.units {
        unit.owner = unit.owner.filter(|it| *it != member);
        unit.owner = unit.owner.map(|it| it - usize::from(it > member));
    }
}
