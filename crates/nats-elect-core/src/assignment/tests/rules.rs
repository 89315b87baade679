//! The contents of maps that are made from other maps.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const NOBODY_IS_CLEAR: fn(Epoch, u32, u64) -> bool = |_, _, _| false;

fn moves(map: &Map, unit: u32, owner: Option<Epoch>) -> Result<Map, MapError> {
    let changes = Changes {
        owners: BTreeMap::from([(unit, owner)]),
        ..Changes::default()
    };
    let next = map.next(&changes, NOBODY_IS_CLEAR)?;
    Ok(next.stored_at(map.sequence() + 1))
}

fn waits(map: &Map, unit: u32) -> BTreeMap<Epoch, u64> {
    map.waits_for(unit).collect()
}

#[test]
fn a_unit_that_moves_waits_for_its_former_owners_and_the_later_map_counts() {
    let (a, b) = (epoch(0), epoch(1));
    let map = moves(&owned(4, 3), 0, Some(b)).unwrap();
    assert_eq!(map.over(), 12);
    assert_eq!(
        (map.owner(0), waits(&map, 0)),
        (Some(b), BTreeMap::from([(a, 13)]))
    );
    assert_eq!(waits(&map, 1), BTreeMap::new());
    let map = moves(&map, 0, None).unwrap();
    assert_eq!(waits(&map, 0), BTreeMap::from([(a, 13), (b, 14)]));
    let map = moves(&map, 0, Some(a)).unwrap();
    assert_eq!(
        waits(&map, 0),
        BTreeMap::from([(b, 14)]),
        "the owner's entry is left out"
    );
    let map = moves(&map, 0, Some(b)).unwrap();
    assert_eq!(waits(&map, 0), BTreeMap::from([(a, 16)]));
    assert_eq!(map.moving().collect::<Vec<_>>(), [0]);
    let clear = map.next(&Changes::default(), |epoch, unit, number| {
        assert_eq!((epoch, unit, number), (a, 0, 16));
        true
    });
    assert_eq!(clear.unwrap().moving().count(), 0);
}

#[test]
fn a_former_owner_that_is_over_is_not_waited_for() {
    let (a, b) = (epoch(0), epoch(1));
    let changes = Changes {
        gone: [a].into(),
        joined: vec![epoch(7), b],
        owners: BTreeMap::from([(0, Some(epoch(7)))]),
    };
    let is_over = |epoch, _, number| {
        assert_eq!(number, u64::MAX);
        epoch == a
    };
    let map = owned(4, 2).next(&changes, is_over).unwrap();
    assert_eq!(map.epochs(), [b, epoch(7)]);
    assert_eq!(
        (map.owner(0), map.owner(1), map.owner(2)),
        (Some(epoch(7)), Some(b), None)
    );
    assert_eq!((map.waits_for(0).count(), map.waits_for(2).count()), (0, 0));
    assert_eq!(map.owned_by(b).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(map.owned_by(a).count(), 0);
}

#[test]
fn a_unit_whose_from_is_full_is_not_moved() {
    let mut map = owned(2, 10);
    for owner in 1..9 {
        map = moves(&map, 0, Some(epoch(owner))).unwrap();
    }
    assert_eq!(map.waits_for(0).count(), MOST_WAITS);
    assert_eq!(moves(&map, 0, Some(epoch(9))), Err(MapError::Full(vec![0])));
    assert!(moves(&map, 1, Some(epoch(9))).is_ok());
    let is_over = |epoch, _, _| epoch == self::epoch(8);
    let changes = Changes {
        owners: BTreeMap::from([(0, Some(epoch(9)))]),
        ..Changes::default()
    };
    assert!(map.next(&changes, is_over).is_ok());
}

#[test]
fn no_unit_goes_to_a_stranger_or_to_another_kind() {
    let map = owned(4, 2);
    assert_eq!(moves(&map, 0, Some(epoch(5))), Err(MapError::Impossible));
    assert_eq!(moves(&map, 4, None), Err(MapError::Impossible));
    let many = (0..5000).map(epoch);
    assert_eq!(map.collect(20, many, |_| false), Err(MapError::Impossible));
    let strange = Units::Names(vec![name("a")]);
    assert_eq!(
        map.resize(strange, NOBODY_IS_CLEAR),
        Err(MapError::Impossible)
    );
}

#[test]
fn in_a_collect_all_units_wait_for_all_epochs_that_are_not_over() {
    let map = moves(&owned(4, 3), 0, Some(epoch(1))).unwrap();
    let is_over = |epoch| epoch == self::epoch(2);
    let collect = map.collect(20, [epoch(5)], is_over).unwrap().stored_at(21);
    assert_eq!((collect.over(), collect.generation()), (20, 1));
    assert_eq!(collect.members(), epochs(2));
    assert_eq!((collect.owner(0), collect.owner(2)), (Some(epoch(1)), None));
    let from = [0, 1, 5].map(|number| (epoch(number), 21));
    assert_eq!(waits(&collect, 2), BTreeMap::from(from));
    assert_eq!(waits(&collect, 0), BTreeMap::from([from[0], from[2]]));
    assert_eq!(collect.all_wait_for().count(), 3);
    let first = Map::first(
        9,
        BUCKET,
        Units::Shards(3),
        &[epoch(1)],
        [epoch(4), epoch(1)],
    )
    .unwrap();
    assert_eq!(
        (first.members(), first.epochs()),
        (&[epoch(1)][..], &[epoch(1), epoch(4)][..])
    );
    assert_eq!(
        waits(&first.stored_at(10), 2),
        BTreeMap::from([(epoch(1), 10), (epoch(4), 10)])
    );
}

#[test]
fn an_epoch_that_all_units_wait_for_goes_when_it_is_clear_of_all_but_its_own() {
    let map = owned(4, 2)
        .collect(20, [], |_| false)
        .unwrap()
        .stored_at(21);
    let next = |excepted| {
        let next = map.next(&Changes::default(), |epoch, unit, _| {
            epoch == self::epoch(1) || unit != excepted
        });
        next.unwrap().all_wait_for().collect::<Vec<_>>()
    };
    assert_eq!(next(1), [(epoch(0), 21)]);
    assert_eq!(next(0), [], "unit 0 is its own");
}

#[test]
fn all_units_of_the_next_generation_wait_for_all_that_acted_in_the_former_one() {
    let map = moves(&owned(4, 3), 0, Some(epoch(1))).unwrap();
    let resize = |is_clear: fn(Epoch, u32, u64) -> bool| {
        let larger = map.resize(Units::Shards(8), is_clear).unwrap();
        larger.stored_at(14)
    };
    let larger = resize(|epoch, _, _| epoch == self::epoch(2));
    assert_eq!((larger.over(), larger.generation()), (map.sequence(), 2));
    assert_eq!(
        (larger.units(), larger.members(), larger.has_owners()),
        (&Units::Shards(8), map.members(), false)
    );
    assert_eq!(
        waits(&larger, 7),
        BTreeMap::from([(epoch(0), 14), (epoch(1), 14)])
    );
    // Whoever waited in the former one goes on to be waited for.
    let collect = map
        .collect(20, [epoch(5)], |_| false)
        .unwrap()
        .stored_at(21);
    let larger = collect.resize(Units::Shards(2), NOBODY_IS_CLEAR).unwrap();
    let since = |number| waits(&larger.clone().stored_at(22), 0)[&epoch(number)];
    assert_eq!((since(5), since(0), since(1)), (21, 22, 22));
}

#[test]
fn a_new_name_waits_for_all_epochs_that_were_found() {
    let names = |names: &[&str]| names.iter().map(|it| name(it)).collect::<Vec<_>>();
    let map = Map::first(10, BUCKET, Units::Names(names(&["b", "a"])), &epochs(2), []).unwrap();
    let map = map
        .next(&Changes::default(), |_, _, _| true)
        .unwrap()
        .stored_at(12);
    let map = moves(&map, 0, Some(epoch(0))).unwrap();
    let found: BTreeSet<_> = epochs(20).into_iter().collect();
    let added = map
        .add_names(names(&["a", "c"]), &found)
        .unwrap()
        .stored_at(14);
    assert_eq!(added.units(), &Units::Names(names(&["b", "a", "c"])));
    assert_eq!(
        (added.over(), added.owner(0), added.owner(2)),
        (13, Some(epoch(0)), None)
    );
    assert_eq!(added.waits_for(1).count(), 0);
    assert_eq!(waits(&added, 2), found.iter().map(|it| (*it, 14)).collect());
    assert_eq!(Map::parse(14, &added.to_json()), Some(added.clone()));
    assert_eq!(added.units().place(&Unit::Named(name("c"))), Some(2));
    let owned = moves(&added, 2, Some(epoch(1))).unwrap();
    assert_eq!(owned.waits_for(2).count(), 19, "it had no owner before");
    assert_eq!(
        first(3, 1).add_names(names(&["a"]), &found),
        Err(MapError::Impossible)
    );
}
