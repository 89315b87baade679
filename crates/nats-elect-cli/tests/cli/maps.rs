//! Groups whose keys somebody writes by hand, as members would.

use async_nats::HeaderMap;
use nats_elect_testing::NatsServer;
use serde_json::{Value, json};

use crate::fleet::{bucket, client};

/// The name of a member's lease.
pub fn epoch(number: usize) -> String {
    format!("{number:021}A")
}

/// Writes the map of a group of so many shards, over a value that is none. Members are told by their
/// numbers.
pub async fn write_map(
    server: &NatsServer,
    group: &str,
    shards: usize,
    members: usize,
    owner: impl Fn(usize) -> Option<usize>,
) {
    let mut bucket = bucket(server).await;
    let key = format!("_groups.{group}.map");
    let over = bucket.put(&key, "".into()).await.expect("put");
    let created = bucket.stream.info().await.expect("its settings").created;
    let map = json!({
        "v": 1,
        "bucket": u64::try_from(created.unix_timestamp_nanos()).expect("a time"),
        "over": over,
        "generation": 1,
        "units": { "shards": shards },
        "members": (0..members).map(epoch).collect::<Vec<_>>(),
        "owners": if members > 0 { packed((0..shards).map(owner), members) } else { String::new() },
    });
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Subject-Sequence", over.to_string());
    let jetstream = async_nats::jetstream::new(client(server).await);
    let subject = format!("$KV.leaders.{key}");
    let sent = jetstream.publish_with_headers(subject, headers, map.to_string().into());
    sent.await.expect("publish").await.expect("stored");
}

/// For each unit 0, or the number of its owner and 1, in as many bits as the number of members needs.
fn packed(owners: impl Iterator<Item = Option<usize>>, members: usize) -> String {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let width = (usize::BITS - members.leading_zeros()) as usize;
    let numbers = owners.map(|it| it.map_or(0, |it| it + 1));
    let numbers: Vec<_> = numbers.map(|it| format!("{it:0width$b}")).collect();
    let mut bits = numbers.concat();
    bits += &"0".repeat(bits.len().wrapping_neg() % 8);
    let digits = bits.as_bytes().chunks(6).map(|bits| {
        let bits = format!("{:0<6}", str::from_utf8(bits).expect("bits"));
        let digit = usize::from_str_radix(&bits, 2).expect("six bits");
        char::from(DIGITS[digit])
    });
    digits.collect()
}

/// The record of a member that follows no map.
pub fn record(number: usize, id: &str) -> Value {
    json!({
        "v": 1,
        "epoch": epoch(number),
        "id": id,
        "incarnation": "00000000-0000-0000-0000-000000000001",
        "beat": 1,
        "ttl_ms": 60_000,
        "follows": 0,
    })
}

/// Writes it.
pub async fn write_member(server: &NatsServer, group: &str, number: usize, id: &str) {
    let key = format!("_groups.{group}.member.{}", epoch(number));
    let record = record(number, id).to_string();
    let put = bucket(server).await.put(key, record.into()).await;
    put.expect("put");
}

/// A group of so many shards, each of nobody.
pub async fn foreign_group(server: &NatsServer, name: &str, shards: usize) {
    write_map(server, name, shards, 0, |_| None).await;
}
