//! The instances that run.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use futures::future::join_all;
use nats_elect::ManagerConfig;
use nats_elect::admin::{AdminClient, AdminError, Instance, InstanceReport};

use super::crash;
use super::findings::Findings;
use super::records::Left;
use crate::applications::{ADVICE, mixed};
use crate::line::Line;
use crate::operating::Whose;

/// How long is waited for instances to answer.
const SEARCH: Duration = Duration::from_secs(2);
/// A candidate tries at least so often, by default.
const RECENT: Duration = Duration::from_secs(15);

pub async fn check(
    line: &Line,
    config: &ManagerConfig,
    prefix: &str,
    whose: Whose<'_>,
    left: &[Left],
    findings: &mut Findings,
) -> io::Result<()> {
    let check = "instances";
    let found = search(line, config, prefix, whose).await;
    for left in left {
        let found = found.as_deref().unwrap_or_default();
        abandoned(&config.bucket, left, found, findings)?;
    }
    let (instances, reports) = match found {
        Ok(found) => found.into_iter().unzip::<_, _, Vec<_>, Vec<_>>(),
        Err(why) => return findings.skipped(check, why),
    };
    if instances.is_empty() {
        return findings.ok(check, "none runs, or all have their admin service off");
    }
    let mut by_id = BTreeMap::<_, Vec<_>>::new();
    let mut versions = BTreeSet::new();
    for instance in &instances {
        by_id
            .entry(&instance.instance_id)
            .or_default()
            .push(instance.incarnation.to_string());
        versions.insert(instance.version.as_str());
    }
    for (id, incarnations) in by_id.iter().filter(|(_, all)| all.len() > 1) {
        findings.warn(
            check,
            format!("{} processes have the id {id:?} ({})", incarnations.len(), incarnations.join(", ")),
            "give each its own instance id: no role can be handed to them, and logs and metrics mix them up",
        )?;
    }
    if versions.len() > 1 {
        let versions: Vec<_> = versions.into_iter().collect();
        findings.warn(
            check,
            format!("they run different versions: {}", versions.join(", ")),
            "that is fine during an upgrade; then run one version",
        )?;
    } else if let Some(version) = versions.first() {
        findings.ok(
            check,
            format!("{} found, version {version}", instances.len()),
        )?;
    }
    let known = instances.iter().zip(&reports);
    for mixed in mixed(known.filter_map(|(it, report)| Some((it, report.as_ref().ok()?)))) {
        findings.warn("applications", mixed, ADVICE)?;
    }
    match reports.into_iter().collect::<Result<Vec<_>, _>>() {
        Ok(reports) => {
            failures(&reports, findings)?;
            crash::check(&reports, findings)
        }
        // Who can't be asked might stand for any role.
        Err(error) => findings.skipped(
            "candidates",
            format!("an instance does not report: {error}"),
        ),
    }
}

/// Tells of a role that nobody claims, and what the instances that stand for it wait for.
fn abandoned(
    bucket: &str,
    left: &Left,
    found: &[(Instance, Result<InstanceReport, AdminError>)],
    findings: &mut Findings,
) -> io::Result<()> {
    let role = &left.role;
    let (mut paused, mut standing) = (Vec::new(), Vec::new());
    for (instance, report) in found {
        let id = instance.instance_id.as_str();
        match report.as_ref().map(|report| report.roles.get(role)) {
            Ok(Some(report)) if report.paused => paused.push(id),
            Ok(Some(_)) => standing.push(id),
            _ => {}
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
    findings.warn("records", format!("{}{more}", left.what), advice)
}

/// What fails again and again, as of the instances' last attempts. A role whose leader is known is
/// none that nothing can be written for.
fn failures(reports: &[InstanceReport], findings: &mut Findings) -> io::Result<()> {
    let mut failing = BTreeMap::<&str, BTreeSet<&str>>::new();
    for report in reports {
        for (role, it) in report.roles.iter().filter(|(_, it)| it.leader.is_none()) {
            let failure = it.last_failure.as_ref();
            if let Some(failure) = failure.filter(|failure| failure.ago < RECENT) {
                failing.entry(&failure.detail).or_default().insert(role);
            }
        }
    }
    for (detail, roles) in failing {
        let some: Vec<_> = roles.iter().copied().take(5).collect();
        let more = match roles.len() - some.len() {
            0 => String::new(),
            more => format!(" and {more} others"),
        };
        let found = format!(
            "nobody leads {}{more}, and the last attempts failed: {detail}",
            some.join(", ")
        );
        findings.fail(
            "writes",
            found,
            "candidates try on and lead soon after the cause is gone: look for a full disk and for \
             limits of the bucket, the account and the server",
        )?;
    }
    Ok(())
}

/// Those that run, each with what it reports.
async fn search(
    line: &Line,
    config: &ManagerConfig,
    prefix: &str,
    whose: Whose<'_>,
) -> Result<Vec<(Instance, Result<InstanceReport, AdminError>)>, String> {
    let bucket = &config.bucket;
    let asked = AdminClient::under(line.client.clone(), bucket, prefix);
    let admin = asked.map_err(|error| error.to_string())?;
    let admin = whose.asked_by(admin, line, config).await;
    let subject = format!("{prefix}.{bucket}.instances");
    let answers = format!("{prefix}.{bucket}._answer.");
    let forbidden = line.hears(|denied| {
        denied.publish && denied.subject == subject
            || !denied.publish && denied.subject.starts_with(&answers)
    });
    let asking = async {
        let instances = admin.instances(SEARCH).await?;
        let asked = instances.into_iter().map(async |instance| {
            let report = admin.status(&instance).await;
            (instance, report)
        });
        Ok(join_all(asked).await)
    };
    tokio::select! {
        biased;
        denied = forbidden => Err(format!("{denied}; a candidate does not need it")),
        found = asking => match found {
            Ok(found) => Ok(found),
            Err(AdminError::Timeout { .. }) => Err("they did not answer in time".into()),
            Err(error) => Err(error.to_string()),
        },
    }
}
