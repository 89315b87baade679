//! The capabilities of a bucket, from the settings that the server returned. A server silently
//! drops settings that it does not know.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use serde::Deserialize;
use serde_json::Value;

use super::error::StoreError;
use super::server::require_answering_server;
use nats_elect_core::duration::exact;
use nats_elect_core::name::{BucketName, NameError};

/// Sequences from here on were taken from a clock in microseconds. This value is July 2017, and no
/// bucket counts that far.
const FIRST_UNIQUE_SEQUENCE: u64 = 1_500_000_000_000_000;
/// The setting that lets one message replace all others.
const ROLLUP: &str = "allow_rollup_hdrs";
/// The key of the server's version in a stream's metadata.
const SERVER_VERSION: &str = "_nats.ver";
/// The size of a record with a good deal of metadata.
const SMALLEST_MESSAGE: i64 = 4096;

/// The number of messages of a role: its key and its fence record.
const LEAST_MESSAGES: u64 = 2;
/// The size of these messages in bytes, as the server counts them, with names and ids of some
/// length and no metadata.
const LEAST_BYTES: u64 = 1024;
/// The number of writes of a role in progress. With several replicas, the server counts them beside
/// the messages that they replace.
const UNDER_WAY: u64 = 1;

/// The note of a bucket with one replica.
pub const ONE_REPLICA: &str =
    "one replica: while its server is down no role can be renewed or claimed";

/// The identity and the capabilities of a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// The bucket's creation time by the server's clock, in nanoseconds since the Unix epoch. A
    /// recreated bucket has another one.
    pub epoch: u64,
    /// The maximum lifetime of its keys.
    pub max_age: Option<Duration>,
    /// Whether the server can write several messages as one.
    pub atomic: bool,
    /// Whether its sequences are greater than those of a deleted bucket of the same name.
    pub unique_sequences: bool,
    /// The number of servers that keep it.
    pub replicas: usize,
    /// The number of values that it keeps per key; -1 for all.
    pub history: i64,
    /// Whether this client has just created it.
    pub created: bool,
    /// Its shortcomings and risks, in words.
    pub notes: Vec<String>,
}

/// A review of a bucket's settings, for programs that look at buckets, such as a check before a
/// deployment. It contains the warnings that a manager logs when it starts.
///
/// ```no_run
/// use nats_elect::{BoxError, BucketReview, ManagerConfig};
///
/// # async fn run() -> Result<(), BoxError> {
/// let config = ManagerConfig::default().with_env()?;
/// let client = config.connect("preflight").await?;
/// let subject = format!("$JS.API.STREAM.INFO.KV_{}", config.bucket);
/// let answer = client.request(subject, "".into()).await?;
/// match BucketReview::of_answer(&config.bucket, &answer.payload)? {
///     None => println!("the server did not describe the bucket"),
///     Some(BucketReview { unfit: Some(why), .. }) => println!("no elections: {why}"),
///     Some(review) => {
///         for note in review.notes {
///             println!("{}: {}", note.setting, note.risk);
///         }
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketReview {
    /// The reason why the bucket is not fit for elections, if there is one. A manager does not
    /// start on such a bucket.
    pub unfit: Option<String>,
    /// Its shortcomings and risks.
    pub notes: Vec<BucketNote>,
    /// The number of roles that its limits have room for at most, or nothing if it has no limits. A
    /// role takes two keys and 1 KiB, or three and 1.5 KiB with several replicas.
    pub room: Option<u64>,
    /// The number of further roles that there is room for at most, beside the stored messages, or
    /// nothing if the bucket has no limits.
    pub spare: Option<u64>,
}

/// The risk of one of a bucket's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketNote {
    /// The setting of the bucket's stream, by its name in the server's JSON: `num_replicas`,
    /// `max_age`.
    pub setting: &'static str,
    /// The risk, in words.
    pub risk: String,
}

impl BucketNote {
    /// Formats the note as a manager logs it when it starts. Where a single message by another
    /// client could do harm, the text includes the command that changes the setting.
    fn in_words(self, bucket: &BucketName) -> String {
        if self.setting == ROLLUP {
            return format!(
                "{}; `nats stream edit KV_{bucket} --no-allow-rollup` forbids it",
                self.risk
            );
        }
        self.risk
    }
}

impl BucketReview {
    /// Reviews the server's answer to `$JS.API.STREAM.INFO.KV_<bucket>`. Returns nothing if the
    /// answer cannot be read.
    ///
    /// A server leaves out settings that it does not know. The review takes them as not set. A
    /// server that is too old for elections makes the bucket unfit.
    ///
    /// # Errors
    /// [`NameError`], if no bucket can have this name.
    pub fn of_answer(bucket: &str, answer: &[u8]) -> Result<Option<Self>, NameError> {
        let bucket = BucketName::new(bucket)?;
        let stream = serde_json::from_slice::<StreamInfo>(answer).ok();
        Ok(stream.map(|stream| Self {
            unfit: stream.problem(&bucket),
            notes: stream.config.notes(),
            room: stream.config.room_beside(&StreamState::default()),
            spare: stream.config.room_beside(&stream.state),
        }))
    }
}

/// The server's answer. It has only the fields that are needed here, so that later servers may add
/// others.
#[derive(Deserialize)]
pub(super) struct StreamInfo {
    created: String,
    config: StreamConfig,
    #[serde(default)]
    pub domain: Option<String>,
    #[serde(default)]
    state: StreamState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamState {
    messages: u64,
    bytes: u64,
    last_seq: u64,
}

#[derive(Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the settings are the server's"
)]
struct StreamConfig {
    name: String,
    subjects: Vec<String>,
    retention: String,
    max_msgs: i64,
    max_bytes: i64,
    /// Nanoseconds.
    max_age: u64,
    max_msgs_per_subject: i64,
    max_msg_size: i64,
    discard: String,
    discard_new_per_subject: bool,
    storage: String,
    num_replicas: usize,
    no_ack: bool,
    sealed: bool,
    first_seq: u64,
    allow_atomic: bool,
    allow_direct: bool,
    persist_mode: String,
    mirror: Option<Value>,
    sources: Option<Vec<Value>>,
    subject_transform: Option<Value>,
    allow_rollup_hdrs: bool,
    metadata: Option<BTreeMap<String, String>>,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            subjects: Vec::new(),
            retention: "limits".into(),
            max_msgs: -1,
            max_bytes: -1,
            max_age: 0,
            max_msgs_per_subject: -1,
            max_msg_size: -1,
            discard: "old".into(),
            discard_new_per_subject: false,
            storage: "file".into(),
            num_replicas: 1,
            no_ack: false,
            sealed: false,
            first_seq: 0,
            allow_atomic: false,
            allow_direct: false,
            persist_mode: String::new(),
            mirror: None,
            sources: None,
            subject_transform: None,
            allow_rollup_hdrs: false,
            metadata: None,
        }
    }
}

impl StreamInfo {
    /// The sequence of its last message.
    pub const fn last_sequence(&self) -> u64 {
        self.state.last_seq
    }

    pub fn epoch(&self) -> Result<u64, StoreError> {
        let unreadable = |why: &str| StoreError::unreadable("creation time", why);
        let created = humantime::parse_rfc3339(&self.created)
            .map_err(|error| unreadable(&error.to_string()))?
            .duration_since(UNIX_EPOCH)
            .map_err(|error| unreadable(&error.to_string()))?;
        u64::try_from(created.as_nanos()).map_err(|_| unreadable("too late"))
    }

    /// Returns the version of the server that answered, which is the stream's leader. Servers from
    /// 2.11 on add the version to their answers, and never store it.
    pub fn server_version(&self) -> Option<&str> {
        let metadata = self.config.metadata.as_ref()?;
        metadata.get(SERVER_VERSION).map(String::as_str)
    }

    /// Returns the reason why the bucket is not fit for elections, if there is one.
    fn problem(&self, bucket: &BucketName) -> Option<String> {
        match require_answering_server(self.server_version()) {
            Err(error) => Some(error.to_string()),
            Ok(()) => self.config.problem(bucket),
        }
    }

    pub fn assess(&self, bucket: &BucketName) -> Result<BucketInfo, StoreError> {
        if let Some(problem) = self.config.problem(bucket) {
            return Err(StoreError::BucketUnfit(problem));
        }
        let config = &self.config;
        let max_age = Duration::from_nanos(config.max_age);
        Ok(BucketInfo {
            epoch: self.epoch()?,
            max_age: (!max_age.is_zero()).then_some(max_age),
            atomic: config.allow_atomic,
            unique_sequences: config.unique_sequences(),
            replicas: config.num_replicas,
            history: config.max_msgs_per_subject,
            created: false,
            notes: config
                .notes()
                .into_iter()
                .map(|note| note.in_words(bucket))
                .collect(),
        })
    }
}

impl StreamConfig {
    fn unique_sequences(&self) -> bool {
        self.first_seq >= FIRST_UNIQUE_SEQUENCE
    }

    /// Returns the number of roles that there is room for at most beside the stored messages, if
    /// there are limits.
    fn room_beside(&self, stored: &StreamState) -> Option<u64> {
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
        if self.num_replicas > 1 {
            let messages = LEAST_MESSAGES + UNDER_WAY;
            return (messages, LEAST_BYTES / LEAST_MESSAGES * messages);
        }
        (LEAST_MESSAGES, LEAST_BYTES)
    }

    fn problem(&self, bucket: &BucketName) -> Option<String> {
        let keys = format!("$KV.{bucket}.>");
        if self.mirror.is_some() {
            return Some("it mirrors another stream and takes no writes".into());
        }
        if self.sealed {
            return Some("it is sealed".into());
        }
        if !self.subjects.iter().any(|subject| covers(subject, &keys)) {
            return Some(format!("its stream does not listen to {keys}"));
        }
        if self.subject_transform.is_some() {
            return Some("its stream renames keys (`subject_transform`)".into());
        }
        if self.retention != "limits" {
            return Some(format!(
                "its retention {:?} drops values that somebody has read",
                self.retention
            ));
        }
        if self.no_ack {
            return Some("it confirms no writes (`no_ack`)".into());
        }
        if self.discard_new_per_subject && self.max_msgs_per_subject > 0 {
            return Some(
                "it refuses a new value while there is an old one (`discard_new_per_subject`)"
                    .into(),
            );
        }
        if self.room_beside(&StreamState::default()) == Some(0) {
            let (messages, bytes) = self.least();
            return Some(format!(
                "its limits have no room for one role, {messages} messages with {bytes} bytes (`max_msgs`, `max_bytes`)"
            ));
        }
        None
    }

    fn notes(&self) -> Vec<BucketNote> {
        let full = match self.discard.as_str() {
            "new" => "refuses heartbeats",
            _ => "drops old keys, leaders' among them,",
        };
        [
            (
                "first_seq",
                !self.unique_sequences(),
                "its sequences start low: after the bucket is deleted and created again, a stale writer's may hold \
                 there by accident (`first_seq` in Unix microseconds prevents that)"
                    .to_owned(),
            ),
            (
                "max_age",
                self.max_age > 0,
                format!(
                    "keys expire after {}: the server's clock takes part in elections, and fence records expire too",
                    exact(Duration::from_nanos(self.max_age))
                ),
            ),
            (
                "max_msgs_per_subject",
                self.max_msgs_per_subject != 1,
                "it keeps more than the last value of a key: every heartbeat adds one".to_owned(),
            ),
            (
                "max_bytes",
                self.max_bytes > 0 || self.max_msgs > 0,
                format!("its size is limited: when it is full it {full} (`max_bytes`, `max_msgs`)"),
            ),
            (
                "max_msg_size",
                (1..SMALLEST_MESSAGE).contains(&self.max_msg_size),
                format!("records larger than {} bytes are refused", self.max_msg_size),
            ),
            (
                "num_replicas",
                self.num_replicas < 2,
                ONE_REPLICA.to_owned(),
            ),
            (
                "storage",
                self.storage == "memory",
                "kept in memory: a restart of all its servers loses the leaders and the last fencing tokens".to_owned(),
            ),
            (
                ROLLUP,
                self.allow_rollup_hdrs,
                "any client that may write a single key can empty the bucket with one message (rollup)".to_owned(),
            ),
            (
                "sources",
                self.sources.as_ref().is_some_and(|sources| !sources.is_empty()),
                "other streams write into it (`sources`), past every expected sequence".to_owned(),
            ),
            (
                "allow_direct",
                self.allow_direct,
                format!(
                    "direct gets are on: whoever may ask for one can have any message of the bucket, with its headers, stored \
                     under another key (`nats stream edit {} --no-allow-direct` ends that)",
                    self.name
                ),
            ),
            (
                "persist_mode",
                self.persist_mode == "async",
                "writes are confirmed before they are stored (`persist_mode`): a crash of its server loses some of them".to_owned(),
            ),
        ]
        .into_iter()
        .filter_map(|(setting, applies, risk)| applies.then_some(BucketNote { setting, risk }))
        .collect()
    }
}

/// Returns whether `pattern` matches everything that `subject` matches.
fn covers(pattern: &str, subject: &str) -> bool {
    let mut subject = subject.split('.');
    for token in pattern.split('.') {
        match (token, subject.next()) {
            (">", Some(_)) => return true,
            (_, None | Some(">")) => return false,
            ("*", Some(_)) => {}
            (token, Some(other)) if token == other => {}
            _ => return false,
        }
    }
    subject.next().is_none()
}

#[cfg(test)]
mod tests;
