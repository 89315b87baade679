//! Units go where the plan wants them, with few moves. Nothing that happens to hints costs more than
//! balance.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::policy::{Imbalance, Unfit, Verdict};
use super::super::*;
use super::world::*;

const SECOND: Duration = Duration::from_secs(1);
/// How long it takes until a member that joined takes units that have owners.
const SETTLED: Duration = Duration::from_secs(2);

fn all_owned(world: &World, shards: u32) -> bool {
    (0..shards).all(|it| world.owners(&unit(it)).len() == 1)
}

fn is_even(world: &World) -> bool {
    let owned = world.owned();
    let takes = world
        .nodes
        .iter()
        .filter(|it| it.alive)
        .map(|it| !it.cordoned);
    let loads = || {
        owned
            .iter()
            .zip(takes.clone())
            .filter(|it| it.1)
            .map(|it| *it.0)
    };
    loads().max() <= loads().min().map(|it| it + 1)
}

/// How often each unit changed its owner in the log from there on.
fn moves(world: &World, from: usize) -> BTreeMap<UnitKey, usize> {
    let mut owners = BTreeMap::new();
    let mut moves = BTreeMap::new();
    for (index, it) in world.log.iter().enumerate() {
        let GroupContent::Unit { key, record, .. } = &it.message.content else {
            continue;
        };
        let owner = record.and_then(UnitRecord::owner);
        let before = owners.insert(key.clone(), owner).flatten();
        if index >= from && before.is_some() && before != owner {
            *moves.entry(key.clone()).or_default() += 1;
        }
    }
    moves
}

/// The node that plans, as all of those see it that are alive.
fn planner(world: &World) -> usize {
    let alive = world.nodes.iter().filter(|it| it.alive);
    let mut planners: Vec<_> = alive
        .map(|it| it.group.planner_of(&group()).unwrap())
        .collect();
    planners.dedup();
    assert_eq!(planners.len(), 1);
    let mut nodes = world.nodes.iter();
    nodes
        .position(|it| it.alive && epoch(it.epoch) == planners[0])
        .unwrap()
}

/// A first watch lacks the members whose heartbeats are written over while it begins. They are well.
#[test]
fn a_planner_whose_first_watch_lacked_the_others_moves_their_units_all_the_same() {
    const SHARDS: u32 = 60;
    let mut world = World::settled(3, SHARDS);
    loop {
        let last = world.last;
        for index in 0..world.nodes.len() {
            world.beat(index);
        }
        let joins = world.add(Units::Shards(SHARDS), None);
        world.watch_since(joins, last);
        // Less than what a member waits that was silent.
        world.run(TTL + 10 * SECOND);
        assert!(all_owned(&world, SHARDS) && is_even(&world));
        if planner(&world) == joins {
            return;
        }
    }
}

/// Gives a unit of the first to the second member, so many times.
fn push(world: &mut World, from: usize, to: usize, units: usize) {
    let named = epoch(world.nodes[to].epoch);
    let terms = world.nodes[from].terms.iter();
    let runs: Vec<u32> = terms
        .filter(|(_, it)| it.runs)
        .filter_map(|(key, _)| key.unit.as_shard())
        .collect();
    for number in runs.into_iter().take(units) {
        let hint = world.hint(number, named);
        world.tell(from, hint);
    }
}

#[test]
fn a_new_group_is_balanced_at_once() {
    let mut world = World::new(3, 30);
    world.until(2 * SECOND, |world| all_owned(world, 30));
    assert_eq!(world.owned(), [10, 10, 10]);
}

#[test]
fn a_member_that_joins_gets_its_part_by_the_least_moves_and_without_a_pause() {
    let mut world = World::settled(3, 60);
    let from = world.log.len();
    world.join(60);
    world.run(TTL);
    assert!(moves(&world, from).is_empty());
    world.until(10 * SECOND, |world| {
        let missing = (0..60).filter(|it| world.owners(&unit(*it)).is_empty());
        assert!(missing.count() <= 16);
        world.owned() == [15; 4]
    });
    world.run(20 * SECOND);
    let moves = moves(&world, from);
    assert_eq!((moves.len(), moves.values().max()), (15, Some(&1)));
}

#[test]
fn the_planner_alone_tells_the_imbalance_before_and_after_its_moves() {
    let mut world = World::settled(3, 60);
    let told = |world: &World| -> Vec<_> {
        let nodes = world.nodes.iter();
        let told = nodes.map(|it| it.group.planned_imbalance(&group()));
        told.collect()
    };
    let even = Imbalance {
        most: 1000,
        least: 1000,
    };
    let plans = planner(&world);
    for (index, told) in told(&world).into_iter().enumerate() {
        assert_eq!(told, (index == plans).then_some((even, even)));
    }
    world.join(60);
    world.run(TTL);
    // Three have twenty units each, and fifteen are fair.
    world.until(10 * SECOND, |world| {
        let mut told = told(world).into_iter().flatten();
        told.any(|(before, after)| before.most == 1333 && after == even)
    });
    world.until(10 * SECOND, |world| {
        let told: Vec<_> = told(world).into_iter().flatten().collect();
        world.owned() == [15; 4] && told == [(even, even)]
    });
}

#[test]
fn the_units_of_a_dead_member_are_spread_at_once() {
    let mut world = World::settled(4, 60);
    let from = world.log.len();
    world.nodes[3].alive = false;
    // The planner may have been the one that died.
    world.until(TTL + 4 * SECOND, |world| all_owned(world, 60));
    assert_eq!(world.owned(), [20, 20, 20]);
    world.run(TTL);
    assert_eq!(moves(&world, from).len(), 15);
}

/// Nobody waits for a turn, whoever died: the planner is another one as soon as the tombstone shows.
#[test]
fn the_units_of_a_dead_member_with_a_last_will_are_taken_at_once() {
    for dead in 0..4 {
        let mut world = World::settled(4, 60);
        world.nodes[dead].alive = false;
        world.retire(epoch(world.nodes[dead].epoch));
        world.until(HEARTBEAT / 5, |world| all_owned(world, 60));
        assert_eq!(world.owned(), [20, 20, 20]);
    }
}

/// The planner has just planned, and waits for moves that the dead member was to make.
#[test]
fn a_last_will_amid_moves_is_not_waited_for() {
    let mut world = World::settled(3, 60);
    let planner = planner(&world);
    let dead = (planner + 1) % 3;
    world.join(60);
    world.nodes[dead].deaf = true;
    let before = world.nodes[planner].hinted;
    world.until(TTL + SETTLED + 3 * SECOND, |world| {
        world.nodes[planner].hinted > before
    });
    world.nodes[dead].alive = false;
    world.retire(epoch(world.nodes[dead].epoch));
    world.until(SECOND / 5, |world| all_owned(world, 60));
}

#[test]
fn a_hundred_units_are_drained_and_none_moves_twice() {
    let mut world = World::settled(4, 400);
    assert_eq!(world.owned(), [100; 4]);
    let from = world.log.len();
    world.leave(1);
    world.until(SECOND, |world| {
        world.owned()[1] == 0 && all_owned(world, 400)
    });
    world.run(30 * SECOND);
    let moves = moves(&world, from);
    assert_eq!((moves.len(), moves.values().max()), (100, Some(&1)));
    assert!(is_even(&world), "{:?}", world.owned());
}

#[test]
fn a_member_that_leaves_gives_nothing_to_one_that_has_not_settled() {
    let mut world = World::settled(3, 30);
    world.join(30);
    world.run(SECOND / 2);
    world.leave(0);
    world.until(SECOND, |world| world.owned() == [0, 15, 15, 0]);
    assert!(all_owned(&world, 30));
}

#[test]
fn two_members_that_leave_one_after_the_other_give_nothing_to_each_other() {
    let mut world = World::settled(4, 40);
    let from = world.log.len();
    world.leave(0);
    world.run(SECOND / 5);
    world.leave(1);
    world.until(2 * SECOND, |world| world.owned() == [0, 0, 20, 20]);
    world.run(10 * SECOND);
    assert_eq!(world.owned(), [0, 0, 20, 20]);
    let moves = moves(&world, from);
    assert!(moves.len() <= 24, "{moves:?}");
}

/// Each member leaves, and returns as another one. Each unit moves twice at most: away, and once
/// more for the one that returned.
fn rolling_restart(members: u8, shards: u32, pause: Duration) -> BTreeMap<UnitKey, usize> {
    let mut world = World::settled(members, shards);
    let from = world.log.len();
    for index in 0..usize::from(members) {
        world.leave(index);
        world.until(2 * SECOND, |world| {
            let node = &world.nodes[index];
            node.terms.values().all(|it| !it.runs) && all_owned(world, shards)
        });
        world.nodes[index].alive = false;
        world.run(2 * SECOND);
        world.join(shards);
        world.run(pause);
    }
    world.until(SETTLED + 60 * SECOND, |world| {
        is_even(world) && all_owned(world, shards)
    });
    moves(&world, from)
}

#[test]
fn a_rolling_restart_moves_each_unit_twice_at_most() {
    for pause in [TTL + 20 * SECOND, TTL + 45 * SECOND] {
        let moves = rolling_restart(10, 256, pause);
        let mut times: BTreeMap<usize, usize> = BTreeMap::new();
        for moved in moves.values() {
            *times.entry(*moved).or_default() += 1;
        }
        println!("restarts {pause:?} apart, units by their moves: {times:?}");
        assert!(times.keys().all(|it| *it <= 2), "{times:?}");
    }
}

#[test]
fn a_cordoned_member_is_emptied_in_waves() {
    let mut world = World::settled_with(3, 90, settings().max_moves(4));
    let from = world.log.len();
    world.nodes[0].cordoned = true;
    world.until(20 * SECOND, |world| {
        let missing = (0..90).filter(|it| world.owners(&unit(*it)).is_empty());
        assert!(missing.count() <= 4);
        world.owned() == [0, 45, 45]
    });
    world.run(20 * SECOND);
    let moved = moves(&world, from);
    assert_eq!((moved.len(), moved.values().max()), (30, Some(&1)));
    // It takes nothing, also if another one dies.
    world.nodes[1].alive = false;
    world.until(TTL + 4 * SECOND, |world| world.owned() == [0, 90]);
    world.nodes[0].cordoned = false;
    world.until(60 * SECOND, |world| world.owned() == [45, 45]);
}

#[test]
fn a_cordoned_member_takes_nothing_without_hints() {
    let mut world = World::settled(4, 60);
    for node in &mut world.nodes {
        node.deaf = true;
    }
    let planner = planner(&world);
    let [cordoned, dead] = [1, 2].map(|it| (planner + it) % 4);
    world.nodes[cordoned].cordoned = true;
    world.run(SECOND * 2);
    world.nodes[dead].alive = false;
    world.until(TTL + 6 * SECOND, |world| all_owned(world, 60));
    let owns = world.nodes[cordoned]
        .terms
        .values()
        .filter(|it| it.runs)
        .count();
    assert!(owns <= 15, "{owns}");
}

#[test]
fn nothing_moves_within_the_band_and_a_round_evens_out_what_is_beyond() {
    let mut world = World::settled(2, 40);
    assert_eq!(world.owned(), [20, 20]);
    world.run(30 * SECOND);
    push(&mut world, 0, 1, 2);
    world.run(30 * SECOND);
    assert_eq!(world.owned(), [18, 22]);
    let from = world.log.len();
    push(&mut world, 0, 1, 1);
    // The one that was pushed, and three in return.
    world.until(5 * SECOND, |world| {
        let moves: usize = moves(world, from).values().sum();
        moves == 4 && world.owned() == [20, 20]
    });
}

#[test]
fn a_round_waits_for_the_cool_down_and_units_of_the_dead_do_not() {
    let mut world = World::settled_with(3, 60, settings().cool_down(30 * SECOND));
    push(&mut world, 0, 1, 6);
    world.until(5 * SECOND, |world| world.owned() != [20, 20, 20]);
    world.until(5 * SECOND, |world| world.owned() == [20, 20, 20]);
    world.run(2 * SECOND);
    push(&mut world, 0, 1, 6);
    world.run(20 * SECOND);
    assert_eq!(world.owned(), [14, 26, 20]);
    world.until(15 * SECOND, |world| world.owned() == [20, 20, 20]);
    push(&mut world, 0, 1, 6);
    world.nodes[2].alive = false;
    world.run(TTL + 4 * SECOND);
    assert!(all_owned(&world, 60));
}

#[test]
fn a_lost_hint_is_given_again() {
    let mut world = World::settled(3, 60);
    for node in &mut world.nodes {
        node.deaf = true;
    }
    world.join(60);
    world.run(TTL + SETTLED + 3 * SECOND);
    // The planner tells itself.
    assert!(!is_even(&world), "{:?}", world.owned());
    for node in &mut world.nodes {
        node.deaf = false;
    }
    world.until(STOP + 5 * SECOND, is_even);
}

#[test]
fn without_any_hint_free_units_are_taken_all_the_same() {
    let mut world = World::settled(3, 30);
    for node in &mut world.nodes {
        node.deaf = true;
    }
    let dead = (planner(&world) + 1) % 3;
    world.nodes[dead].alive = false;
    world.until(TTL + 5 * HEARTBEAT, |world| all_owned(world, 30));
}

#[test]
fn an_old_hint_moves_nothing() {
    let mut world = World::settled(2, 2);
    let (from, to) = (world.owner(0), 1 - world.owner(0));
    let named = epoch(world.nodes[to].epoch);
    let old = world.hint(0, named);
    world.end_handler(from, &unit(0), world.nodes[from].terms[&unit(0)].sequence);
    world.until(3 * SECOND, |world| world.owners(&unit(0)) == [from]);
    let stands = world.stands(0);
    world.tell(from, old);
    world.run(5 * SECOND);
    assert_eq!((world.owner(0), world.stands(0)), (from, stands));
    // One about a record that the owner was not shown yet waits for it.
    let GroupInput::Hint { mut hints } = world.hint(0, named) else {
        panic!("no hint");
    };
    hints[0].sequence = world.last + 1;
    world.tell(from, GroupInput::Hint { hints });
    world.end_handler(from, &unit(0), world.nodes[from].terms[&unit(0)].sequence);
    world.run(SECOND / 2);
    assert_eq!(world.stands(0), stands);
}

#[test]
fn a_hint_to_somebody_who_takes_no_units_moves_nothing() {
    let mut world = World::settled(3, 3);
    let from = world.owner(0);
    let to = (from + 1) % 3;
    world.nodes[to].cordoned = true;
    world.run(5 * SECOND);
    for named in [world.nodes[to].epoch, 77] {
        let hint = world.hint(0, epoch(named));
        world.tell(from, hint);
        world.run(5 * SECOND);
        assert_eq!(world.owner(0), from);
    }
}

#[test]
fn an_heir_that_takes_no_units_any_more_when_the_handler_has_ended_gets_none() {
    let mut world = World::settled(3, 3);
    let from = world.owner(0);
    let to = (from + 1) % 3;
    world.nodes[from].stubborn = true;
    let hint = world.hint(0, epoch(world.nodes[to].epoch));
    world.tell(from, hint);
    world.run(SECOND);
    assert!(world.nodes[from].terms[&unit(0)].runs);
    world.nodes[to].cordoned = true;
    let named = UnitRecord::Owned(epoch(world.nodes[to].epoch));
    world.run(STOP);
    let writes = world.log.len();
    world.until(TTL + 5 * SECOND, |world| {
        world.owners(&unit(0)).len() == 1 && world.owner(0) != from
    });
    let gave = world.log[writes..].iter().filter(|it| {
        let content = &it.message.content;
        matches!(content, GroupContent::Unit { key, record, .. } if *key == unit(0) && *record == Some(named))
    });
    assert_eq!(gave.count(), 0);
}

#[test]
fn another_member_goes_on_where_a_planner_died_amid_its_moves() {
    let mut world = World::settled_with(4, 80, settings().max_moves(4));
    let first = planner(&world);
    let cordoned = (first + 1) % 4;
    let before = world.owned()[cordoned];
    world.nodes[cordoned].cordoned = true;
    world.until(10 * SECOND, |world| world.owned()[cordoned] < before - 4);
    assert!(world.owned()[cordoned] > 4);
    world.nodes[first].alive = false;
    world.until(TTL + 20 * SECOND, |world| {
        let emptied = world.nodes[cordoned].terms.values().all(|it| !it.runs);
        emptied && all_owned(world, 80)
    });
    assert_ne!(planner(&world), first);
    world.until(20 * SECOND, is_even);
}

#[test]
fn a_member_that_ranks_first_plans_when_it_has_settled() {
    let mut world = before_a_planner(3, 1, 60);
    world.run(20 * SECOND);
    let before = planner(&world);
    let joined = world.join(60);
    world.run(SECOND);
    assert_eq!(planner(&world), before);
    world.until(TTL + 2 * SECOND, |world| planner(world) == joined);
    world.until(20 * SECOND, is_even);
    assert!(world.nodes[joined].hinted > 0);
}

#[test]
fn two_planners_do_no_harm() {
    let mut world = before_a_planner(3, 1, 60);
    world.run(20 * SECOND);
    let first = planner(&world);
    // A member joins that ranks before the planner, which sees it later than the others.
    let joined = world.join(60);
    world.run_short_of(TTL, 2 * SECOND);
    world.nodes[first].silent = true;
    world.run(8 * SECOND);
    let told = |index: usize, world: &World| world.nodes[index].group.planner_of(&group());
    let named = [first, joined].map(|index| epoch(world.nodes[index].epoch));
    let disagree = told(first, &world) == Some(named[0]) && told(joined, &world) == Some(named[1]);
    assert!(disagree);
    world.nodes[first].silent = false;
    world.until(20 * SECOND, is_even);
    world.run(30 * SECOND);
    assert!(is_even(&world) && all_owned(&world, 60));
    assert_eq!(planner(&world), joined);
}

#[test]
fn the_first_member_of_a_starting_fleet_does_not_take_all() {
    let mut world = World::new(0, 30);
    let placement = placement(settings().min_members(3));
    for _ in 0..2 {
        world.join_with(30, Some(placement.clone()));
    }
    world.run(20 * SECOND);
    assert_eq!(world.owned(), [0, 0]);
    for node in &world.nodes {
        let waits = node.group.plan_of(&group()).unwrap().unplaced;
        let why = Unfit::Starting {
            settled: 2,
            needed: 3,
        };
        assert!(waits.len() == 30 && waits.iter().all(|it| it.why == why));
    }
    // The group is new until then. So the last one waits for no lease.
    world.join_with(30, Some(placement));
    world.until(SETTLED + 2 * SECOND, |world| world.owned() == [10, 10, 10]);
}

#[test]
fn a_member_explains_where_a_unit_is_and_what_would_move() {
    let mut world = World::settled(2, 4);
    let owner = world.owner(0);
    let [own, other] = [owner, 1 - owner].map(|index| epoch(world.nodes[index].epoch));
    for node in &world.nodes {
        let told = node.group.explain(&unit(0)).unwrap();
        assert_eq!((told.owner, told.verdict), (Some(own), Verdict::Stays));
        assert_eq!(node.group.plan_of(&group()).unwrap().moves, []);
    }
    assert_eq!(world.nodes[0].group.explain(&unit(4)), None);
    world.nodes[owner].stubborn = true;
    world.nodes[owner].cordoned = true;
    world.run(STOP / 2 + SECOND);
    for node in [owner, planner(&world)] {
        let told = world.nodes[node].group.explain(&unit(0)).unwrap();
        assert_eq!(told.verdict, Verdict::UnderWay(other));
    }
}

/// The load of each member that is alive, if a unit's is this.
fn loads(world: &World, of: impl Fn(u32) -> u32) -> Vec<u32> {
    let alive = world.nodes.iter().filter(|it| it.alive);
    alive
        .map(|node| {
            let runs = node.terms.iter().filter(|(_, it)| it.runs && !it.revoked);
            runs.map(|(key, _)| of(key.unit.as_shard().unwrap())).sum()
        })
        .collect()
}

#[test]
fn units_are_spread_by_the_weights_of_the_settings() {
    let mut world = World::new(0, 60);
    let weight = |number: u32| if number < 6 { 9000 } else { 1000 };
    let mut placement = placement(settings());
    placement.units = (0..60)
        .map(|it| (unit(it).unit, policy::Unit::default().weight(weight(it))))
        .collect();
    for _ in 0..3 {
        world.join_with(60, Some(placement.clone()));
    }
    world.until(3 * SECOND, |world| all_owned(world, 60));
    assert_eq!(loads(&world, weight), [36_000; 3]);
}

#[test]
fn units_are_spread_by_the_loads_that_members_tell() {
    let mut world = World::settled(4, 80);
    let from = world.log.len();
    let told = |number| (number, if world.owner(number) < 2 { 12 } else { 4 });
    let told: BTreeMap<u32, u32> = (0..80).map(told).collect();
    for node in &mut world.nodes {
        node.unit_loads.clone_from(&told);
    }
    let loads = |world: &World| loads(world, |number| told[&number]);
    let before = loads(&world);
    assert_eq!(
        (before.iter().max(), before.iter().min()),
        (Some(&240), Some(&80))
    );
    let is_within = |world: &World| loads(world).iter().all(|it| (144..=176).contains(it));
    world.until(60 * SECOND, is_within);
    let needed: usize = moves(&world, from).values().sum();
    // Units of two weights are on each member now, and only their sums are known. It comes to rest.
    world.run(60 * SECOND);
    assert!(
        is_within(&world) && all_owned(&world, 80),
        "{:?}",
        loads(&world)
    );
    let moves: usize = moves(&world, from).values().sum();
    assert!(moves <= 2 * needed, "{moves} and {needed}");
}
