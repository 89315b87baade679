//! The record of a member, and sets of units.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::application::Application;

fn usual() -> MemberRecord {
    MemberRecord {
        follows: 123_456_789,
        profile: Profile {
            zone: Some("eu-central-1a".into()),
            labels: ["disk=ssd", "tier=prod", "arch=arm64"]
                .map(String::from)
                .into(),
            max_units: Some(2000),
            application: Some(Application::set("billing-worker")),
            version: Some("1.14.2".into()),
            load: 420,
            heavy: BTreeMap::from([(UnitName::shard(17), 300)]),
            ..Profile::default()
        },
        ..record(1)
    }
}

fn full() -> MemberRecord {
    MemberRecord {
        excepts: [
            (1, Unit::Shard(3)),
            (1, Unit::Shard(4)),
            (2, Unit::Shard(9)),
        ]
        .into_iter()
        .collect(),
        unable: [(2, Unit::Named(name("network")))].into_iter().collect(),
        leaves: true,
        waits: true,
        profile: Profile {
            cordoned: true,
            application: Some(Application::program("worker")),
            ..usual().profile
        },
        ..usual()
    }
}

#[test]
fn a_record_reads_back_and_is_short() {
    for record in [record(1), usual(), full()] {
        assert_eq!(MemberRecord::parse(&record.to_json()), Some(record));
    }
    let bytes = usual().to_json().len();
    println!(
        "a record: {bytes} bytes: {}",
        String::from_utf8(usual().to_json()).unwrap()
    );
    println!("{}", String::from_utf8(full().to_json()).unwrap());
    assert!(bytes <= 512, "{bytes}");
    let half = (0..10_000)
        .step_by(2)
        .map(|number| (1, Unit::Shard(number)));
    let busy = MemberRecord {
        excepts: half.collect(),
        ..usual()
    };
    let bytes = busy.to_json().len();
    println!("every second of 10,000 units excepted: {bytes} bytes");
    assert!(bytes <= 512 + 1700, "{bytes}");
}

#[test]
fn a_member_is_clear_if_it_follows_and_excepts_neither_the_unit_nor_another_generation() {
    let (shard, other) = (&Unit::Shard(3), &Unit::Shard(4));
    let mut record = MemberRecord {
        follows: 20,
        ..record(1)
    };
    assert!(record.is_clear(1, shard, 20) && record.is_clear_of_all(20));
    assert!(!record.is_clear(1, shard, 21) && !record.is_clear_of_all(21));
    record.excepts = [(1, shard.clone())].into_iter().collect();
    assert!(!record.is_clear(1, shard, 20) && record.is_clear(1, other, 20));
    assert!(!record.is_clear(2, shard, 20) && !record.is_clear(2, other, 20));
    assert!(!record.is_clear_of_all(20));
    let (a, b) = (&Unit::Named(name("a")), &Unit::Named(name("b")));
    record.excepts = [(1, a.clone())].into_iter().collect();
    assert!(!record.is_clear(1, a, 20) && record.is_clear(1, b, 20));
    for (value, is_clear) in [
        (Value::Ended, true),
        (Value::Expiring, true),
        (Value::Member(record.into()), false),
        (Value::LaterMember, false),
        (Value::Foreign, false),
    ] {
        assert_eq!(value.is_clear(1, a, 20), is_clear, "{value:?}");
        let is_member = matches!(value, Value::Member(_));
        assert_eq!(value.is_clear(1, b, 20), is_clear || is_member);
    }
}

#[test]
fn a_record_that_breaks_a_bound_is_none_or_is_cut() {
    let text = String::from_utf8(full().to_json()).unwrap();
    for (from, to) in [
        ("15000", "99"),
        ("15000", "60001"),
        ("\"node-1\"", "\"a b\""),
        ("\"3-4\"", "\"4-3\""),
        ("\"3-4\"", "\"4,4\""),
        ("\"3-4\"", "\"262144\""),
        ("\"3-4\"", "\"=B\""),
        ("\"3-4\"", "4"),
        ("\"network\"", "\"a.b\""),
        ("\"leaves\":true", "\"leaves\":1"),
        ("\"follows\":123456789", "\"follows\":-1"),
        ("\"follows\":123456789,", ""),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replacen(from, to, 1);
        assert_eq!(MemberRecord::parse(changed.as_bytes()), None, "{changed}");
    }
    let long = MemberRecord {
        profile: Profile {
            zone: Some("z\u{202e}\n".repeat(300)),
            labels: (0..99).map(|number| number.to_string()).collect(),
            version: Some("v".repeat(65)),
            heavy: (0..99).map(|number| (UnitName::shard(number), 1)).collect(),
            ..usual().profile
        },
        ..usual()
    };
    let read = MemberRecord::parse(&long.to_json()).unwrap().profile;
    assert_eq!(read.zone.unwrap().len(), 255);
    assert_eq!(
        (read.labels.len(), read.heavy.len()),
        (MOST_LABELS, MOST_HEAVY)
    );
    assert_eq!(read.version, None);
    let unknown = text.replacen("\"v\":1", "\"v\":1,\"later\":[{}]", 1);
    assert_eq!(MemberRecord::parse(unknown.as_bytes()), Some(full()));
}

proptest! {
    #[test]
    fn a_set_of_numbers_reads_back(
        numbers in proptest::collection::btree_set(0..MOST_SHARDS, 0..20),
        dense in proptest::collection::btree_set(0..200_u32, 0..150),
    ) {
        for numbers in [numbers, dense] {
            let set: Ranges = numbers.iter().copied().collect();
            let text = set.to_string();
            let bitmap = 1 + numbers.last().map_or(0, |last| last / 8 + 1).div_ceil(3) * 4;
            prop_assert!(text.len() <= bitmap.max(32) as usize);
            prop_assert_eq!(Ranges::parse(&text), Some(set.clone()));
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), numbers.clone());
            for number in 0..200 {
                prop_assert_eq!(set.contains(number), numbers.contains(&number));
            }
        }
    }

    #[test]
    fn text_that_is_a_set_of_numbers_is_one(text in "=?[-,0-9A-Za-z_]{0,40}|[0-9]{1,3}(,[0-9]{1,4}(-[0-9]{4,6})?){0,3}") {
        if let Some(set) = Ranges::parse(&text) {
            prop_assert_eq!(Ranges::parse(&set.to_string()), Some(set));
        }
    }

    #[test]
    fn a_record_with_other_bytes_never_panics(at in 0..400_usize, byte in any::<u8>()) {
        let mut value = full().to_json();
        let at = at % value.len();
        value[at] = byte;
        if let Some(record) = MemberRecord::parse(&value) {
            prop_assert_eq!(MemberRecord::parse(&record.to_json()), Some(record));
        }
    }
}
