//! The instances that run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nats_elect::admin::{AdminError, InstanceReport};
use nats_elect::{Denied, TWO_APPLICATIONS};

use super::crash;
use super::examined::{Examined, Part, Times};
use super::findings::Findings;
use super::records::Left;
use crate::applications::mixed;
use crate::exit::Failure;
use crate::instances::{Candidate, Whose, asked};
use crate::text::joined;

const CHECK: &str = "instances";

/// How long is waited for instances to answer.
const SEARCH: Duration = Duration::from_secs(2);
/// A failure is told for so long at least. A candidate with longer pauses tries twice in longer.
const RECENT: Duration = Duration::from_secs(15);

impl Examined<'_> {
    /// Looks at the instances, and tells of roles that nobody claims.
    pub async fn instances(&self, left: &[Left], findings: &mut Findings) {
        let found = self.search().await;
        for left in left {
            let found = found.as_deref().unwrap_or_default();
            abandoned(self.bucket(), left, found, findings);
        }
        match found {
            Ok(found) => look(found, self.times, findings),
            Err(why) => findings.skipped(CHECK, why),
        }
    }

    /// Those that run, each with what it reports.
    async fn search(&self) -> Result<Vec<Candidate>, String> {
        let (line, config) = (self.line, self.config);
        let whose = match self.part {
            Part::Operator => self.operates,
            _ => Whose::Read,
        };
        let prefix = &config.admin.subject_prefix;
        let bucket = &config.bucket;
        let admin = whose.asked_by(&line.client, config).await;
        let admin = admin.map_err(|failure| failure.what)?;
        let subject = format!("{prefix}.{bucket}.instances");
        let answers = format!("{prefix}.{bucket}._answer.");
        let forbids = |denied: &Denied| {
            denied.publish && denied.subject == subject
                || !denied.publish && denied.subject.starts_with(&answers)
        };
        let forbidden = line.hears(&forbids);
        let asking = async { Ok(asked(&admin, None, admin.instances(SEARCH).await?).await) };
        tokio::select! {
            biased;
            denied = forbidden => Err(format!("{denied}; a candidate does not need it")),
            found = asking => match found {
                Ok(found) => Ok(found),
                Err(AdminError::Timeout { .. }) => Err("they did not answer in time".into()),
                Err(error) => {
                    let Failure { what, advice, .. } = error.into();
                    Err(advice.map_or(what.clone(), |it| format!("{what}; {it}")))
                }
            },
        }
    }
}

fn look(found: Vec<Candidate>, times: &[Times], findings: &mut Findings) {
    if found.is_empty() {
        return findings.ok(CHECK, "none runs, or all have their admin service off");
    }
    let mut by_id = BTreeMap::<_, Vec<_>>::new();
    let mut versions = BTreeSet::new();
    for instance in found.iter().map(|it| &it.instance) {
        by_id
            .entry(&instance.instance_id)
            .or_default()
            .push(instance.incarnation.to_string());
        versions.insert(instance.version.as_str());
    }
    for (id, incarnations) in by_id.iter().filter(|(_, all)| all.len() > 1) {
        findings.warn(
            CHECK,
            format!("{} processes have the id {id:?} ({})", incarnations.len(), incarnations.join(", ")),
            "give each its own instance id: no role can be handed to them, and logs and metrics mix them up",
        );
    }
    if versions.len() > 1 {
        findings.warn(
            CHECK,
            format!("they run different versions: {}", joined(versions)),
            "that is fine during an upgrade; then run one version",
        );
    } else if let Some(version) = versions.first() {
        findings.ok(CHECK, format!("{} found, version {version}", found.len()));
    }
    for mixed in mixed(&found) {
        findings.warn("applications", mixed, TWO_APPLICATIONS);
    }
    let (mut known, mut silent) = (Vec::new(), None);
    for one in found {
        match one.report {
            Ok(report) => known.push(report),
            Err(error) => silent = Some(error),
        }
    }
    let pauses = times.iter().map(|it| it.settings.retry.max_backoff);
    let recent = RECENT.max(2 * pauses.max().unwrap_or_default());
    writes(&known, recent, findings);
    crash::failing(&known, findings);
    match silent {
        None => crash::check(&known, findings),
        // Who can't be asked might stand for any role.
        Some(error) => findings.skipped(
            "candidates",
            format!("an instance does not report: {error}"),
        ),
    }
}

/// Tells of a role that nobody claims, and what the instances that stand for it wait for.
fn abandoned(bucket: &str, left: &Left, found: &[Candidate], findings: &mut Findings) {
    let role = &left.role;
    let (mut paused, mut standing) = (Vec::new(), Vec::new());
    for one in found {
        let id = one.instance.instance_id.as_str();
        match one.role(role) {
            Some(report) if report.paused => paused.push(id),
            Some(_) => standing.push(id),
            None => {}
        }
    }
    let (more, advice) = if !standing.is_empty() {
        (
            format!(", though these stand for it: {}", standing.join(", ")),
            format!("`nats-elect candidates {role}` and their logs say what keeps them from it"),
        )
    } else if let Some(id) = paused.first() {
        (
            format!("; paused: {}", paused.join(", ")),
            format!("`nats-elect resume {id} --role {role}`"),
        )
    } else {
        (
            String::new(),
            format!(
                "start a candidate; if you no longer need the role: `nats kv del {bucket} {role}`"
            ),
        )
    };
    findings.warn("records", format!("{}{more}", left.what), advice);
}

/// The roles of each failure that repeats, as of the instances' last attempts. A role whose leader
/// anybody knows is none that nothing can be written for.
fn failures(reports: &[InstanceReport], recent: Duration) -> BTreeMap<&str, BTreeSet<&str>> {
    let roles = || reports.iter().flat_map(|report| &report.roles);
    let led = roles().filter(|(_, it)| it.leader.is_some());
    let led: BTreeSet<_> = led.map(|(role, _)| role).collect();
    let mut failing = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (role, it) in roles() {
        if !led.contains(role) {
            let failure = it.last_failure.as_ref();
            if let Some(failure) = failure.filter(|failure| failure.ago < recent) {
                failing.entry(&failure.detail).or_default().insert(role);
            }
        }
    }
    failing
}

fn writes(reports: &[InstanceReport], recent: Duration, findings: &mut Findings) {
    for (detail, roles) in failures(reports, recent) {
        let roles = crash::listed(&roles.into_iter().collect::<Vec<_>>());
        findings.fail(
            "writes",
            format!("nobody leads {roles}, and the last attempts failed: {detail}"),
            "candidates try on and lead soon after the cause is gone: look for a full disk and for \
             limits of the bucket, the account and the server",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_role_whose_leader_anybody_knows_is_written() {
        let report = |id: &str, leader: Option<&str>| -> InstanceReport {
            let leader = leader.map(|id| json!({ "instance_id": id }));
            let failure = json!({ "kind": "timeout", "detail": "no room", "ago_seconds": 20.0 });
            let role = json!({ "is_leader": false, "leader": leader, "last_failure": failure });
            let report = json!({
                "type": "any", "instance_id": id, "incarnation": uuid::Uuid::nil(), "version": "1",
                "bucket": "leaders", "roles": { "scheduler": role },
            });
            serde_json::from_value(report).expect("a report")
        };
        let (blind, sees) = (report("a", None), report("b", Some("c")));
        let recent = Duration::from_secs(30);
        let one = failures(std::slice::from_ref(&blind), recent);
        assert!(one["no room"].contains("scheduler"));
        assert!(failures(std::slice::from_ref(&blind), RECENT).is_empty());
        assert!(failures(&[blind, sees], recent).is_empty());
    }
}
