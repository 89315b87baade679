//! What the settings of a bucket's stream mean for elections: two tables.

use std::time::Duration;

use super::{StreamConfig, StreamState};
use crate::store::watch::KEPT;
use nats_elect_core::duration::exact;
use nats_elect_core::name::BucketName;

/// The bytes that a message with a record may need. A role's record has up to 4 KiB of metadata and a
/// proof of up to 8 KiB; a member's has the loads of 32 heavy units.
pub(in crate::store) const LARGEST_RECORD: u32 = 16 * 1024;

/// What is to be said of a setting.
pub(super) struct Row {
    /// Its name in the server's JSON.
    pub setting: &'static str,
    /// Whether it is said of this bucket.
    pub applies: bool,
    pub why: String,
    /// How to change it. `EDIT` stands for the command that edits the stream, `BUCKET` for the
    /// bucket's name.
    pub remedy: &'static str,
}

fn row(setting: &'static str, applies: bool, why: impl Into<String>, remedy: &'static str) -> Row {
    Row {
        setting,
        applies,
        why: why.into(),
        remedy,
    }
}

const ANEW: &str = "it can't be changed: use another bucket, or create this one again while no role is led (`nats-elect create-bucket`)";
const NO_LIMITS: &str = "`EDIT --max-msgs=-1 --max-bytes=-1`";

impl StreamConfig {
    /// Returns what can make a bucket unfit, in the order in which it is told: two instances could
    /// lead, or nobody, although NATS does what it is set to.
    pub(super) fn unfit(&self, bucket: &BucketName) -> Vec<Row> {
        let keys = format!("$KV.{bucket}.>");
        let listens = self.subjects.iter().any(|subject| covers(subject, &keys));
        let (messages, bytes) = self.least();
        vec![
            row(
                "mirror",
                self.mirror.is_some(),
                "it mirrors another stream and takes no writes",
                "`EDIT --no-mirror --subjects '$KV.BUCKET.>'`, once the other stream is given up",
            ),
            row(
                "sealed",
                self.sealed,
                "it is sealed, and takes no writes any more",
                ANEW,
            ),
            row(
                "subjects",
                !listens,
                format!("its stream does not listen to {keys}"),
                "`EDIT --subjects '$KV.BUCKET.>'`",
            ),
            row(
                "subject_transform",
                self.subject_transform.is_some(),
                "its stream stores values under other keys (`subject_transform`)",
                "`EDIT --no-transform`",
            ),
            row(
                "retention",
                !matches!(&*self.retention, "limits" | ""),
                format!(
                    "its retention {:?} drops values that somebody has read, or that nobody reads",
                    self.retention
                ),
                "`EDIT --retention limits`, or another bucket: it can't be changed from `workqueue`",
            ),
            row(
                "no_ack",
                self.no_ack,
                "it confirms no writes (`no_ack`)",
                "`EDIT --ack`",
            ),
            row(
                "allow_msg_counter",
                self.allow_msg_counter,
                "it takes counters alone (`allow_msg_counter`)",
                ANEW,
            ),
            row(
                "persist_mode",
                self.persist_mode == "async",
                "it confirms writes before they are stored (`persist_mode`): a crash of its server alone loses leaders' claims, and two lead",
                ANEW,
            ),
            row(
                "discard_new_per_subject",
                self.discard_new_per_subject && self.max_msgs_per_subject > 0,
                "it refuses a new value while there is an old one (`discard_new_per_subject`)",
                "`EDIT --no-discard-per-subject`",
            ),
            row(
                "max_msg_size",
                (1..LARGEST_RECORD.into()).contains(&self.max_msg_size),
                format!(
                    "it takes messages of {} bytes at most, and records may need {LARGEST_RECORD} (`max_msg_size`)",
                    self.max_msg_size
                ),
                "`EDIT --max-msg-size=-1`",
            ),
            row(
                "max_msgs",
                self.has_no_room(),
                format!(
                    "its limits have no room for one role, {messages} messages with {bytes} bytes (`max_msgs`, `max_bytes`)"
                ),
                NO_LIMITS,
            ),
            row(
                "discard",
                self.drops_keys(),
                "when it is full it drops the oldest keys, so that a role with a leader looks as if nobody had ever led \
                 it, and two lead (`max_msgs` or `max_bytes` with `discard: old`)",
                NO_LIMITS,
            ),
        ]
    }

    fn has_no_room(&self) -> bool {
        self.room_beside(&StreamState::default()) == Some(0)
    }

    fn drops_keys(&self) -> bool {
        self.discard != "new" && (self.max_msgs > 0 || self.max_bytes > 0)
    }

    /// Returns the risks of a bucket that is fit: elections can be held, but the operator should
    /// know of them.
    pub(super) fn risks(&self) -> Vec<Row> {
        let has_room = !self.has_no_room() && !self.drops_keys();
        let limit = |name, limit| {
            let risk =
                format!("its size is limited: when it is full it refuses heartbeats (`{name}`)");
            row(name, limit > 0 && has_room, risk, NO_LIMITS)
        };
        let kept = Duration::from_nanos(self.consumer_limits.inactive_threshold);
        vec![
            limit("max_msgs", self.max_msgs),
            limit("max_bytes", self.max_bytes),
            row(
                "first_seq",
                !self.unique_sequences(),
                "its sequences start low: after the bucket is deleted and created again, a stale writer's may hold \
                 there by accident (`first_seq` in Unix microseconds prevents that)",
                "it can only be set when a bucket is created: let nats-elect create it (`bucket_auto_create`), while no role is led",
            ),
            row(
                "max_age",
                self.max_age > 0,
                format!(
                    "keys expire after {}: the server's clock takes part in elections, and fence records expire too",
                    exact(Duration::from_nanos(self.max_age))
                ),
                "unless candidates of other libraries need it (docs/mixed-fleets.md): `EDIT --max-age 0s`",
            ),
            row(
                "max_msgs_per_subject",
                self.max_msgs_per_subject != 1,
                "it keeps more than the last value of a key: every heartbeat adds one",
                "`EDIT --max-msgs-per-subject 1`",
            ),
            row(
                "num_replicas",
                self.num_replicas < 2,
                "one replica: while its server is down no role can be renewed or claimed",
                "on a cluster: `EDIT --replicas 3`",
            ),
            row(
                "storage",
                self.storage == "memory",
                "kept in memory: a restart of all its servers loses the leaders and the last fencing tokens",
                "create the bucket again with file storage, while no role is led",
            ),
            row(
                "max_consumers",
                self.max_consumers > 0,
                format!(
                    "it allows {} consumers at a time (`max_consumers`), and each instance needs two, or three with groups: an instance \
                 without them notices releases late, and owns no units",
                    self.max_consumers
                ),
                "remove `max_consumers`: `EDIT --interactive` (before nats-server 2.12 only a new bucket can be without)",
            ),
            row(
                "consumer_limits",
                !kept.is_zero() && kept < KEPT,
                format!(
                    "it keeps a watch without a listener for {} at most, and a watch asks for {} (`consumer_limits`): no instance \
                 has a watch, so that releases are noticed late and units have no owners",
                    exact(kept),
                    exact(KEPT)
                ),
                "`EDIT --limit-consumer-inactive 1m`",
            ),
            row(
                "subject_delete_marker_ttl",
                self.subject_delete_marker_ttl > 0,
                "the server leaves a marker where a key expired: candidates of some other libraries do not claim such a role",
                "if there are such candidates (docs/mixed-fleets.md): `EDIT --subject-del-markers-ttl 0s`",
            ),
        ]
    }

    /// Returns the ways past the permissions of a single key.
    pub(super) fn ways_past(&self) -> Vec<Row> {
        let sources = self.sources.iter().flatten();
        vec![
            row(
                "allow_rollup_hdrs",
                self.allow_rollup_hdrs,
                "any client that may write a single key can empty the bucket with one message (rollup)",
                "unless you need `nats kv purge`: `EDIT --no-allow-rollup`",
            ),
            row(
                "allow_msg_schedules",
                self.allow_msg_schedules,
                "any client that may write a single key can have the server write any other (`allow_msg_schedules`)",
                ANEW,
            ),
            row(
                "sources",
                sources.count() > 0,
                "other streams write into it (`sources`), past every expected sequence",
                "remove `sources`: `EDIT --interactive`",
            ),
            row(
                "republish",
                self.republish.is_some(),
                "its values are published again elsewhere (`republish`): whoever may subscribe there reads all records",
                "`EDIT --no-republish`",
            ),
            row(
                "allow_direct",
                self.allow_direct,
                "direct gets are on: whoever may ask for one can have any message of the bucket, with its headers, stored \
                 under another key",
                "`EDIT --no-allow-direct`, and grant no user `$JS.API.DIRECT.GET.>` (docs/security.md)",
            ),
        ]
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
