//! The values under the keys of a group, as far as members may have written them.

use serde::Deserialize;
use serde_json::json;

use super::VERSION;
use super::epoch::Epoch;
use super::key::Key;
use super::layout::MOST_MAP_BYTES;
use super::map::Map;
use super::record::{MOST_RECORD_BYTES, MemberRecord};
use super::units::Unit;
use crate::condition::{TTL_HEADER, stored_condition};
use crate::record::json;

/// A value under a key of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// The group's map.
    Map(Box<Map>),
    /// A map of a later version. Members that can't read it write nothing over it.
    LaterMap,
    /// A member's record.
    Member(Box<MemberRecord>),
    /// A member's record of a later version. Nothing is known of its lease.
    LaterMember,
    /// The member's epoch is over.
    Ended,
    /// The same, and the server removes the value some time later.
    Expiring,
    /// A value that no member can have written under this key: also a delete marker, and nothing.
    Foreign,
}

/// The fields that all versions have.
#[derive(Deserialize)]
struct Head {
    v: u64,
    bucket: Option<u64>,
    over: Option<u64>,
    epoch: Option<Epoch>,
    ended: Option<Epoch>,
}

/// The JSON value that says that an epoch is over: [`Value::Ended`]. All versions understand it.
pub fn ended(epoch: Epoch) -> Vec<u8> {
    json(&json!({ "v": VERSION, "ended": epoch }))
}

impl Value {
    /// Reads the message under a key.
    ///
    /// - `sequence`: its sequence in the stream.
    /// - `value`: its payload.
    /// - `headers`: its stored headers. Those of a map prove what it was written over. Those of an
    ///   *ended* tell whether it expires.
    /// - `bucket`: the creation time of the bucket in nanoseconds since the Unix epoch.
    pub fn read<'a>(
        key: &Key,
        sequence: u64,
        value: &[u8],
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        bucket: u64,
    ) -> Self {
        let read = match key {
            Key::Map(_) => Self::read_map(sequence, value, stored_condition(headers), bucket),
            Key::Member(_, epoch) => {
                let expires = headers.into_iter().any(|(name, _)| name == TTL_HEADER);
                Self::read_member(*epoch, value, expires)
            }
        };
        read.unwrap_or(Self::Foreign)
    }

    /// Rule 2: whether the epoch that has this value under its key is clear of a unit for the map of
    /// this sequence. It is over, or its record [says so](MemberRecord::is_clear).
    pub fn is_clear(&self, generation: u32, unit: &Unit, number: u64) -> bool {
        match self {
            Self::Ended | Self::Expiring => true,
            Self::Member(record) => record.is_clear(generation, unit, number),
            _ => false,
        }
    }

    fn read_map(sequence: u64, value: &[u8], condition: Option<u64>, bucket: u64) -> Option<Self> {
        let head = head(value, MOST_MAP_BYTES)?;
        let over = condition.filter(|over| (1..sequence).contains(over))?;
        (head.over == Some(over) && head.bucket == Some(bucket)).then_some(())?;
        if head.v > VERSION {
            return Some(Self::LaterMap);
        }
        Map::parse(sequence, value).map(|map| Self::Map(map.into()))
    }

    fn read_member(epoch: Epoch, value: &[u8], expires: bool) -> Option<Self> {
        let head = head(value, MOST_RECORD_BYTES)?;
        match (head.epoch, head.ended) {
            (None, Some(it)) if it == epoch && expires => Some(Self::Expiring),
            (None, Some(it)) if it == epoch => Some(Self::Ended),
            (Some(it), None) if it == epoch && head.v > VERSION => Some(Self::LaterMember),
            (Some(it), None) if it == epoch => {
                MemberRecord::parse(value).map(|record| Self::Member(record.into()))
            }
            _ => None,
        }
    }
}

fn head(value: &[u8], most_bytes: usize) -> Option<Head> {
    if value.len() > most_bytes {
        return None;
    }
    let head: Head = serde_json::from_slice(value).ok()?;
    (head.v >= VERSION).then_some(head)
}
