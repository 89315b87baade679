//! The value of a unit's fence key.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::{GroupName, UnitName};
use crate::record::json;
use crate::token::{CorrelationId, FencingToken};

/// The largest value that is parsed, in bytes.
const MOST_BYTES: usize = 1024;

/// One unit of one generation of a group, as it stands in keys: `<group>.<generation>.<unit>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitKey {
    /// The group.
    pub group: GroupName,
    /// The generation, from 1 on. A group that is resized begins a new one.
    pub generation: u32,
    /// The unit.
    pub unit: UnitName,
}

impl fmt::Display for UnitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.group, self.generation, self.unit)
    }
}

/// The term of a unit for which its fence key was raised last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitFence {
    /// The term's token: the creation time of the bucket, and the sequence of the map by which the
    /// term began.
    pub token: FencingToken,
    /// The term's name. Where NATS lost maps, two terms can have one token.
    pub term: CorrelationId,
}

impl UnitFence {
    /// The JSON value for the bucket.
    pub fn to_json(&self) -> Vec<u8> {
        json(self)
    }

    /// Interprets a value that is stored at a sequence, in the bucket with this creation time.
    ///
    /// Returns `None` for a value that no member can have written there. It is rubbish, or of another
    /// bucket, or names a map that is not older than itself.
    pub fn read(sequence: u64, value: &[u8], created: u64) -> Option<Self> {
        if value.len() > MOST_BYTES {
            return None;
        }
        let fence: Self = serde_json::from_slice(value).ok()?;
        let is_of_here = fence.token.epoch == created && fence.token.sequence < sequence;
        is_of_here.then_some(fence)
    }
}
