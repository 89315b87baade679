//! The JSON of a map: its sizes, and what is none.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::super::map::Wait;
use super::*;

/// The bound of 10,000 shards on 100 members.
const MOST: usize = 20 * 1024;

#[test]
fn a_map_is_json_for_people_and_tools() {
    let map = owned(4, 2);
    let changes = Changes {
        owners: BTreeMap::from([(3, Some(epoch(0)))]),
        ..Changes::default()
    };
    let moved = map.next(&changes, |_, _, _| false).unwrap().stored_at(13);
    let (a, b) = (epoch(0), epoch(1));
    assert_eq!(
        text(&moved),
        format!(
            r#"{{"v":1,"bucket":{BUCKET},"over":12,"generation":1,"units":{{"shards":4}},"members":["{a}","{b}"],"owners":"ZQ","moving":{{"units":"3","from":[[1,0]],"each":"AA"}}}}"#
        )
    );
    let changes = Changes {
        owners: BTreeMap::from([(3, None)]),
        gone: [b].into(),
        ..Changes::default()
    };
    let next = moved.next(&changes, |_, _, _| false).unwrap();
    assert!(text(&next).ends_with(&format!(
        r#""members":["{a}"],"others":["{b}"],"owners":"oA","moving":{{"units":"1,3","from":[[0,0],[1,0],[1,13]],"each":"RgA"}}}}"#
    )), "{}", text(&next));
    let collect = moved.collect(20, epochs(3), |_| false).unwrap();
    assert!(
        text(&collect).ends_with(r#""owners":"ZQ","from":{"0":"0-2"}}"#),
        "{}",
        text(&collect)
    );
    let larger = moved.resize(Units::Shards(8), |_, _, _| false).unwrap();
    assert!(text(&larger).ends_with(&format!(
        r#""generation":2,"units":{{"shards":8}},"members":["{a}","{b}"],"from":{{"0":"0-1"}}}}"#
    )), "{}", text(&larger));
}

#[test]
fn ten_thousand_units_take_seven_kilobytes_on_ten_members_and_fit_on_a_hundred() {
    for (members, most) in [(10, 7_200), (100, 15_000)] {
        let map = owned(10_000, members);
        println!("10,000 units on {members}: {} bytes", map.to_json().len());
        assert!(map.to_json().len() <= most, "{}", map.to_json().len());
    }
    // All members lost their leases: a hundred former epochs are not over, nor are the new ones.
    let map = owned(10_000, 100);
    let collect = map.collect(u64::MAX - 9, epochs(200), |_| false).unwrap();
    let collect = collect.stored_at(u64::MAX - 8);
    let after = collect.next(&Changes::default(), |_, _, _| false).unwrap();
    let larger = after.stored_at(u64::MAX - 7);
    let larger = larger
        .resize(Units::Shards(10_000), |_, _, _| false)
        .unwrap();
    for map in [&collect, &larger] {
        println!(
            "a collect, or a larger group: {} bytes",
            map.to_json().len()
        );
        assert!(map.to_json().len() <= MOST, "{}", map.to_json().len());
    }
    assert_eq!(collect.epochs().len(), 200);
    for (shards, members) in [(10_000, 10), (10_000, 100), (100_000, 100), (100_000, 500)] {
        let most = Map::most_bytes(Units::Shards(shards), members);
        println!("the largest of {shards} on {members}: {most} bytes");
        assert!(most < 1024 * 1024, "a usual max_payload takes it");
    }
    assert!(Map::most_bytes(Units::Shards(10_000), 100) > collect.to_json().len());
}

#[test]
fn a_hundred_thousand_units_read_back_in_two_bytes_each() {
    let map = owned(100_000, 100);
    let read = Map::parse(12, &map.to_json()).unwrap();
    println!("100,000 units on 100: {} bytes", map.to_json().len());
    assert_eq!(read, map);
    assert_eq!(size_of_val(&*read.owners), 200_000);
    assert!(read.own.is_empty() && read.common.is_empty());
    assert!(size_of::<Map>() <= 256);
    assert_eq!(size_of::<Wait>(), 16);
}

#[test]
fn many_moves_at_once_are_packed() {
    let map = owned(10_000, 100);
    // Every unit goes to the next member.
    let owners = (0..10_000).map(|unit| (unit, map.owner((unit + 1) % 100)));
    let changes = Changes {
        owners: owners.collect(),
        ..Changes::default()
    };
    let moved = map.next(&changes, |_, _, _| false).unwrap().stored_at(13);
    println!("all of 10,000 units move: {} bytes", moved.to_json().len());
    assert!(moved.to_json().len() <= Map::most_bytes(Units::Shards(10_000), 100));
    assert_eq!(Map::parse(13, &moved.to_json()), Some(moved));
}

/// A map with all fields.
fn rich() -> Map {
    let map = owned(4, 2)
        .collect(20, epochs(3), |_| false)
        .unwrap()
        .stored_at(21);
    let changes = Changes {
        joined: vec![epoch(3)],
        owners: BTreeMap::from([(1, Some(epoch(0))), (3, None)]),
        ..Changes::default()
    };
    map.next(&changes, |_, _, _| false).unwrap().stored_at(22)
}

#[test]
fn a_value_that_breaks_a_rule_is_no_map() {
    let text = text(&rich());
    assert_eq!(Map::parse(22, text.as_bytes()), Some(rich()));
    let a = epoch(0).to_string();
    for (from, to) in [
        ("\"v\":1", "\"v\":2"),
        ("\"over\":21", "\"over\":0"),
        ("\"over\":21", "\"over\":22"),
        ("\"over\":21", "\"over\":\"21\""),
        ("\"generation\":1", "\"generation\":0"),
        ("\"generation\":1", "\"generation\":1000001"),
        ("{\"shards\":4}", "{\"shards\":0}"),
        ("{\"shards\":4}", "{\"shards\":262145}"),
        ("{\"shards\":4}", "{\"shards\":5}"),
        ("{\"shards\":4}", "{\"heaps\":4}"),
        ("{\"shards\":4}", "{\"names\":[\"a\",\"a\",\"b\",\"c\"]}"),
        ("{\"shards\":4}", "{\"names\":[\"a\",\"b\",\"c\",\"d.e\"]}"),
        (&a, &epoch(1).to_string()),
        (&a, "x"),
        ("\"owners\":\"VA\"", "\"owners\":\"/A\""),
        ("\"owners\":\"VA\"", "\"owners\":\"RAA\""),
        ("\"owners\":\"VA\"", "\"owners\":\"RAAA\""),
        ("\"owners\":\"VA\"", "\"owners\":\"R\""),
        ("\"from\":{\"21\":\"0-1,3\"}", "\"from\":{\"21\":\"0-1,4\"}"),
        (
            "\"from\":{\"21\":\"0-1,3\"}",
            "\"from\":{\"21\":\"0-1,3\",\"5\":\"3\"}",
        ),
        ("\"from\":{\"21\":\"0-1,3\"}", "\"from\":{\"22\":\"0-1,3\"}"),
        (
            "\"moving\":{\"units\":\"1,3\"",
            "\"moving\":{\"units\":\"1,4\"",
        ),
        (
            "\"moving\":{\"units\":\"1,3\"",
            "\"moving\":{\"units\":\"3,1\"",
        ),
        ("\"from\":[[1,0]]", "\"from\":[[4,0]]"),
        ("\"from\":[[1,0]]", "\"from\":[]"),
        ("\"from\":[[1,0]]", "\"from\":[[1,0,0]]"),
        ("\"each\":\"AA\"", "\"each\":\"_w\""),
        ("\"each\":\"AA\"", "\"each\":\"\""),
    ] {
        assert!(text.contains(from), "{from} in {text}");
        let changed = text.replacen(from, to, 1);
        assert_eq!(Map::parse(22, changed.as_bytes()), None, "{changed}");
    }
    let unknown = text.replacen("\"v\":1", "\"v\":1,\"later\":[{}]", 1);
    assert_eq!(Map::parse(22, unknown.as_bytes()), Some(rich()));
    // Much that is said again and again takes no memory.
    let again: Vec<_> = (1..22)
        .map(|since| format!("\"{since}\":\"0-3\""))
        .collect();
    let again = text.replacen("\"21\":\"0-1,3\"", &again.join(","), 1);
    assert_eq!(Map::parse(22, again.as_bytes()), None);
    let long = format!("{text}{}", " ".repeat(1024 * 1024));
    assert_eq!(Map::parse(22, long.as_bytes()), None);
}

proptest! {
    #[test]
    fn a_map_with_other_bytes_never_panics(at in any::<usize>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut value = rich().to_json();
        let at = at % value.len();
        if cut { value.remove(at); } else { value[at] = byte; }
        if let Some(map) = Map::parse(22, &value) {
            prop_assert_eq!(Map::parse(22, &map.to_json()), Some(map));
        }
    }
}
