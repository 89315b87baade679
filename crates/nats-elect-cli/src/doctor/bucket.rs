//! The bucket: whether it is there, what its settings risk, and how its servers are.
//!
//! What a setting risks, and what changes it, is said by the library, which warns of the same when
//! a manager starts.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use nats_elect::duration::exact;
use nats_elect::{BucketReview, RoleName};
use serde_json::{Value, json};

use super::findings::Findings;
use crate::exit::grant;
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
            findings.fail("bucket", denied.to_string(), grant(&denied));
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
    let what = answer["error"]["description"].as_str();
    let what = what.unwrap_or("no reason");
    match answer["error"]["err_code"].as_u64() {
        None if answer["error"].is_null() => {}
        Some(NOT_FOUND) => {
            findings.ok("JetStream", "it is on");
            findings.fail(
                "bucket",
                format!("{bucket:?} does not exist"),
                "name another with --bucket, or create it: `nats-elect create-bucket`, or `bucket_auto_create`",
            );
            return None;
        }
        Some(10039 | 10076) => {
            let advice = "enable it on the server and for this account";
            findings.fail("JetStream", what, advice);
            return None;
        }
        _ => {
            let found = format!("the server says: {what}");
            findings.fail("bucket", found, "check the servers' logs");
            return None;
        }
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
    if line.server().cluster.is_some() {
        servers(&answer, findings);
    }
    Some(found)
}

/// The checks of settings, by the settings' names in the server's JSON.
const SETTINGS: [(&str, &str); 12] = [
    ("num_replicas", "replicas"),
    ("storage", "storage"),
    ("persist_mode", "persist mode"),
    ("max_msgs_per_subject", "history"),
    ("max_age", "max age"),
    ("max_bytes", "size limits"),
    ("max_msgs", "size limits"),
    ("first_seq", "first sequence"),
    ("allow_rollup_hdrs", "rollups"),
    ("sources", "other writers"),
    ("allow_direct", "direct gets"),
    ("subject_delete_marker_ttl", "markers"),
];

/// One line for each setting that risks something.
fn settings(bucket: &str, answer: &Value, review: &BucketReview, findings: &mut Findings) {
    let config = &answer["config"];
    let placed = match config["placement"].as_object() {
        Some(placement) => format!("; placed at {}", Value::Object(placement.clone())),
        None => String::new(),
    };
    findings.ok(
        "bucket",
        format!(
            "{bucket:?} exists, and elections can be held in it; replicas: {}, storage: {}{placed}",
            config["num_replicas"],
            config["storage"].as_str().unwrap_or("file"),
        ),
    );
    for note in &review.notes {
        let check = SETTINGS.iter().find(|(name, _)| *name == note.setting);
        let check = check.map_or("other settings", |(_, check)| check);
        findings.warn(check, &note.risk, &note.remedy);
    }
    if config["allow_atomic"] != true {
        findings.warn(
            "batches",
            "off: no conditional fenced writes (`create`, `update`, batches of `Term::store()`)",
            format!("nats-server 2.12 and `nats stream edit KV_{bucket} --allow-batch`"),
        );
    }
    if config["allow_msg_ttl"] != true {
        findings.warn(
            "times to live",
            "off: the keys of members that have left their group stay, of about 200 bytes each",
            format!("`nats stream edit KV_{bucket} --allow-msg-ttl`"),
        );
    }
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
    let fill = [("bytes", "max_bytes"), ("messages", "max_msgs")].into_iter();
    let fill = fill.filter_map(|(what, limit)| {
        let (used, max) = (state[what].as_u64()?, config[limit].as_u64()?);
        let percent = used.saturating_mul(100).checked_div(max)?;
        Some((percent, format!("{used} of {max} {what}, {percent} %")))
    });
    let Some((percent, found)) = fill.max() else {
        return;
    };
    let advice = "raise `max_bytes` or `max_msgs`, or delete unused keys: `nats kv ls`";
    if percent >= FULL {
        let why = "a full bucket refuses heartbeats, or drops the keys of leaders";
        findings.fail("fill", format!("{found}: {why}"), advice);
    } else if too_full {
        let why = "there may be no room for the keys of a new role";
        findings.fail("fill", format!("{found}: {why}"), advice);
    } else if percent >= CLOSE {
        findings.warn("fill", found, advice);
    } else {
        findings.ok("fill", found);
    }
}

/// The servers that keep it.
fn servers(answer: &Value, findings: &mut Findings) {
    let cluster = &answer["cluster"];
    let replicas = answer["config"]["num_replicas"].as_u64().unwrap_or(1);
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
            format!("{leader:?}; {peers} more replicas are current; writes go on while {} of them are down", peers / 2),
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
