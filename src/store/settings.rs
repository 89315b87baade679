//! The settings of a bucket's stream, as nats-server 2.11 to 2.15 knows them, and what is said of
//! those that do not suit elections. A server leaves out settings that it does not know.

mod table;

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

pub(super) use self::table::LARGEST_RECORD;
use self::table::Row;
use nats_elect_core::name::BucketName;

/// Sequences from here on were taken from a clock in microseconds. This value is July 2017, and no
/// bucket counts that far.
const FIRST_UNIQUE_SEQUENCE: u64 = 1_500_000_000_000_000;

/// The number of messages of a role: its key and its fence record.
const LEAST_MESSAGES: u64 = 2;
/// The size of these messages in bytes, as the server counts them, with names and ids of some
/// length and no metadata.
const LEAST_BYTES: u64 = 1024;
/// The number of writes of a role in progress. With several replicas, the server counts them beside
/// the messages that they replace.
const UNDER_WAY: u64 = 1;

/// The risk of one of a bucket's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketNote {
    /// The setting of the bucket's stream, by its name in the server's JSON: `num_replicas`,
    /// `max_age`.
    pub setting: &'static str,
    /// The risk, in words.
    pub risk: String,
    /// How to change the setting, with the command where there is one.
    pub remedy: String,
}

impl fmt::Display for BucketNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.risk, self.remedy)
    }
}

/// What the bucket holds.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamState {
    pub messages: u64,
    pub bytes: u64,
    pub last_seq: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the settings are the server's"
)]
pub(super) struct StreamConfig {
    subjects: Vec<String>,
    retention: String,
    max_consumers: i64,
    max_msgs: i64,
    max_bytes: i64,
    /// Nanoseconds.
    pub max_age: u64,
    max_msgs_per_subject: i64,
    pub max_msg_size: i64,
    discard: String,
    discard_new_per_subject: bool,
    storage: String,
    pub num_replicas: usize,
    no_ack: bool,
    sealed: bool,
    first_seq: u64,
    pub allow_atomic: bool,
    allow_direct: bool,
    allow_msg_counter: bool,
    allow_msg_schedules: bool,
    persist_mode: String,
    mirror: Option<Value>,
    sources: Option<Vec<Value>>,
    republish: Option<Value>,
    subject_transform: Option<Value>,
    /// Nanoseconds.
    subject_delete_marker_ttl: u64,
    consumer_limits: ConsumerLimits,
    allow_rollup_hdrs: bool,
    pub metadata: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ConsumerLimits {
    /// Nanoseconds.
    inactive_threshold: u64,
}

impl StreamConfig {
    /// Returns the reason why the bucket is not fit for elections, if there is one, with what mends
    /// it.
    pub fn problem(&self, bucket: &BucketName) -> Option<String> {
        let found = told(self.unfit(bucket), bucket).next()?;
        Some(format!("{}: {}", found.risk, found.remedy))
    }

    pub fn notes(&self, bucket: &BucketName) -> Vec<BucketNote> {
        let (risks, ways_past) = (self.risks(), self.ways_past());
        told(risks.into_iter().chain(ways_past), bucket).collect()
    }

    pub fn unique_sequences(&self) -> bool {
        self.first_seq >= FIRST_UNIQUE_SEQUENCE
    }

    /// Returns the number of roles that there is room for at most beside the stored messages, if
    /// there are limits.
    pub fn room_beside(&self, stored: &StreamState) -> Option<u64> {
        let (messages, bytes) = self.least();
        let limits = [
            (self.max_msgs, stored.messages, messages),
            (self.max_bytes, stored.bytes, bytes),
        ];
        let room = |(limit, used, each)| match u64::try_from(limit) {
            Ok(0) | Err(_) => None,
            Ok(limit) => Some(limit.saturating_sub(used) / each),
        };
        limits.into_iter().filter_map(room).min()
    }

    /// Returns the messages and bytes of a role.
    const fn least(&self) -> (u64, u64) {
        let under_way = if self.num_replicas > 1 { UNDER_WAY } else { 0 };
        let messages = LEAST_MESSAGES + under_way;
        (messages, LEAST_BYTES / LEAST_MESSAGES * messages)
    }
}

/// Returns those rows that apply to the bucket.
fn told(
    rows: impl IntoIterator<Item = Row>,
    bucket: &BucketName,
) -> impl Iterator<Item = BucketNote> {
    let edit = format!("nats stream edit KV_{bucket}");
    let rows = rows.into_iter().filter(|row| row.applies);
    rows.map(move |row| BucketNote {
        setting: row.setting,
        risk: row.why,
        remedy: (row.remedy.replace("EDIT", &edit)).replace("BUCKET", bucket.as_str()),
    })
}

#[cfg(test)]
pub(super) mod tests;
