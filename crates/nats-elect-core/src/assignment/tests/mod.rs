//! Values round-trip, keep within their sizes, and no bytes make them panic. The maps that are made
//! from each other keep the invariant of the decision record.

use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::name::{GroupName, InstanceId, UnitName};
use crate::record::Nonce;

mod fence;
mod layout;
mod records;
mod rules;
mod succession;
mod values;

const BUCKET: u64 = 1_764_000_000_000_000_000;

fn epoch(number: u16) -> Epoch {
    let bits = u128::MAX / 65_537 * u128::from(number + 1);
    Epoch::new(bits.to_be_bytes())
}

fn epochs(count: u16) -> Vec<Epoch> {
    (0..count).map(epoch).collect()
}

fn name(name: &str) -> UnitName {
    UnitName::new(name).unwrap()
}

fn record(number: u16) -> MemberRecord {
    let nonce = Nonce {
        incarnation: Uuid::from_u128(7),
        beat: 42,
    };
    let id = InstanceId::new("node-1").unwrap();
    MemberRecord::new(epoch(number), id, nonce, Duration::from_secs(15))
}

/// A stored map of this many shards, which these members own in turn.
fn owned(shards: u32, members: u16) -> Map {
    let first = first(shards, members);
    let owners = (0..shards).zip(epochs(members).into_iter().cycle());
    let changes = Changes {
        owners: owners.map(|(unit, owner)| (unit, Some(owner))).collect(),
        ..Changes::default()
    };
    first.next(&changes, |_, _, _| true).unwrap().stored_at(12)
}

fn first(shards: u32, members: u16) -> Map {
    let members = epochs(members);
    let map = Map::first(10, BUCKET, Units::Shards(shards), &members, []);
    map.unwrap().stored_at(11)
}

fn text(map: &Map) -> String {
    String::from_utf8(map.to_json()).unwrap()
}
