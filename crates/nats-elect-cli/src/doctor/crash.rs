//! A crash of a leader's process, and its consequences as the instances' reports show them.

use std::collections::BTreeMap;

use nats_elect::LastWillStatus;
use nats_elect::admin::InstanceReport;

use super::findings::Findings;

/// So many names are told, and the number of the others.
const NAMES: usize = 5;

pub fn check(reports: &[InstanceReport], findings: &mut Findings) {
    let has_roles = reports.iter().any(|it| !it.roles.is_empty());
    let has_groups = reports.iter().any(|it| !it.groups.is_empty());
    if has_roles || has_groups {
        last_wills(reports, findings);
    }
    if has_roles {
        candidates(reports, findings);
    }
}

/// Whose terms keep failing.
pub fn failing(reports: &[InstanceReport], findings: &mut Findings) {
    for report in reports {
        let roles = report
            .roles
            .iter()
            .filter(|(_, role)| role.failing.is_some());
        let roles: Vec<_> = roles.map(|(name, _)| name.as_str()).collect();
        if !roles.is_empty() {
            findings.warn(
                "candidates",
                format!(
                    "the terms of {} failed one after the other: {}; others go first for a while",
                    report.instance_id,
                    listed(&roles)
                ),
                "its log says why its handler failed; once that is mended, `nats-elect resume` gives \
                 it another chance at once",
            );
        }
    }
}

/// How soon the others learn of it.
fn last_wills(reports: &[InstanceReport], findings: &mut Findings) {
    let check = "last will";
    let wait = "roles and units of groups wait for the lease of their owner";
    let (with, without): (Vec<_>, Vec<_>) = reports
        .iter()
        .partition(|report| report.last_will.is_some());
    if with.is_empty() {
        let found = format!("no instance has a companion: after a crash {wait}");
        return findings.ok(check, found);
    }
    for (state, what, advice) in [
        (
            LastWillStatus::Absent,
            "should have a companion, and have none",
            "their logs say why it ended, and when another one is started",
        ),
        (
            LastWillStatus::Watching,
            "have a companion that does not reach the bucket",
            "it connects as its instance does, with a connection of its own: does the user or the \
             account limit connections?",
        ),
    ] {
        let these = with.iter().filter(|it| it.last_will == Some(state));
        let ids: Vec<_> = these.map(|it| it.instance_id.as_str()).collect();
        if !ids.is_empty() {
            let found = format!("{what}: {}; until then {wait} after a crash", listed(&ids));
            findings.warn(check, found, advice);
        }
    }
    let ready = |report: &&&InstanceReport| report.last_will == Some(LastWillStatus::Ready);
    let ready = with.iter().filter(ready).count();
    let count = reports.len();
    let mut found = format!("{ready} of {count} instances have a companion that is ready");
    if !without.is_empty() {
        let ids: Vec<_> = without.iter().map(|it| it.instance_id.as_str()).collect();
        let ids = listed(&ids);
        found = format!("{found}; `last_will` is off for {ids}, where {wait}");
    }
    findings.ok(check, found);
}

/// Whether another instance takes over.
fn candidates(reports: &[InstanceReport], findings: &mut Findings) {
    let check = "candidates";
    let mut standing = BTreeMap::<&str, Vec<&str>>::new();
    for report in reports {
        for (name, role) in &report.roles {
            let of_role = standing.entry(name).or_default();
            if !role.paused {
                of_role.push(&report.instance_id);
            }
        }
    }
    let count = standing.len();
    let mut alone = BTreeMap::<Option<&str>, Vec<&str>>::new();
    for (role, ids) in standing.into_iter().filter(|(_, ids)| ids.len() < 2) {
        alone.entry(ids.first().copied()).or_default().push(role);
    }
    for (id, roles) in &alone {
        let roles = listed(roles);
        let (found, advice) = match id {
            Some(id) => (
                format!("{id} alone stands for {roles}: nobody takes over if it dies"),
                "start another instance, or resume one that is paused; instances with their admin \
                 service off are not counted",
            ),
            None => (
                format!("nobody stands for {roles}: each instance is paused"),
                "`nats-elect resume` lets them stand again",
            ),
        };
        findings.warn(check, found, advice);
    }
    if alone.is_empty() {
        findings.ok(
            check,
            format!("two or more stand for each of {count} roles"),
        );
    }
}

/// The first names, and how many more there are.
pub fn listed(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMES)].join(", ");
    match names.len().saturating_sub(NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
