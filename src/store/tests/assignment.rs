//! The keys of a group of which one map says who owns what.

use std::collections::BTreeSet;

use data_encoding::BASE64;
use serde_json::json;

use super::*;
use crate::store::assignment::{AssignmentDelivery, AssignmentWatch};
use crate::store::stand_in::StandIn;
use crate::support::bucket::publish_headers;
use AssignmentDelivery::{CaughtUp, Shown};
use nats_elect_core::assignment::{Epoch, Key, Map, MemberRecord, Units, Value, ended};
use nats_elect_core::event::FailureKind;
use nats_elect_core::member::{Found, Over};
use nats_elect_core::name::GroupName;
use nats_elect_testing::NatsCluster;

mod members;

fn group() -> GroupName {
    GroupName::new("shards").unwrap()
}

fn map() -> Key {
    Key::Map(group())
}

fn epoch(number: u8) -> Epoch {
    Epoch::new([number; 16])
}

fn member(number: u8) -> Key {
    Key::Member(group(), epoch(number))
}

fn member_record(number: u8, beat: u64) -> MemberRecord {
    let id = "node-1".parse().unwrap();
    MemberRecord::new(epoch(number), id, nonce(beat), Duration::from_secs(15))
}

fn of_member(number: u8, beat: u64) -> Value {
    Value::Member(Box::new(member_record(number, beat)))
}

fn first_map(over: u64, bucket: u64) -> Map {
    let members = [epoch(1), epoch(2)];
    Map::first(over, bucket, Units::Shards(8), &members, members).unwrap()
}

impl Lab {
    async fn write(&self, key: &Key, over: u64, value: Vec<u8>) -> Result<u64, StoreError> {
        let over = Over::Sequence(over);
        self.bucket
            .write_assignment(key, over, value, None, TIMEOUT)
            .await
    }

    /// Writes over nothing.
    async fn begin(&self, key: &Key, value: Vec<u8>) -> u64 {
        self.write(key, 0, value).await.unwrap()
    }

    async fn watch_shards(&self) -> AssignmentWatch {
        let (bucket, keys) = (&self.bucket, Key::all_of(&group()));
        let watch = bucket.watch_assignment(&keys, self.info.epoch, TIMEOUT);
        watch.await.unwrap()
    }

    async fn look_at(&self, key: &Key) -> Option<(u64, Value)> {
        let read = self.bucket.read_assignment(key, self.info.epoch, TIMEOUT);
        read.await.unwrap()
    }

    async fn look_at_members(&self) -> Vec<Found> {
        let (bucket, group) = (&self.bucket, group());
        let read = bucket.read_members(&group, self.info.epoch, 0, TIMEOUT);
        read.await.unwrap()
    }
}

const BATCH: usize = 16;

/// Returns what the watch tells up to the first thing of this kind.
async fn told(
    watch: &mut AssignmentWatch,
    is_last: impl Fn(&AssignmentDelivery) -> bool,
) -> Vec<AssignmentDelivery> {
    let mut told = Vec::new();
    while !told.last().is_some_and(&is_last) {
        // One by one, so that nothing comes after the last.
        told.extend(watch.next_batch(1).await.unwrap());
    }
    told
}

async fn told_to(watch: &mut AssignmentWatch, sequence: u64) -> Vec<AssignmentDelivery> {
    told(watch, |it| matches!(it, Shown(_, at, _) if *at == sequence)).await
}

async fn told_until_caught_up(watch: &mut AssignmentWatch) -> Vec<AssignmentDelivery> {
    told(watch, |it| matches!(it, CaughtUp(_))).await
}

#[tokio::test]
async fn a_watch_shows_one_group_in_the_streams_order_and_says_when_it_has_caught_up() {
    let lab = Lab::new().await;
    let kv = lab.kv().await;
    let mut empty = lab.watch_shards().await;
    let all = told_until_caught_up(&mut empty).await;
    assert!(matches!(all[..], [CaughtUp(_)]), "{all:?}");

    let other = Key::Member(GroupName::new("shards-2").unwrap(), epoch(1));
    let first = lab.begin(&member(1), member_record(1, 1).to_json()).await;
    lab.begin(&other, member_record(1, 1).to_json()).await;
    let blank = lab.begin(&map(), Vec::new()).await;
    let second = lab.begin(&member(2), member_record(2, 1).to_json()).await;
    let made = first_map(blank, lab.info.epoch);
    let mapped = lab.write(&map(), blank, made.to_json()).await.unwrap();
    for key in [
        "shards.member.x",
        "shards.x",
        "shards.map.x",
        "shards-2.map",
    ] {
        kv.put(format!("_groups.{key}"), "x".into()).await.unwrap();
    }
    let again = member_record(1, 2).to_json();
    let again = lab.write(&member(1), first, again).await.unwrap();

    let stands = [
        Shown(member(2), second, of_member(2, 1)),
        Shown(map(), mapped, Value::Map(made.stored_at(mapped).into())),
        Shown(member(1), again, of_member(1, 2)),
    ];
    let came = told_to(&mut empty, again).await;
    assert_eq!(came[0], Shown(member(1), first, of_member(1, 1)));
    assert_eq!(came[1], Shown(map(), blank, Value::Foreign));
    assert_eq!(came[2..], stands);

    // A key that has no meaning was written last of all that stands there.
    let last = kv.put("_groups.shards.x", "y".into()).await.unwrap();
    let mut watch = lab.watch_shards().await;
    let all = told_until_caught_up(&mut watch).await;
    assert_eq!(all[..3], stands);
    assert_eq!(all[3..], [CaughtUp(last)]);
}

/// How somebody writes under a key.
enum By {
    Put(Vec<u8>),
    Deleting,
    Purging,
    /// By compare-and-set over what stands there.
    Updating(Vec<u8>),
    /// With these headers.
    Publishing(&'static [u8], Vec<u8>),
}

impl Lab {
    /// Writes so. Returns the sequence.
    async fn write_by(&self, by: By, key: &Key) -> u64 {
        let (kv, name) = (self.kv().await, key.to_string());
        let stands = async || kv.entry(&name).await.unwrap().map_or(0, |it| it.revision);
        let before = stands().await;
        match by {
            By::Put(value) => drop(kv.put(&name, value.into()).await.unwrap()),
            By::Deleting => kv.delete(&name).await.unwrap(),
            By::Purging => kv.purge(&name).await.unwrap(),
            By::Updating(value) => drop(kv.update(&name, value.into(), before).await.unwrap()),
            By::Publishing(headers, value) => {
                publish_headers(
                    &self.server.url(),
                    &self.bucket.subject(key),
                    headers,
                    &value,
                );
            }
        }
        // Where nobody waits for it, no confirmation shows when a message is stored.
        eventually(TIMEOUT, "the value", async || {
            let read = self.bucket.last(self.bucket.subject(key), TIMEOUT).await;
            let at = read.unwrap().map_or(0, |it| it.sequence);
            (at > before).then_some(at)
        })
        .await
    }
}

#[tokio::test]
async fn what_no_member_writes_is_shown_and_read_as_foreign() {
    let large = NatsServer::builder().config("max_payload: 4MB");
    let lab = Lab::on(large.start().unwrap()).await;
    lab.allow_purges().await;
    let mut watch = lab.watch_shards().await;
    let bucket = lab.info.epoch;
    let record = member_record(1, 1).to_json();
    let padded = |value: &[u8], size: usize| {
        let mut value = value.to_vec();
        value.resize(size, b' ');
        value
    };
    // The answer to a read is larger than what a client may send.
    let most = lab.bucket.largest_message();
    lab.begin(&map(), Vec::new()).await;
    let marker = b"NATS/1.0\r\nKV-Operation: DEL\r\n\r\n";
    for (what, key, by) in [
        ("nothing", member(1), By::Put(Vec::new())),
        ("no text", member(1), By::Put(b"\xff{".to_vec())),
        (
            "a record of another",
            member(1),
            By::Put(member_record(2, 1).to_json()),
        ),
        ("another's end", member(1), By::Put(ended(epoch(2)))),
        ("a map", member(1), By::Put(first_map(1, bucket).to_json())),
        (
            "a long record",
            member(1),
            By::Put(padded(&record, 1 << 20)),
        ),
        (
            "the longest record",
            member(1),
            By::Put(padded(&record, most)),
        ),
        ("a deletion", member(1), By::Deleting),
        ("a purge", member(1), By::Purging),
        (
            "a deletion with a record",
            member(1),
            By::Publishing(marker, record.clone()),
        ),
        ("a record", map(), By::Updating(record.clone())),
        (
            "a map of another value",
            map(),
            By::Updating(first_map(1, bucket).to_json()),
        ),
        (
            "the longest map",
            map(),
            By::Updating(padded(&first_map(1, bucket).to_json(), most - 100)),
        ),
        ("a deletion", map(), By::Deleting),
        ("a purge", map(), By::Purging),
    ] {
        let at = lab.write_by(by, &key).await;
        let foreign = (at, Value::Foreign);
        let told = told_to(&mut watch, at).await;
        let shown = Shown(key.clone(), foreign.0, foreign.1.clone());
        assert_eq!(told.last(), Some(&shown), "{what}");
        if let Key::Member(..) = key {
            let found = lab.look_at_members().await;
            let found: Vec<_> = found
                .into_iter()
                .map(|it| (it.sequence, it.value))
                .collect();
            assert_eq!(found, std::slice::from_ref(&foreign), "{what}");
        }
        assert_eq!(lab.look_at(&key).await, Some(foreign), "{what}");
    }
}

#[tokio::test]
async fn a_map_is_believed_by_the_condition_that_the_server_stored() {
    let lab = Lab::new().await;
    let bucket = lab.info.epoch;
    let mut watch = lab.watch_shards().await;
    let mut over = lab.begin(&map(), Vec::new()).await;
    for (what, bucket, is_written_over) in [
        ("a member's", bucket, true),
        ("one that was put", bucket, false),
        ("one of another bucket", bucket + 1, true),
        ("the next one of a member", bucket, true),
    ] {
        let made = first_map(over, bucket);
        let at = if is_written_over {
            lab.write(&map(), over, made.to_json()).await.unwrap()
        } else {
            lab.write_by(By::Put(made.to_json()), &map()).await
        };
        let value = if is_written_over && bucket == lab.info.epoch {
            Value::Map(made.stored_at(at).into())
        } else {
            Value::Foreign
        };
        assert_eq!(
            lab.look_at(&map()).await,
            Some((at, value.clone())),
            "{what}"
        );
        let told = told_to(&mut watch, at).await;
        assert_eq!(told.last(), Some(&Shown(map(), at, value)), "{what}");
        over = at;
    }
}

/// What a writer expects under the key.
enum Expects {
    Last,
    Earlier,
    Nothing,
    Anything,
}

#[tokio::test]
async fn a_value_is_stored_over_what_its_writer_expects() {
    use Expects::{Anything, Earlier, Last, Nothing};
    let lab = Lab::new().await;
    let (record, end) = (|beat| member_record(1, beat).to_json(), ended(epoch(1)));
    let mut stands = 0;
    for (expects, value, is_stored, read) in [
        (Nothing, record(1), true, of_member(1, 1)),
        (Nothing, record(2), false, of_member(1, 1)),
        (Last, record(3), true, of_member(1, 3)),
        (Earlier, record(4), false, of_member(1, 3)),
        (Last, Vec::new(), true, Value::Foreign),
        (Anything, end, true, Value::Ended),
    ] {
        let over = match expects {
            Last => Over::Sequence(stands),
            Earlier => Over::Sequence(stands - 1),
            Nothing => Over::Sequence(0),
            Anything => Over::Anything,
        };
        let writing = lab
            .bucket
            .write_assignment(&member(1), over, value, None, TIMEOUT);
        match writing.await {
            Ok(at) if is_stored => {
                assert!(at > stands);
                stands = at;
            }
            refused => assert_eq!((is_stored, refused), (false, Err(conflict(stands)))),
        }
        assert_eq!(lab.look_at(&member(1)).await, Some((stands, read)));
    }
    // Nothing is there.
    assert_eq!(lab.look_at(&member(2)).await, None);
    let over_one = lab.write(&member(2), stands, Vec::new()).await;
    assert_eq!(over_one, Err(conflict(0)));
    let write =
        lab.bucket
            .write_assignment(&member(2), Over::Anything, ended(epoch(2)), None, TIMEOUT);
    let at = write.await.unwrap();
    assert_eq!(lab.look_at(&member(2)).await, Some((at, Value::Ended)));
    // A marker is something.
    let marker = lab.write_by(By::Deleting, &member(2)).await;
    let over_nothing = lab.write(&member(2), 0, Vec::new()).await;
    assert_eq!(over_nothing, Err(conflict(marker)));
    let large = lab.bucket.largest_message();
    let large = lab.write(&map(), 0, vec![b' '; large]).await;
    assert!(
        matches!(large, Err(StoreError::Unsupported(_))),
        "{large:?}"
    );
}

#[tokio::test]
async fn a_read_shows_what_a_watch_is_behind_of() {
    let lab = Lab::new().await;
    let mut watch = lab.watch_shards().await;
    told_until_caught_up(&mut watch).await;
    let mut at = lab.begin(&member(1), member_record(1, 1).to_json()).await;
    for beat in 2..=20 {
        at = lab
            .write(&member(1), at, member_record(1, beat).to_json())
            .await
            .unwrap();
        let read = lab.look_at(&member(1)).await;
        assert_eq!(read, Some((at, of_member(1, beat))));
    }
    // The watch was not asked meanwhile.
    let shown = told_to(&mut watch, at).await;
    assert_eq!(shown.len(), 20);
}

#[tokio::test]
async fn what_is_of_another_bucket_is_not_shown() {
    let lab = Lab::new().await;
    let old = lab.info.epoch;
    let mut watch = lab.watch_shards().await;
    told_until_caught_up(&mut watch).await;
    jetstream::new(lab.client.clone())
        .delete_key_value("leaders")
        .await
        .unwrap();
    let (_, info) = open(&lab.client, CREATE).await.unwrap();
    let at = lab.begin(&member(1), member_record(1, 1).to_json()).await;

    let look = async |created| {
        let look = lab.bucket.look(&member(1), &map(), created, TIMEOUT).await;
        look.unwrap()
    };
    let looked = look(old).await;
    assert_eq!((looked.bucket, looked.own), (Some(info.epoch), None));
    let looked = look(info.epoch).await;
    assert_eq!(looked.own, Some((at, of_member(1, 1))));
    let another = Some(StoreError::another_bucket());
    let read = lab.bucket.read_assignment(&member(1), old, TIMEOUT).await;
    assert_eq!(read.err(), another);
    let read = lab.bucket.read_members(&group(), old, 0, TIMEOUT).await;
    assert_eq!(read.err(), another);
    let begun = lab.bucket.watch_assignment(Key::ALL, old, TIMEOUT).await;
    assert_eq!(begun.err(), another);
    let end = loop {
        match watch.next_batch(BATCH).await {
            Ok(told) => assert_eq!(told, []),
            Err(end) => break end,
        }
    };
    assert!(end.is_transient(), "{end:?}");

    let lab = Lab { info, ..lab };
    assert_eq!(lab.look_at_members().await.len(), 1);
    told_until_caught_up(&mut lab.watch_shards().await).await;
}

#[tokio::test]
async fn values_that_cost_a_client_its_connection_are_read_as_foreign() {
    let lab = Lab::new().await;
    for key in [map(), member(1)] {
        let unreadable = By::Publishing(
            b"NATS/1.0\r\nno colon\r\n\r\n",
            member_record(1, 1).to_json(),
        );
        let at = lab.write_by(unreadable, &key).await;
        assert_eq!(lab.look_at(&key).await, Some((at, Value::Foreign)));
    }
    let found = lab.look_at_members().await;
    assert!(
        matches!(
            found[..],
            [Found {
                value: Value::Foreign,
                ..
            }]
        ),
        "{found:?}"
    );
}
