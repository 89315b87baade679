//! What stands under the roles' keys.

use std::time::Duration;

use super::bucket::Found;
use super::examined::Examined;
use super::findings::Findings;
use crate::connect::bucket_of;
use crate::record::Written;
use crate::text::lasted;

/// More are not read one by one.
const MOST: usize = 500;

const CHECK: &str = "records";

/// A role whose leader is gone, and which nobody claims.
pub struct Left {
    pub role: String,
    pub what: String,
}

/// Looks at every role's record; the server's clock, which stamped them, says how old they are.
/// Returns the roles that nobody claims.
pub async fn check(of: &Examined<'_>, found: &Found, findings: &mut Findings) -> Vec<Left> {
    let (client, patience) = (of.line.client.clone(), of.config.start_timeout);
    let mut left = Vec::new();
    let Ok(bucket) = bucket_of(client, of.bucket(), patience).await else {
        findings.skipped(CHECK, "they could not be read");
        return left;
    };
    let roles: Vec<_> = found.roles().collect();
    let (mut led, mut free) = (0, 0);
    for role in roles.iter().take(MOST) {
        let Ok(written) = Written::read(&bucket, role).await else {
            findings.skipped(CHECK, "they could not be read");
            return left;
        };
        let Some(written) = written.filter(|it| !it.is_marker()) else {
            free += 1;
            continue;
        };
        let Some(id) = written.id() else {
            findings.warn(
                CHECK,
                format!("the value under {role:?} can't be read: candidates treat it as a leader's record while it is renewed"),
                format!("find its writer; `nats kv del {} {role}` frees the role", of.bucket()),
            );
            continue;
        };
        led += 1;
        if written.ttl().is_none() {
            findings.warn(
                CHECK,
                format!("{role:?} is led by {id:?}, a candidate of another library: its record does not state the lease"),
                "docs/mixed-fleets.md has the guarantees between them, and the migration",
            );
        }
        let Some(lease) = written.ttl().or(found.max_age) else {
            continue;
        };
        let age = found
            .now
            .and_then(|now| now.duration_since(written.time).ok());
        let is_left = |age: &Duration| *age > lease + lease / 10 + Duration::from_secs(1);
        if let Some(age) = age.filter(is_left) {
            let (age, lease) = (lasted(age), lasted(lease));
            left.push(Left {
                role: (*role).clone(),
                what: format!(
                    "{role:?}: the last heartbeat of {id:?} was {age} ago, and its lease was {lease}: the leader is gone, and nobody claims the role"
                ),
            });
        }
    }
    let more = match roles.len().saturating_sub(MOST) {
        0 => String::new(),
        more => format!(", {more} more were not checked"),
    };
    findings.ok(CHECK, format!("{led} led, {free} free{more}"));
    left
}
