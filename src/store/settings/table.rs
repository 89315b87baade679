//! What each setting of a bucket's stream means for elections: one table.

use std::time::Duration;

use self::Verdict::{Fit, Risky, Unfit};
use super::{StreamConfig, StreamState};
use crate::store::watch::KEPT;
use nats_elect_core::duration::exact;
use nats_elect_core::name::BucketName;

/// The size of a record with a good deal of metadata.
const SMALLEST_MESSAGE: i64 = 4096;

/// What a setting means for elections.
pub(super) enum Verdict {
    Fit,
    /// Elections can be held, but the operator should know of it.
    Risky(String),
    /// Two instances could lead, or nobody, although NATS does what it is set to.
    Unfit(String),
}

/// One row of the table.
pub(super) struct Setting {
    /// Its name in the server's JSON.
    pub name: &'static str,
    pub judge: fn(&StreamConfig, &BucketName) -> Verdict,
    /// How to change it. `EDIT` stands for the command that edits the stream, `BUCKET` for the
    /// bucket's name.
    remedy: &'static str,
}

const ANEW: &str = "it can't be changed: use another bucket, or create this one again while no role is led (`nats-elect create-bucket`)";
const NO_LIMITS: &str = "`EDIT --max-msgs=-1 --max-bytes=-1`";

/// Every setting of a stream that elections depend on. What makes a bucket unfit comes in the order in which it is told.
pub(super) const SETTINGS: &[Setting] = &[
    Setting {
        name: "mirror",
        judge: |it, _| {
            unfit_if(
                it.mirror.is_some(),
                "it mirrors another stream and takes no writes",
            )
        },
        remedy: "`EDIT --no-mirror --subjects '$KV.BUCKET.>'`, once the other stream is given up",
    },
    Setting {
        name: "sealed",
        judge: |it, _| unfit_if(it.sealed, "it is sealed, and takes no writes any more"),
        remedy: ANEW,
    },
    Setting {
        name: "subjects",
        judge: |it, bucket| {
            let keys = format!("$KV.{bucket}.>");
            let listens = it.subjects.iter().any(|subject| covers(subject, &keys));
            unfit_if(!listens, format!("its stream does not listen to {keys}"))
        },
        remedy: "`EDIT --subjects '$KV.BUCKET.>'`",
    },
    Setting {
        name: "subject_transform",
        judge: |it, _| {
            let renames = it.subject_transform.is_some();
            unfit_if(
                renames,
                "its stream stores values under other keys (`subject_transform`)",
            )
        },
        remedy: "`EDIT --no-transform`",
    },
    Setting {
        name: "retention",
        judge: |it, _| {
            let why = format!(
                "its retention {:?} drops values that somebody has read, or that nobody reads",
                it.retention
            );
            unfit_if(!matches!(&*it.retention, "limits" | ""), why)
        },
        remedy: "`EDIT --retention limits`, or another bucket: it can't be changed from `workqueue`",
    },
    Setting {
        name: "no_ack",
        judge: |it, _| unfit_if(it.no_ack, "it confirms no writes (`no_ack`)"),
        remedy: "`EDIT --ack`",
    },
    Setting {
        name: "allow_msg_counter",
        judge: |it, _| {
            unfit_if(
                it.allow_msg_counter,
                "it takes counters alone (`allow_msg_counter`)",
            )
        },
        remedy: ANEW,
    },
    Setting {
        name: "persist_mode",
        judge: |it, _| {
            let why = "it confirms writes before they are stored (`persist_mode`): a crash of its server alone loses leaders' claims, and two lead";
            unfit_if(it.persist_mode == "async", why)
        },
        remedy: ANEW,
    },
    Setting {
        name: "discard_new_per_subject",
        judge: |it, _| {
            let refuses = it.discard_new_per_subject && it.max_msgs_per_subject > 0;
            unfit_if(
                refuses,
                "it refuses a new value while there is an old one (`discard_new_per_subject`)",
            )
        },
        remedy: "`EDIT --no-discard-per-subject`",
    },
    Setting {
        name: "max_msgs",
        judge: |it, _| it.limit(it.max_msgs, "max_msgs"),
        remedy: NO_LIMITS,
    },
    Setting {
        name: "max_bytes",
        judge: |it, _| it.limit(it.max_bytes, "max_bytes"),
        remedy: NO_LIMITS,
    },
    // It matters where there are limits.
    Setting {
        name: "first_seq",
        judge: |it, _| {
            let risk = "its sequences start low: after the bucket is deleted and created again, a stale writer's may hold \
                        there by accident (`first_seq` in Unix microseconds prevents that)";
            risky_if(!it.unique_sequences(), risk)
        },
        remedy: "it can only be set when a bucket is created: let nats-elect create it (`bucket_auto_create`), while no role is led",
    },
    Setting {
        name: "max_age",
        judge: |it, _| {
            let age = exact(Duration::from_nanos(it.max_age));
            let risk = format!(
                "keys expire after {age}: the server's clock takes part in elections, and fence records expire too"
            );
            risky_if(it.max_age > 0, risk)
        },
        remedy: "unless candidates of other libraries need it (docs/mixed-fleets.md): `EDIT --max-age 0s`",
    },
    Setting {
        name: "max_msgs_per_subject",
        judge: |it, _| {
            let risk = "it keeps more than the last value of a key: every heartbeat adds one";
            risky_if(it.max_msgs_per_subject != 1, risk)
        },
        remedy: "`EDIT --max-msgs-per-subject 1`",
    },
    Setting {
        name: "max_msg_size",
        judge: |it, _| {
            let small = (1..SMALLEST_MESSAGE).contains(&it.max_msg_size);
            risky_if(
                small,
                format!("records larger than {} bytes are refused", it.max_msg_size),
            )
        },
        remedy: "`EDIT --max-msg-size=-1`",
    },
    Setting {
        name: "num_replicas",
        judge: |it, _| {
            let risk = "one replica: while its server is down no role can be renewed or claimed";
            risky_if(it.num_replicas < 2, risk)
        },
        remedy: "on a cluster: `EDIT --replicas 3`",
    },
    Setting {
        name: "storage",
        judge: |it, _| {
            let risk = "kept in memory: a restart of all its servers loses the leaders and the last fencing tokens";
            risky_if(it.storage == "memory", risk)
        },
        remedy: "create the bucket again with file storage, while no role is led",
    },
    Setting {
        name: "allow_rollup_hdrs",
        judge: |it, _| {
            let risk = "any client that may write a single key can empty the bucket with one message (rollup)";
            risky_if(it.allow_rollup_hdrs, risk)
        },
        remedy: "unless you need `nats kv purge`: `EDIT --no-allow-rollup`",
    },
    Setting {
        name: "allow_msg_schedules",
        judge: |it, _| {
            let risk = "any client that may write a single key can have the server write any other (`allow_msg_schedules`)";
            risky_if(it.allow_msg_schedules, risk)
        },
        remedy: ANEW,
    },
    Setting {
        name: "sources",
        judge: |it, _| {
            let sourced = it
                .sources
                .as_ref()
                .is_some_and(|sources| !sources.is_empty());
            risky_if(
                sourced,
                "other streams write into it (`sources`), past every expected sequence",
            )
        },
        remedy: "remove `sources`: `EDIT --interactive`",
    },
    Setting {
        name: "republish",
        judge: |it, _| {
            let risk = "its values are published again elsewhere (`republish`): whoever may subscribe there reads all records";
            risky_if(it.republish.is_some(), risk)
        },
        remedy: "`EDIT --no-republish`",
    },
    Setting {
        name: "allow_direct",
        judge: |it, _| {
            let risk = "direct gets are on: whoever may ask for one can have any message of the bucket, with its headers, stored \
                        under another key";
            risky_if(it.allow_direct, risk)
        },
        remedy: "`EDIT --no-allow-direct`, and grant no user `$JS.API.DIRECT.GET.>` (docs/security.md)",
    },
    Setting {
        name: "max_consumers",
        judge: |it, _| {
            let risk = format!(
                "it allows {} consumers at a time (`max_consumers`), and each instance needs two, or three with groups: an instance \
                 without them notices releases late, and owns no units",
                it.max_consumers
            );
            risky_if(it.max_consumers > 0, risk)
        },
        remedy: "remove `max_consumers`: `EDIT --interactive` (before nats-server 2.12 only a new bucket can be without)",
    },
    Setting {
        name: "consumer_limits",
        judge: |it, _| {
            let most = Duration::from_nanos(it.consumer_limits.inactive_threshold);
            let risk = format!(
                "it keeps a watch without a listener for {} at most, and a watch asks for {} (`consumer_limits`): no instance \
                 has a watch, so that releases are noticed late and units have no owners",
                exact(most),
                exact(KEPT)
            );
            risky_if(!most.is_zero() && most < KEPT, risk)
        },
        remedy: "`EDIT --limit-consumer-inactive 1m`",
    },
    Setting {
        name: "subject_delete_marker_ttl",
        judge: |it, _| {
            let risk = "the server leaves a marker where a key expired: candidates of some other libraries do not claim such a role";
            risky_if(it.subject_delete_marker_ttl > 0, risk)
        },
        remedy: "if there are such candidates (docs/mixed-fleets.md): `EDIT --subject-del-markers-ttl 0s`",
    },
];

impl Setting {
    pub fn remedy(&self, bucket: &BucketName) -> String {
        let edit = format!("nats stream edit KV_{bucket}");
        let remedy = self.remedy.replace("EDIT", &edit);
        remedy.replace("BUCKET", bucket.as_str())
    }
}

impl StreamConfig {
    /// Judges a limit of the whole bucket.
    fn limit(&self, limit: i64, name: &str) -> Verdict {
        if limit <= 0 {
            return Fit;
        }
        if self.room_beside(&StreamState::default()) == Some(0) {
            let (messages, bytes) = self.least();
            return Unfit(format!(
                "its limits have no room for one role, {messages} messages with {bytes} bytes (`max_msgs`, `max_bytes`)"
            ));
        }
        if self.discard != "new" {
            return Unfit(format!(
                "when it is full it drops the oldest keys, so that a role with a leader looks as if nobody had ever led \
                 it, and two lead (`{name}` with `discard: old`)"
            ));
        }
        Risky(format!(
            "its size is limited: when it is full it refuses heartbeats (`{name}`)"
        ))
    }
}

fn unfit_if(applies: bool, why: impl Into<String>) -> Verdict {
    if applies { Unfit(why.into()) } else { Fit }
}

fn risky_if(applies: bool, risk: impl Into<String>) -> Verdict {
    if applies { Risky(risk.into()) } else { Fit }
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
