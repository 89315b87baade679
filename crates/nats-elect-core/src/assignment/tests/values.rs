//! Keys, and what stands under them.

use proptest::prelude::*;

use super::*;
use crate::name::RoleName;

fn map_key() -> Key {
    Key::Map(GroupName::new("partitions").unwrap())
}

fn member_key(number: u16) -> Key {
    Key::Member(GroupName::new("partitions").unwrap(), epoch(number))
}

fn read_map(sequence: u64, value: &[u8], headers: &[(&str, &str)]) -> Value {
    Value::read(&map_key(), sequence, value, headers.iter().copied(), BUCKET)
}

#[test]
fn a_key_has_one_text() {
    for text in [
        "_groups.partitions.map",
        "_groups.a/b=c.member.AAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let key = Key::parse(text).unwrap();
        assert_eq!(key.to_string(), text);
        assert!(RoleName::new(text.split('.').next().unwrap()).is_err());
    }
    for text in [
        "",
        "_groups",
        "_groups.a",
        "_groups..map",
        "_groups._a.map",
        "_groups.a.map.b",
        "_groups.a.member",
        "_groups.a.member.x",
        "_groups.a.member.AAAAAAAAAAAAAAAAAAAAAB",
        "_groups.a.member.AAAAAAAAAAAAAAAAAAAAAA.b",
        "_group.a.map",
        "a.map",
    ] {
        assert_eq!(Key::parse(text), None, "{text}");
    }
    let group = map_key().group().clone();
    assert_eq!(Key::all_of(&group), "_groups.partitions.>");
    assert_eq!(Key::members_of(&group), "_groups.partitions.member.*");
}

#[test]
fn a_map_is_foreign_unless_its_condition_and_its_bucket_are_those_that_it_names() {
    let map = owned(4, 2);
    let value = map.to_json();
    let condition = (CONDITION_HEADER, "11");
    let expected = Value::Map(Box::new(map));
    assert_eq!(read_map(12, &value, &[condition]), expected);
    let other_name = format!("{CONDITION_HEADER}-Subject");
    for headers in [
        &[][..],
        &[(CONDITION_HEADER, "10")],
        &[(CONDITION_HEADER, "011")],
        &[condition, condition],
        &[condition, (&other_name, "_groups.partitions.map")],
    ] {
        assert_eq!(read_map(12, &value, headers), Value::Foreign, "{headers:?}");
    }
    assert_eq!(read_map(11, &value, &[condition]), Value::Foreign);
    let elsewhere = Value::read(&map_key(), 12, &value, [condition], BUCKET + 1);
    assert_eq!(elsewhere, Value::Foreign);
    let over_nothing = Map::first(0, BUCKET, Units::Shards(1), &[], []).unwrap();
    let read = read_map(12, &over_nothing.to_json(), &[(CONDITION_HEADER, "0")]);
    assert_eq!(read, Value::Foreign);
}

#[test]
fn a_map_of_a_later_version_is_not_foreign() {
    let value = format!(r#"{{"v":2,"over":11,"bucket":{BUCKET},"units":7}}"#);
    let read = |headers| read_map(12, value.as_bytes(), headers);
    assert_eq!(read(&[(CONDITION_HEADER, "11")]), Value::LaterMap);
    assert_eq!(read(&[(CONDITION_HEADER, "9")]), Value::Foreign);
    assert_eq!(read(&[]), Value::Foreign);
}

#[test]
fn a_record_says_nothing_under_another_key() {
    let read = |number, value: &[u8]| Value::read(&member_key(number), 9, value, [], BUCKET);
    let value = record(1).to_json();
    assert_eq!(read(1, &value), Value::Member(Box::new(record(1))));
    assert_eq!(read(2, &value), Value::Foreign);
    assert_eq!(read(1, &ended(epoch(1))), Value::Ended);
    assert_eq!(read(2, &ended(epoch(1))), Value::Foreign);
    let ttl = [("Nats-TTL", "3600s")];
    let expiring = Value::read(&member_key(1), 9, &ended(epoch(1)), ttl, BUCKET);
    assert_eq!(expiring, Value::Expiring);
    let later = |field: &str| format!(r#"{{"v":2,"{field}":"{}","ttl_ms":"x"}}"#, epoch(1));
    assert_eq!(read(1, later("epoch").as_bytes()), Value::LaterMember);
    assert_eq!(read(1, later("ended").as_bytes()), Value::Ended);
    assert_eq!(read(2, later("epoch").as_bytes()), Value::Foreign);
    let both = format!(r#"{{"v":1,"epoch":"{0}","ended":"{0}"}}"#, epoch(1));
    for value in [&b""[..], b"null", b"{}", b"[", both.as_bytes()] {
        assert_eq!(read(1, value), Value::Foreign);
        assert_eq!(
            read_map(12, value, &[(CONDITION_HEADER, "11")]),
            Value::Foreign
        );
    }
}

proptest! {
    #[test]
    fn text_that_is_a_key_is_its_text(text in "(_groups\\.)?[a-z_]{0,4}\\.(map|member\\.[-_a-zA-Z0-9]{21}[AQgw]|\\PC{0,9})") {
        if let Some(key) = Key::parse(&text) {
            prop_assert_eq!(key.to_string(), text);
        }
    }

    #[test]
    fn an_epoch_reads_back(bits in any::<[u8; 16]>()) {
        let text = Epoch::new(bits).to_string();
        prop_assert_eq!(text.len(), 22);
        prop_assert_eq!(Epoch::parse(&text), Some(Epoch::new(bits)));
    }

    #[test]
    fn no_bytes_make_a_reader_panic(value in proptest::collection::vec(any::<u8>(), 0..300), over in 0..20_u64) {
        let over = over.to_string();
        prop_assert_eq!(read_map(12, &value, &[(CONDITION_HEADER, &over)]), Value::Foreign);
        prop_assert_eq!(Value::read(&member_key(1), 12, &value, [], BUCKET), Value::Foreign);
    }
}
