//! What stands under a role's keys: any value, with any headers.

use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};
use async_nats::HeaderMap;
use nats_elect_core::assignment::{Epoch, Key, UnitFence, Value};
use nats_elect_core::name::GroupName;
use nats_elect_core::token::LeaseToken;

use crate::store::{fence_entry, role_entry};
use nats_elect_core::heirs::Heirs;
use nats_elect_core::record::{Content, FOREIGN_LEASE, FenceRecord, Nonce, Record, SeenRecord};
use nats_elect_core::release::ReleaseSecret;
use uuid::Uuid;

use super::{message, names};

/// The bytes as a value, and as what a message is made of.
pub fn holds(data: &[u8]) {
    read(1, None, data);
    if let Ok(text) = str::from_utf8(data) {
        if let Some(nonce) = Nonce::parse(text) {
            assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce));
        }
        names::hold_for(text);
    }
    of_groups(data);
    let _ = made_up(&mut Unstructured::new(data));
    let _ = own(&mut Unstructured::new(data));
}

/// The creation time of the bucket in the kept inputs.
const BUCKET: u64 = 5;

/// What is read under the keys of groups says the same when it is written again.
fn of_groups(value: &[u8]) {
    if let Some(key) = str::from_utf8(value).ok().and_then(Key::parse) {
        assert_eq!(key.to_string().as_bytes(), value);
    }
    if let Some(fence) = UnitFence::read(u64::MAX, value, BUCKET) {
        assert_eq!(fence.token.epoch, BUCKET);
        let again = UnitFence::read(u64::MAX, &fence.to_json(), BUCKET);
        assert_eq!(again, Some(fence));
    }
    let group = GroupName::new("g").expect("a name");
    // As the server would have stored it.
    let json: Option<serde_json::Value> = serde_json::from_slice(value).ok();
    let over = json.as_ref().and_then(|it| it.get("over")?.as_u64());
    let over = over.unwrap_or_default().to_string();
    let read_map = |value: &[u8]| {
        let headers = [("Nats-Expected-Last-Subject-Sequence", over.as_str())];
        Value::read(&Key::Map(group.clone()), u64::MAX, value, headers, BUCKET)
    };
    match read_map(value) {
        Value::Map(map) => {
            let units = 0..map.units().count();
            let waits = units.flat_map(|unit| map.waits_for(unit).chain(map.all_wait_for()));
            waits.for_each(|(epoch, since)| {
                assert!(map.waits_on(epoch) && since <= map.sequence());
            });
            assert_eq!(read_map(&map.to_json()), Value::Map(map));
        }
        Value::LaterMap | Value::Foreign => {}
        other => panic!("{other:?} under a map's key"),
    }
    let epoch = json
        .as_ref()
        .and_then(|it| Epoch::parse(it.get("epoch")?.as_str()?));
    let key = Key::Member(group.clone(), epoch.unwrap_or(Epoch::new([0; 16])));
    let read_member = |value: &[u8]| Value::read(&key, 1, value, [], BUCKET);
    match read_member(value) {
        Value::Member(record) => {
            assert!(
                (FOREIGN_LEASE.0..=nats_elect_core::assignment::LONGEST_LEASE)
                    .contains(&record.ttl)
            );
            assert_eq!(read_member(&record.to_json()), Value::Member(record));
        }
        Value::LaterMember | Value::Ended | Value::Expiring | Value::Foreign => {}
        other => panic!("{other:?} under a member's key"),
    }
}

fn made_up(u: &mut Unstructured<'_>) -> Result<()> {
    let revision = message::number(u)?;
    let headers = message::headers(u)?;
    read(revision, headers.as_ref(), &message::value(u)?);
    Ok(())
}

fn read(revision: u64, headers: Option<&HeaderMap>, value: &[u8]) {
    let entry = role_entry(revision, headers, value);
    assert_eq!(entry.revision, revision);
    is_sound(headers, &entry.content);
    let fence = fence_entry(revision, headers, value);
    assert_eq!(fence.revision, revision);
    let lease = fence
        .record
        .and_then(|fence| fence.ttl)
        .unwrap_or(FOREIGN_LEASE.0);
    assert!(
        (FOREIGN_LEASE.0..=FOREIGN_LEASE.1).contains(&lease),
        "{lease:?}"
    );
    match &entry.content {
        // Whatever names an attempt in one place names the same in the other.
        Content::Record(record) => {
            assert_eq!(record.nonce(), fence.nonce());
            if let Some(fence) = fence.record {
                assert_eq!(record.release, fence.release);
            }
        }
        Content::Opaque | Content::Release(_) | Content::ForeignMarker => {
            assert_eq!(fence.record, None);
        }
    }
}

/// What may be read out of a message, given its headers.
pub fn is_sound(headers: Option<&HeaderMap>, content: &Content) {
    let last = |name: &str| Some(headers?.get_last(name)?.as_str());
    let expired = headers.is_some_and(|headers| headers.get("Nats-Marker-Reason").is_some());
    let operation = last("KV-Operation");
    match content {
        Content::Release(release) => {
            assert!(!expired && operation == Some("DEL") && last("Nats-Elect-Release").is_some());
            let secret = last("Nats-Elect-Release-Secret").and_then(ReleaseSecret::parse);
            assert_eq!(release.secret, secret);
        }
        Content::ForeignMarker => assert!(expired || matches!(operation, Some("DEL" | "PURGE"))),
        Content::Record(_) | Content::Opaque => {
            assert!(!expired && !matches!(operation, Some("DEL" | "PURGE")));
        }
    }
    if let Content::Record(record) = content {
        is_bounded(record);
    }
}

fn is_bounded(record: &SeenRecord) {
    let lease = record.ttl.unwrap_or(FOREIGN_LEASE.0);
    assert!(
        (FOREIGN_LEASE.0..=FOREIGN_LEASE.1).contains(&lease),
        "{lease:?}"
    );
    let texts = record.meta.iter().flat_map(|(key, value)| [key, value]);
    let proof = record.proof.as_deref().unwrap_or_default();
    assert!(proof.len() <= 8192, "{}", proof.len());
    for text in texts.chain([&record.id]) {
        assert!(text.chars().count() <= 255);
        names::shows_what_it_is(text);
    }
}

/// What this crate writes, it reads again.
fn own(u: &mut Unstructured<'_>) -> Result<()> {
    let nonce = message::nonce(u)?;
    let release = ReleaseSecret::new(u.arbitrary()?).hash();
    let record = Record {
        id: String::arbitrary(u)?,
        token: LeaseToken::new(Uuid::from_u128(u128::MAX - u128::from(u64::arbitrary(u)?))),
        priority: u.arbitrary()?,
        meta: u.arbitrary()?,
        ttl: Duration::from_millis(message::number(u)?),
        nonce,
        release,
        heirs: Heirs::NONE,
        proof: u.arbitrary()?,
        application: None,
    };
    let value = record.to_json();
    match role_entry(1, None, &value).content {
        Content::Record(seen) => {
            let shown = format!("{seen:?}");
            assert_eq!(
                (seen.nonce(), seen.priority),
                (Some(nonce), record.priority)
            );
            assert_eq!(
                seen.ttl,
                Some(record.ttl.clamp(FOREIGN_LEASE.0, FOREIGN_LEASE.1))
            );
            let proof = record.proof.filter(|proof| proof.len() <= 8192);
            assert_eq!((seen.proof, seen.release), (proof, Some(release)));
            let token = record.token.expose().to_string();
            assert!(!shown.contains(&token), "a secret is kept");
        }
        content => assert!(value.len() > 4096, "{content:?}"),
    }
    let fence = FenceRecord {
        id: record.id,
        ttl: record.ttl,
        nonce,
        release,
    }
    .to_json();
    if fence.len() <= 4096 {
        let seen = fence_entry(1, None, &fence).record;
        let seen = seen.map(|seen| (seen.nonce, seen.release));
        assert_eq!(seen, Some((nonce, Some(release))));
    }
    Ok(())
}
