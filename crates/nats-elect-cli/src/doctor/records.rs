//! What stands under the roles' keys.

use std::io;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::bucket::Found;
use super::findings::Findings;
use crate::line::{Answer, Line};
use crate::text::lasted;

/// More are not read one by one.
const MOST: usize = 500;

/// What of a record is looked at.
#[derive(Deserialize)]
struct Record {
    id: String,
    ttl_ms: Option<u64>,
}

/// A role whose leader is gone, and which nobody claims.
pub struct Left {
    pub role: String,
    pub what: String,
}

/// Looks at every role's record; the server's clock, which stamped them, says how old they are.
/// Returns the roles that nobody claims.
pub async fn check(
    line: &Line,
    bucket: &str,
    found: &Found,
    findings: &mut Findings,
) -> io::Result<Vec<Left>> {
    let check = "records";
    let roles: Vec<_> = found.roles().collect();
    let (mut led, mut free) = (0, 0);
    let mut left = Vec::new();
    for role in roles.iter().take(MOST) {
        let read = format!("$JS.API.STREAM.MSG.GET.KV_{bucket}");
        let key = json!({ "last_by_subj": format!("$KV.{bucket}.{role}") });
        let Answer::Json(answer) = line.ask(&read, &key).await else {
            findings.skipped(check, "they could not be read")?;
            return Ok(left);
        };
        let message = &answer["message"];
        if message.is_null() || is_marker(message) {
            free += 1;
            continue;
        }
        let Some(record) = record_of(message) else {
            findings.warn(
                check,
                format!("the value under {role:?} can't be read: candidates treat it as a leader's record while it is renewed"),
                format!("find its writer; `nats kv del {bucket} {role}` frees the role"),
            )?;
            continue;
        };
        led += 1;
        if record.ttl_ms.is_none() {
            findings.warn(
                check,
                format!("{role:?} is led by {:?}, a candidate of another library: its record does not state the lease", record.id),
                "docs/mixed-fleets.md has the guarantees between them, and the migration",
            )?;
        }
        let lease = record.ttl_ms.map(Duration::from_millis).or(found.max_age);
        if let (Some(lease), Some(max_age)) = (lease, found.max_age)
            && max_age < lease
        {
            findings.fail(
                check,
                format!(
                    "the lease of {role:?} is {}, but keys expire after {}",
                    lasted(lease),
                    lasted(max_age)
                ),
                "choose a shorter ttl, or a longer max age",
            )?;
        }
        let age = age(line, bucket, message).await;
        if let (Some(age), Some(lease)) = (age, lease)
            && age > lease + lease / 10 + Duration::from_secs(1)
        {
            let what = format!(
                "{role:?}: the last heartbeat of {:?} was {} ago, and its lease was {}: the leader is gone, and nobody claims the role",
                record.id,
                lasted(age),
                lasted(lease)
            );
            left.push(Left {
                role: (*role).clone(),
                what,
            });
        }
    }
    let more = match roles.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(", {more} more were not checked"),
    };
    findings.ok(check, format!("{led} led, {free} free{more}"))?;
    Ok(left)
}

/// Time since it was stored; both times are the stream leader's.
async fn age(line: &Line, bucket: &str, message: &Value) -> Option<Duration> {
    let info = format!("$JS.API.STREAM.INFO.KV_{bucket}");
    let Answer::Json(answer) = line.ask(&info, &Value::Null).await else {
        return None;
    };
    let time =
        |value: &Value| -> Option<SystemTime> { humantime::parse_rfc3339(value.as_str()?).ok() };
    let (now, stored) = (time(&answer["ts"])?, time(&message["time"])?);
    now.duration_since(stored).ok()
}

/// Whether it says that the key is deleted: by its leader, by hand, or by expiry.
fn is_marker(message: &Value) -> bool {
    let headers = decoded(&message["hdrs"]).unwrap_or_default();
    let headers = String::from_utf8_lossy(&headers);
    headers.contains("KV-Operation:") || headers.contains("Nats-Marker-Reason:")
}

fn record_of(message: &Value) -> Option<Record> {
    serde_json::from_slice(&decoded(&message["data"])?).ok()
}

fn decoded(text: &Value) -> Option<Vec<u8>> {
    BASE64.decode(text.as_str()?.as_bytes()).ok()
}
