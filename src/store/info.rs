//! What a bucket can do, from the settings that the server returned: an old server drops unknown ones in silence.

use std::time::{Duration, UNIX_EPOCH};

use humantime_serde::re::humantime;
use serde::Deserialize;
use serde_json::Value;

use super::error::StoreError;
use crate::model::name::{BucketName, NameError};

/// Sequences from here on were taken from a clock in microseconds: this is July 2017, and no bucket counts that far.
const FIRST_UNIQUE_SEQUENCE: u64 = 1_500_000_000_000_000;
/// Enough for a record with a good deal of metadata.
const SMALLEST_MESSAGE: i64 = 4096;

/// What a role takes: its key and its fence record.
const LEAST_MESSAGES: u64 = 2;
/// And in bytes, as the server counts them, with names and ids of some length and no metadata.
const LEAST_BYTES: u64 = 1024;
/// Writes of a role that are under way: where there are several replicas the server counts them beside what they replace.
const UNDER_WAY: u64 = 1;

/// What a bucket is and can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketInfo {
    /// Its creation time by the server's clock, in nanoseconds since the Unix epoch. A recreated bucket has another.
    pub epoch: u64,
    /// How long its keys live at most.
    pub max_age: Option<Duration>,
    /// Whether several messages can be written as one.
    pub atomic: bool,
    /// Whether its sequences stand above those of a deleted bucket of the same name.
    pub unique_sequences: bool,
    /// On how many servers it is kept.
    pub replicas: usize,
    /// How many values it keeps per key; -1 for all.
    pub history: i64,
    /// What it lacks or risks, in words.
    pub notes: Vec<String>,
}

/// What is to be said of a bucket's settings: what a manager warns of when it starts, for programs that look at buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketReview {
    /// Why no election can be held in it, if so: a manager does not start there.
    pub unfit: Option<String>,
    /// What it lacks or risks.
    pub notes: Vec<BucketNote>,
    /// For how many roles its limits have room at most, two keys and 1 KiB for each, with several replicas three and 1.5 KiB; nothing
    /// where it has no limits.
    pub room: Option<u64>,
    /// For how many more roles there is room at most beside what is stored already; nothing where it has no limits.
    pub spare: Option<u64>,
}

/// What one of a bucket's settings risks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BucketNote {
    /// The setting of the bucket's stream, by its name in the server's JSON: `num_replicas`, `max_age`.
    pub setting: &'static str,
    /// The risk, in words.
    pub risk: String,
}

impl BucketReview {
    /// Reviews what the server answered to `$JS.API.STREAM.INFO.KV_<bucket>`; nothing if that can't be read.
    ///
    /// An old server leaves out settings that it does not know: they are taken as not set.
    ///
    /// # Errors
    /// [`NameError`], if no bucket can be called so.
    pub fn of_answer(bucket: &str, answer: &[u8]) -> Result<Option<Self>, NameError> {
        let bucket = BucketName::new(bucket)?;
        let stream = serde_json::from_slice::<StreamInfo>(answer).ok();
        Ok(stream.map(|stream| Self {
            unfit: stream.config.problem(&bucket),
            notes: stream.config.notes(),
            room: stream.config.room_beside(&StreamState::default()),
            spare: stream.config.room_beside(&stream.state),
        }))
    }
}

/// As the server answers; only what is looked at here, so that later servers may say more.
#[derive(Deserialize)]
pub(super) struct StreamInfo {
    created: String,
    config: StreamConfig,
    #[serde(default)]
    state: StreamState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StreamState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
}

#[derive(Deserialize)]
#[serde(default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the settings are the server's"
)]
struct StreamConfig {
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
    persist_mode: String,
    mirror: Option<Value>,
    sources: Option<Vec<Value>>,
    subject_transform: Option<Value>,
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
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
            persist_mode: String::new(),
            mirror: None,
            sources: None,
            subject_transform: None,
        }
    }
}

impl StreamInfo {
    pub fn epoch(&self) -> Result<u64, StoreError> {
        let unreadable = |why: &str| StoreError::unreadable("creation time", why);
        let created = humantime::parse_rfc3339(&self.created)
            .map_err(|error| unreadable(&error.to_string()))?
            .duration_since(UNIX_EPOCH)
            .map_err(|error| unreadable(&error.to_string()))?;
        u64::try_from(created.as_nanos()).map_err(|_| unreadable("too late"))
    }

    /// Whether a restart of its server may empty the bucket: those before 2.10.27 and 2.11.1 drop all that is stored, while
    /// the message stands that has the first sequence (nats-server#6753). From 2.12 on, batches tell a server that does not.
    pub fn must_pass_first_sequence(&self) -> bool {
        self.config.first_seq > 0
            && self.state.first_seq == self.config.first_seq
            && self.state.messages == 0
            && !self.config.allow_atomic
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
            notes: config.notes().into_iter().map(|note| note.risk).collect(),
        })
    }
}

impl StreamConfig {
    fn unique_sequences(&self) -> bool {
        self.first_seq >= FIRST_UNIQUE_SEQUENCE
    }

    /// For how many roles there is room at most beside what is stored, where there are limits.
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

    /// Messages and bytes of a role.
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
                "it refuses a new value while an old one stands (`discard_new_per_subject`)".into(),
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
                    "keys expire after {}: the server's clock takes part, and fence records expire too",
                    humantime::format_duration(Duration::from_nanos(self.max_age))
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
                "one replica: while its server is down no role can be renewed or claimed".to_owned(),
            ),
            (
                "storage",
                self.storage == "memory",
                "kept in memory: a restart of all its servers forgets who led and how far fencing had come".to_owned(),
            ),
            (
                "sources",
                self.sources.as_ref().is_some_and(|sources| !sources.is_empty()),
                "other streams write into it (`sources`), past every expected sequence".to_owned(),
            ),
            (
                "persist_mode",
                self.persist_mode == "async",
                "writes are confirmed before they are stored (`persist_mode`): a crash of its server forgets some of them".to_owned(),
            ),
        ]
        .into_iter()
        .filter_map(|(setting, applies, risk)| applies.then_some(BucketNote { setting, risk }))
        .collect()
    }
}

/// Whether whatever `subject` matches, `pattern` matches too.
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
mod tests {
    use serde_json::json;

    use super::*;

    fn assess(config: Value) -> Result<BucketInfo, StoreError> {
        let mut whole =
            json!({ "subjects": ["$KV.b.>"], "max_msgs_per_subject": 1, "num_replicas": 3 });
        if let (Some(whole), Value::Object(config)) = (whole.as_object_mut(), config) {
            whole.extend(config);
        }
        let stream = json!({ "created": "2026-11-05T10:20:30.123456789Z", "config": whole });
        let stream: StreamInfo = serde_json::from_value(stream).unwrap();
        stream.assess(&BucketName::new("b").unwrap())
    }

    #[test]
    fn the_epoch_has_every_digit_of_the_creation_time() {
        assert_eq!(assess(json!({})).unwrap().epoch, 1_793_874_030_123_456_789);
    }

    #[test]
    fn a_bucket_of_ours_on_three_servers_gives_no_cause_for_notes() {
        let info = assess(json!({ "first_seq": 1_793_874_030_000_000_u64, "allow_atomic": true }));
        let info = info.unwrap();
        assert!(info.atomic && info.unique_sequences, "{info:?}");
        assert_eq!((info.replicas, info.history, info.max_age), (3, 1, None));
        assert_eq!(info.notes, [""; 0]);
    }

    #[test]
    fn every_lack_is_put_in_words() {
        let info = assess(json!({
            "max_age": 2_000_000_000_u64, "max_msgs_per_subject": 5, "max_bytes": 1024, "discard": "new",
            "max_msg_size": 100, "num_replicas": 1, "storage": "memory", "sources": [{ "name": "s" }],
            "persist_mode": "async",
        }))
        .unwrap();
        assert_eq!(info.max_age, Some(Duration::from_secs(2)));
        assert!(!info.atomic && !info.unique_sequences);
        assert_eq!(info.notes.len(), 9, "{:#?}", info.notes);
        let all = info.notes.join("\n");
        for words in ["expire after 2s", "refuses heartbeats", "than 100 bytes"] {
            assert!(all.contains(words), "{all}");
        }
    }

    #[test]
    fn whoever_reviews_an_answer_is_told_which_setting_risks_what() {
        let review =
            |bucket: &str, answer: &str| BucketReview::of_answer(bucket, answer.as_bytes());
        let answer = r#"{"type":"x","created":"2026-11-05T10:20:30Z","config":{"subjects":["$KV.b.>"],"max_age":2000000000,
            "max_msgs_per_subject":1,"num_replicas":3,"first_seq":1793874030000000}}"#;
        let told = review("b", answer).unwrap().expect("a review");
        assert_eq!((told.unfit, told.room, told.spare), (None, None, None));
        let settings: Vec<_> = told.notes.iter().map(|note| note.setting).collect();
        assert_eq!(settings, ["max_age"]);
        let other = review("c", answer).unwrap().expect("a review");
        assert!(other.unfit.is_some(), "it listens to other keys");
        assert_eq!(review("b", "{}").unwrap(), None);
        assert!(review("no.bucket", answer).is_err());
    }

    #[test]
    fn where_no_election_can_be_held_the_bucket_is_unfit() {
        for config in [
            json!({ "subjects": [] }),
            json!({ "subjects": ["$KV.other.>", "$KV.b.x"] }),
            json!({ "mirror": { "name": "KV_x" } }),
            json!({ "sealed": true }),
            json!({ "no_ack": true }),
            json!({ "retention": "workqueue" }),
            json!({ "discard_new_per_subject": true }),
            json!({ "subject_transform": { "src": "a", "dest": "b" } }),
            json!({ "max_msgs": 1 }),
            json!({ "max_bytes": 1023, "max_msgs": 1000 }),
        ] {
            let assessed = assess(config.clone());
            assert!(
                matches!(assessed, Err(StoreError::BucketUnfit(_))),
                "{config}: {assessed:?}"
            );
        }
        for subjects in [
            json!(["x", "$KV.b.>"]),
            json!(["$KV.>"]),
            json!(["$KV.*.>"]),
            json!([">"]),
        ] {
            assert!(assess(json!({ "subjects": subjects })).is_ok());
        }
    }

    #[test]
    fn the_tightest_limit_says_for_how_many_roles_there_is_room() {
        for (replicas, max_msgs, max_bytes, room, spare) in [
            (1, -1, -1, None, None),
            (1, 0, 0, None, None),
            (1, 7, -1, Some(3), Some(2)),
            (1, 7, 2048, Some(2), Some(1)),
            (1, -1, 1023, Some(0), Some(0)),
            (1, 1, i64::MAX, Some(0), Some(0)),
            (3, 7, -1, Some(2), Some(1)),
            (3, 2, -1, Some(0), Some(0)),
            (3, -1, 1535, Some(0), Some(0)),
        ] {
            let config = json!({
                "max_msgs": max_msgs,
                "max_bytes": max_bytes,
                "num_replicas": replicas,
            });
            let state = json!({ "messages": 3, "bytes": 900 });
            let answer = json!({ "created": "", "config": config, "state": state });
            let told = BucketReview::of_answer("b", answer.to_string().as_bytes());
            let told = told.unwrap().expect("a review");
            assert_eq!((told.room, told.spare), (room, spare), "{config}");
        }
    }

    #[test]
    fn the_first_sequence_is_passed_where_a_restart_could_empty_the_bucket() {
        let must = |config: Value, state: Value| {
            let json = json!({ "created": "", "config": config, "state": state });
            let stream: StreamInfo = serde_json::from_value(json).unwrap();
            stream.must_pass_first_sequence()
        };
        let (new, used) = (
            json!({ "messages": 0, "first_seq": 9 }),
            json!({ "messages": 1, "first_seq": 9 }),
        );
        assert!(must(json!({ "first_seq": 9 }), new.clone()));
        assert!(!must(json!({ "first_seq": 9 }), used));
        assert!(!must(json!({ "first_seq": 8 }), new.clone()));
        assert!(!must(json!({ "first_seq": 9, "allow_atomic": true }), new));
        let ordinary = json!({ "messages": 0, "first_seq": 0 });
        assert!(!must(json!({}), ordinary));
    }

    #[test]
    fn a_strange_creation_time_is_an_error() {
        for created in ["", "yesterday", "1066-10-14T09:00:00Z"] {
            let json = json!({ "created": created, "config": {} });
            let stream: StreamInfo = serde_json::from_value(json).unwrap();
            assert!(stream.epoch().is_err(), "{created}");
        }
    }
}
