//! What stands of groups in the bucket.

use std::collections::BTreeSet;
use std::time::Duration;

use nats_elect::{ManagerConfig, ObservedGroup, ObservedGroups, Observer, UnitStanding};

use super::findings::Findings;
use crate::fleet::{lack, owner, problems};

/// How long a heartbeat of each member is waited for at most.
const WAIT: Duration = Duration::from_secs(2);

const CHECK: &str = "groups";

/// Reads the groups. Nothing if they can't be read.
pub async fn read(config: &ManagerConfig, findings: &mut Findings) -> Option<ObservedGroups> {
    let observer = Observer::builder().config(config.clone());
    let observer = observer.roles(std::iter::empty::<&str>());
    // The future's state is large.
    let read = Box::pin(async { observer.start().await?.groups(WAIT).await });
    match read.await {
        Ok(groups) => Some(groups),
        Err(error) => {
            findings.skipped(CHECK, format!("they could not be read: {error}"));
            None
        }
    }
}

/// Looks at the groups of these names, and at all others that stand there.
pub fn check(seen: &ObservedGroups, wanted: &[String], findings: &mut Findings) {
    let names = wanted.iter().chain(seen.groups.keys());
    for name in names.collect::<BTreeSet<_>>() {
        match seen.groups.get(name) {
            Some(group) => look(seen, name, group, findings),
            None => findings.skipped(
                CHECK,
                format!("{name:?} is not in the bucket: the first member makes it"),
            ),
        }
    }
}

fn look(seen: &ObservedGroups, name: &str, group: &ObservedGroup, findings: &mut Findings) {
    let mut wrong = problems(seen, name);
    let (all, mut without, mut changing) = (group.unit_count(), 0, 0);
    for unit in &group.units {
        let is_without = lack(unit, owner(group, unit), true).is_some();
        without += usize::from(is_without);
        changing += usize::from(!is_without && unit.standing == UnitStanding::Changing);
    }
    let what = [
        (without, "units without an owner that is alive"),
        (
            changing,
            "units whose former owners have not acknowledged the map",
        ),
    ];
    let what = what.into_iter().filter(|(count, _)| *count > 0);
    wrong.extend(what.map(|(count, what)| format!("group {name:?}: {what}: {count} of {all}")));
    if wrong.is_empty() {
        return findings.ok(
            CHECK,
            format!("{name:?}: {all} units, each with an owner that is alive"),
        );
    }
    for what in wrong {
        let advice = format!(
            "`nats-elect group explain {name}`; after instances started or stopped, look again a minute later"
        );
        findings.warn(CHECK, what, advice);
    }
}
