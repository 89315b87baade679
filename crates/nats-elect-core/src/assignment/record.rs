//! The record that a member writes with each heartbeat.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::VERSION;
use super::epoch::{Epoch, MEMBER_LEASE};
use super::units::{Unit, UnitSets};
use crate::application::Application;
use crate::name::{InstanceId, UnitName};
use crate::record::{Nonce, json};
use crate::text::printable;

/// The most labels of a member that are read.
pub const MOST_LABELS: usize = 32;

/// The most units of which a member tells the load.
pub const MOST_HEAVY: usize = 32;

/// The longest version of an application, in bytes.
pub const MOST_VERSION_BYTES: usize = 64;

/// The largest record that is parsed, in bytes. Its sets of units, all of 256 names with 255 bytes
/// each, fit.
pub(super) const MOST_RECORD_BYTES: usize = 256 * 1024;

/// The record of a member: its lease, which map it follows, and what is to be known for a plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The member's epoch, which is in its key, too.
    pub epoch: Epoch,
    /// The id of its instance.
    pub id: InstanceId,
    /// The start of its instance.
    pub incarnation: Uuid,
    /// The number of the write within that incarnation.
    pub beat: u64,
    /// The lease, in whole milliseconds: from 100 ms to [`LONGEST_LEASE`](super::LONGEST_LEASE). It counts from the
    /// sending of this write.
    #[serde(rename = "ttl_ms", with = "millis")]
    pub ttl: Duration,
    /// The sequence of the newest map that it was shown. 0 if it was shown none.
    pub follows: u64,
    /// The units on which a handler of it acts by an earlier map.
    #[serde(default, skip_serializing_if = "UnitSets::is_empty")]
    pub excepts: UnitSets,
    /// The units that it can't run.
    #[serde(default, skip_serializing_if = "UnitSets::is_empty")]
    pub unable: UnitSets,
    /// Whether it leaves, and begins nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub leaves: bool,
    /// Whether it waits for leases of another bucket, and gets no units until then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Whether its writes of maps keep failing: it plans only where all others that stay say so, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aside: bool,
    /// What it tells about itself.
    #[serde(flatten)]
    pub profile: Profile,
}

/// What a member tells about itself, for plans and for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Profile {
    /// Whether it takes no more units.
    #[serde(rename = "cordon", default, skip_serializing_if = "std::ops::Not::not")]
    pub cordoned: bool,
    /// Where it runs, if it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Its labels, such as `disk=ssd`. At most [`MOST_LABELS`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// How many units of the group it owns at most. `None`: no limit.
    #[serde(rename = "most", default, skip_serializing_if = "Option::is_none")]
    pub max_units: Option<u32>,
    /// Its application, if it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<Application>,
    /// The version of its application, if it tells. At most [`MOST_VERSION_BYTES`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The work that its units make, in a measure of the application's own. 0: it does not tell.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub load: u64,
    /// Of that, the work of the units that make most of it. At most [`MOST_HEAVY`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub heavy: BTreeMap<UnitName, u32>,
}

#[derive(Serialize)]
struct Versioned<'a> {
    v: u64,
    #[serde(flatten)]
    record: &'a MemberRecord,
}

impl MemberRecord {
    /// The record of a member that was shown no map and tells nothing about itself.
    pub fn new(epoch: Epoch, id: InstanceId, nonce: Nonce, ttl: Duration) -> Self {
        Self {
            epoch,
            id,
            incarnation: nonce.incarnation,
            beat: nonce.beat,
            ttl,
            follows: 0,
            excepts: UnitSets::default(),
            unable: UnitSets::default(),
            leaves: false,
            waits: false,
            aside: false,
            profile: Profile::default(),
        }
    }

    /// The nonce of this write.
    pub const fn nonce(&self) -> Nonce {
        Nonce {
            incarnation: self.incarnation,
            beat: self.beat,
        }
    }

    /// Whether the member is clear of a unit for the map of this sequence: it follows that map or a
    /// later one, and excepts neither the unit nor one of another generation.
    pub fn is_clear(&self, generation: u32, unit: &Unit, number: u64) -> bool {
        self.follows >= number
            && !self.excepts.has_other_generation(generation)
            && !self.excepts.contains(generation, unit)
    }

    /// Whether the member is clear of all units of all generations for the map of this sequence.
    pub fn is_clear_of_all(&self, number: u64) -> bool {
        self.follows >= number && self.excepts.is_empty()
    }

    /// The JSON value for the bucket.
    pub fn to_json(&self) -> Vec<u8> {
        let value = Versioned {
            v: VERSION,
            record: self,
        };
        json(&value)
    }

    /// Parses a value of this version. Returns `None` if it is no member's record. Text is made
    /// printable, and what is beyond the bounds of labels, loads and versions is left out.
    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let mut record: Self = serde_json::from_slice(value).ok()?;
        let told = &mut record.profile;
        told.zone = told.zone.as_deref().map(printable);
        let labels = told.labels.iter().take(MOST_LABELS);
        told.labels = labels.map(|label| printable(label)).collect();
        let application = told.application.take();
        told.application = application.map(|it| Application::new(&it.name, it.is_set));
        let version = told.version.as_deref().map(printable);
        told.version = version.filter(|version| version.len() <= MOST_VERSION_BYTES);
        told.heavy = std::mem::take(&mut told.heavy)
            .into_iter()
            .take(MOST_HEAVY)
            .collect();
        Some(record)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(value: &u64) -> bool {
    *value == 0
}

mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::MEMBER_LEASE;

    pub fn serialize<S: Serializer>(ttl: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(ttl.as_millis().try_into().unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let ttl = Duration::from_millis(u64::deserialize(deserializer)?);
        let is_lease = MEMBER_LEASE.contains(&ttl);
        is_lease
            .then_some(ttl)
            .ok_or_else(|| de::Error::custom("no member's lease"))
    }
}
