//! The bucket: whether it is there, what its settings risk, and how its servers are.
//!
//! What a setting risks, and what changes it, is said by the library, which warns of the same when
//! a manager starts.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use nats_elect::duration::exact;
use nats_elect::{BucketNote, BucketReview, RoleName};
use serde_json::{Value, json};

use super::findings::Findings;
use crate::denied::advice;
use crate::line::{Answer, Line};

/// A limit of the bucket is close from here on, in percent; and blocks soon from there on.
const CLOSE: u64 = 80;
const FULL: u64 = 95;
/// The server's code for a stream that does not exist.
const NOT_FOUND: u64 = 10059;

/// What the rest of the checks needs to know of it.
pub struct Found {
    pub replicas: usize,
    pub max_age: Option<Duration>,
    pub memory: bool,
    pub clustered: bool,
    /// When it answered, by its server's clock.
    pub now: Option<SystemTime>,
    /// Its keys that are no other than roles' may be.
    pub keys: Vec<String>,
}

impl Found {
    /// The roles whose keys stand in it.
    pub fn roles(&self) -> impl Iterator<Item = &String> {
        let is_role = |key: &&String| RoleName::new(key.as_str()).is_ok();
        self.keys.iter().filter(is_role)
    }
}

/// Looks at it, as a place for these roles and for those that stand in it; nothing if no election
/// can be held there.
pub async fn check(
    line: &Line,
    bucket: &str,
    named: &[String],
    findings: &mut Findings,
) -> Option<Found> {
    let subject = format!("$JS.API.STREAM.INFO.KV_{bucket}");
    let filter = json!({ "subjects_filter": format!("$KV.{bucket}.*") });
    let answer = match line.ask(&subject, &filter).await {
        Answer::Json(answer) => answer,
        Answer::Denied(denied) => {
            findings.fail("bucket", denied.to_string(), advice(&denied));
            return None;
        }
        Answer::Nobody => {
            findings.fail(
                "JetStream",
                "no server answers for it: it is off on this server or for this account, or the cluster has no leader just now",
                "set `jetstream {}` in the server's configuration, and `jetstream: enabled` for the account",
            );
            return None;
        }
        Answer::Silence => {
            findings.fail(
                "JetStream",
                format!("no answer to {subject:?} in time"),
                "check the servers' logs: a cluster without a majority does not answer",
            );
            return None;
        }
    };
    if let Some(error) = answer["error"].as_object() {
        let code = error.get("err_code").and_then(Value::as_u64);
        let what = error
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or("no reason");
        match code {
            Some(NOT_FOUND) => {
                findings.ok("JetStream", "it is on");
                findings.fail(
                    "bucket",
                    format!("{bucket:?} does not exist"),
                    "name another with --bucket, or create it: `nats-elect create-bucket`, or `bucket_auto_create`",
                );
            }
            Some(10039 | 10076) => findings.fail(
                "JetStream",
                what,
                "enable it on the server and for this account",
            ),
            _ => findings.fail(
                "bucket",
                format!("the server says: {what}"),
                "check the servers' logs",
            ),
        }
        return None;
    }
    findings.ok("JetStream", "it is on");
    let review = BucketReview::of_answer(bucket, answer.to_string().as_bytes());
    let Ok(Some(review)) = review else {
        findings.fail(
            "bucket",
            "the server's answer can't be read",
            "try a newer nats-elect",
        );
        return None;
    };
    if let Some(why) = &review.unfit {
        findings.fail(
            "bucket",
            format!("{bucket:?} is unfit: {why}"),
            "change that setting, or use another bucket",
        );
        return None;
    }
    let clustered = line.server().cluster.is_some();
    let config = &answer["config"];
    let keys = answer["state"]["subjects"]
        .as_object()
        .into_iter()
        .flatten();
    let prefix = format!("$KV.{bucket}.");
    let found = Found {
        replicas: usize::try_from(config["num_replicas"].as_u64().unwrap_or(1)).unwrap_or(1),
        max_age: Some(Duration::from_nanos(
            config["max_age"].as_u64().unwrap_or(0),
        ))
        .filter(|it| !it.is_zero()),
        memory: config["storage"] == "memory",
        clustered,
        now: answer["ts"]
            .as_str()
            .and_then(|it| humantime::parse_rfc3339(it).ok()),
        keys: keys
            .filter_map(|(key, _)| key.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect(),
    };
    settings(bucket, &answer, &review, findings);
    limits(&answer, &review, named, &found, findings);
    servers(&answer, clustered, findings);
    Some(found)
}

/// One line for each setting that something depends on.
fn settings(bucket: &str, answer: &Value, review: &BucketReview, findings: &mut Findings) {
    let config = &answer["config"];
    let mut notes: Vec<&BucketNote> = review.notes.iter().collect();
    let placed = match config["placement"].as_object() {
        Some(placement) => format!("; placed at {}", Value::Object(placement.clone())),
        None => String::new(),
    };
    findings.ok(
        "bucket",
        format!("{bucket:?} exists, and elections can be held in it{placed}"),
    );
    for (check, settings, good) in [
        ("replicas", &["num_replicas"][..], format!("{}", config["num_replicas"])),
        (
            "storage",
            &["storage"],
            "on disk; the server syncs it every 2 minutes unless `sync_interval` says otherwise, so a power loss of all replicas at once can lose the last writes".into(),
        ),
        ("persist mode", &["persist_mode"], "writes are stored before they are confirmed".into()),
        ("history", &["max_msgs_per_subject"], "the last value of each key".into()),
        ("max age", &["max_age"], "keys do not expire".into()),
        ("size limits", &["max_bytes", "max_msgs"], "none".into()),
        ("value size", &["max_msg_size"], "large enough for every record".into()),
        (
            "first sequence",
            &["first_seq"],
            "taken from a clock: no sequence of a deleted bucket comes again".into(),
        ),
        (
            "rollups",
            &["allow_rollup_hdrs"],
            "off: no message replaces others (so `nats kv purge` is refused, `nats kv del` is not)".into(),
        ),
        ("other writers", &["sources"], "no other stream writes into it".into()),
        ("direct gets", &["allow_direct"], "off: elections ask the stream leader".into()),
        ("markers", &["subject_delete_marker_ttl"], "the server leaves none where a key expired".into()),
    ] {
        let of_it = |note: &&BucketNote| settings.contains(&note.setting);
        let told = notes.iter().copied().find(of_it);
        notes.retain(|note| !of_it(note));
        match told {
            None => findings.ok(check, good),
            Some(note) => findings.warn(check, &note.risk, &note.remedy),
        }
    }
    if config["allow_atomic"] == true {
        findings.ok("batches", "several values can be written as one");
    } else {
        findings.warn(
            "batches",
            "off: no conditional fenced writes (`create`, `update`, batches of `Term::store()`)",
            format!("nats-server 2.12 and `nats stream edit KV_{bucket} --allow-batch`"),
        );
    }
    for note in notes {
        findings.warn("other settings", &note.risk, &note.remedy);
    }
    let discard = config["discard"].as_str().unwrap_or("old");
    let ttl = if config["allow_msg_ttl"] == true {
        "on"
    } else {
        "off"
    };
    let others = format!("discard {discard}, per-message ttl {ttl}");
    findings.ok("other settings", others);
}

/// Whether its limits, if it has any, hold the keys of every role, and how full it is.
fn limits(
    answer: &Value,
    review: &BucketReview,
    named: &[String],
    found: &Found,
    findings: &mut Findings,
) {
    let standing: BTreeSet<_> = found.roles().collect();
    let new = named.iter().filter(|name| !standing.contains(name));
    let new: BTreeSet<_> = new.collect();
    let roles = (standing.len() + new.len()).max(1) as u64;
    if let Some(room) = review.room.filter(|room| *room < roles) {
        findings.fail(
            "size limits",
            format!("they have room for the keys of {room} of {roles} roles: a role needs two keys and at least 1 KiB, and half as much again with several replicas"),
            "remove the limits, or raise them: `max_bytes`, `max_msgs`",
        );
    }
    let new = roles - standing.len() as u64;
    let too_full = review.spare.is_some_and(|spare| spare < new);
    let (state, config) = (&answer["state"], &answer["config"]);
    for (what, used, limit) in [
        ("bytes", "bytes", "max_bytes"),
        ("messages", "messages", "max_msgs"),
    ] {
        let (Some(used), Some(max)) = (state[used].as_u64(), config[limit].as_u64()) else {
            continue;
        };
        if max == 0 {
            continue;
        }
        let percent = used.saturating_mul(100) / max;
        let found = format!("{used} of {max} {what}, {percent} %");
        let advice = format!("raise `{limit}`, or delete unused keys: `nats kv ls`");
        match percent {
            FULL.. => findings.fail(
                "fill",
                format!("{found}: a full bucket refuses heartbeats, or drops the keys of leaders"),
                advice,
            ),
            _ if too_full => findings.fail(
                "fill",
                format!("{found}: there may be no room for the keys of a new role"),
                advice,
            ),
            CLOSE.. => findings.warn("fill", found, advice),
            _ => findings.ok("fill", found),
        }
    }
}

/// The servers that keep it.
fn servers(answer: &Value, clustered: bool, findings: &mut Findings) {
    let cluster = &answer["cluster"];
    let replicas = answer["config"]["num_replicas"].as_u64().unwrap_or(1);
    if !clustered {
        return;
    }
    if replicas == 2 {
        findings.warn(
            "quorum",
            "two replicas survive less than one: if either is down, no write succeeds",
            "three replicas",
        );
    }
    let Some(leader) = cluster["leader"].as_str() else {
        return findings.fail(
            "stream leader",
            "there is none: no write succeeds",
            "check the servers: a majority of the replicas must be up",
        );
    };
    let mut behind = Vec::new();
    for peer in cluster["replicas"].as_array().into_iter().flatten() {
        let name = peer["name"].as_str().unwrap_or("?");
        if peer["offline"] == true {
            behind.push(format!("{name} is offline"));
        } else if peer["current"] != true {
            let lag = peer["lag"].as_u64().unwrap_or(0);
            behind.push(format!("{name} is not current ({lag} writes behind)"));
        }
    }
    let peers = cluster["replicas"].as_array().map_or(0, Vec::len);
    if behind.is_empty() {
        findings.ok(
            "stream leader",
            format!("{leader:?}; {peers} more replicas are current"),
        );
    } else {
        findings.warn(
            "stream leader",
            format!("{leader:?}; {}", behind.join(", ")),
            "check these servers: until they are back, the bucket survives fewer failures",
        );
    }
}

/// Whether keys live as long as leases, which a manager asks for when it starts.
pub fn max_age_against(role: &str, ttl: Duration, found: &Found, findings: &mut Findings) {
    let Some(max_age) = found.max_age.filter(|age| *age < ttl) else {
        return;
    };
    findings.fail(
        "max age and ttl",
        format!("keys expire after {}, before the lease of {role} ends ({}): a manager does not start with these settings", exact(max_age), exact(ttl)),
        "choose a shorter ttl, or a longer max age",
    );
}

/// Whether keys live as long as units have owners, which a manager with groups asks for when it
/// starts.
pub fn max_age_of_groups(group: Option<&String>, found: &Found, findings: &mut Findings) {
    let (Some(max_age), Some(group)) = (found.max_age, group) else {
        return;
    };
    findings.fail(
        "max age and groups",
        format!("keys expire after {}, and the owner of a unit of {group:?} is written only when it changes: a manager does not start with these settings", exact(max_age)),
        "a bucket without a max age",
    );
}
