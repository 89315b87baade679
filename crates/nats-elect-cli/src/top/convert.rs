//! What the library tells, in the words of this screen.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect::admin::{AdminError, GroupReport, RoleReport};
use nats_elect::{
    ChangeCause, LeaderInfo, Observed, ObservedGroup, ObservedGroups, RoleChange, UnitStanding,
    WatchStatus,
};

use super::facts::{Answer, Happened, Report, Says, Seen, Told, Who};
use super::groups::{Group, Owns};
use crate::asking::{self, Reports};
use crate::exit::{Code, Failure};
use crate::past_event::PastEvent;
use crate::text::{clean, time_of_ms};
use crate::unowned::{UNCONFIRMED, is_over, lack};

impl From<&LeaderInfo> for Who {
    fn from(leader: &LeaderInfo) -> Self {
        Self {
            id: clean(&leader.instance_id),
            incarnation: leader.incarnation,
        }
    }
}

impl From<&Observed> for Seen {
    fn from(observed: &Observed) -> Self {
        Self {
            standing: observed.standing,
            leader: observed.leader.as_ref().map(Who::from),
            confirmed: observed.confirmed,
            since: observed.since,
            token: observed.fencing_token,
            ttl: observed.ttl,
            remaining: observed.remaining,
        }
    }
}

impl From<&RoleReport> for Says {
    fn from(report: &RoleReport) -> Self {
        Self {
            state: report.state,
            leads: report.is_leader,
            priority: report.priority,
            paused: report.paused,
            failing: report.failing.is_some(),
            healthy: report.healthy,
            connection: report.connection,
            heartbeat_took: report.heartbeat_took,
        }
    }
}

impl From<RoleChange> for Happened {
    fn from(change: RoleChange) -> Self {
        let name = |leader: &Option<LeaderInfo>| match leader {
            Some(leader) if leader.instance_id.is_empty() => "somebody".to_owned(),
            Some(leader) => clean(&leader.instance_id),
            None => "nobody".to_owned(),
        };
        let (from, to) = (name(&change.from), name(&change.to));
        let text = match change.cause {
            ChangeCause::Found => format!("found led by {to}"),
            ChangeCause::Claimed if change.from.is_some() => format!("{to} leads, after {from}"),
            ChangeCause::Claimed => format!("{to} leads"),
            ChangeCause::HandedOver => format!("{to} leads, as the named heir"),
            ChangeCause::Released => format!("{from} freed it"),
            ChangeCause::Deleted => format!("its key was deleted; {from} was the leader"),
            ChangeCause::Expired => format!("the lease of {from} ran out"),
            ChangeCause::LostSight => format!("not known whether {from} still leads"),
            ChangeCause::Untrusted => "no trusted key signed its record".into(),
            ChangeCause::BucketReplaced => "the bucket was created again".into(),
            other => format!("{other}: {to} leads"),
        };
        Self {
            role: change.role,
            from: change.from.as_ref().map(Who::from),
            to: change.to.as_ref().map(Who::from),
            claimed: matches!(change.cause, ChangeCause::Claimed | ChangeCause::HandedOver),
            freed: change.cause == ChangeCause::Released,
            silence: change.silence,
            text,
        }
    }
}

/// Since when the view is not current, and why, if it is not.
pub fn stale(status: WatchStatus) -> Option<(Duration, String)> {
    match status {
        WatchStatus::Stale { since, reason } => Some((since, clean(&reason))),
        _ => None,
    }
}

/// All groups of the bucket.
pub fn groups(all: &ObservedGroups, is_current: bool) -> BTreeMap<String, Group> {
    let groups = all.groups.iter();
    groups
        .map(|(name, group)| (name.clone(), group_of(all, name, group, is_current)))
        .collect()
}

fn group_of(all: &ObservedGroups, name: &str, group: &ObservedGroup, is_current: bool) -> Group {
    let known = group.units.iter();
    // Not all of those without a key are listed.
    let known = known.filter(|it| it.standing != UnitStanding::Missing);
    let (mut unowned, mut unconfirmed) = (group.missing, 0);
    for unit in known {
        let owner = unit.owner.as_ref().and_then(|it| all.members.get(it));
        match lack(unit, owner, is_current) {
            None => {}
            Some(UNCONFIRMED) => unconfirmed += 1,
            Some(_) => unowned += 1,
        }
    }
    let members = all.members_of(name).map(|(_, member)| member);
    Group {
        units: group.unit_count(),
        unowned,
        unconfirmed,
        members: members.filter(|it| !is_over(it, is_current)).count(),
        understood: group.kind.is_some(),
        making: group.making,
    }
}

/// What came of asking the instances.
pub fn answers(reports: Reports) -> Result<Vec<Answer>, String> {
    let reports = reports.map_err(|error| reason(&error))?;
    Ok(reports.into_iter().map(answer).collect())
}

fn answer((instance, report): asking::Report) -> Answer {
    let who = Who {
        id: clean(&instance.instance_id),
        incarnation: Some(instance.incarnation),
    };
    let report = report.map(|report| Report {
        version: clean(&report.version),
        uptime: report.uptime,
        roles: (report.roles.iter())
            .map(|(name, role)| (name.clone(), Says::from(role)))
            .collect(),
        groups: (report.groups.into_iter())
            .map(|(name, it)| {
                let GroupReport {
                    units,
                    still_running,
                    load,
                    takes_units,
                    ..
                } = it;
                let owns = Owns {
                    units,
                    still_running,
                    load,
                    takes_units,
                };
                (name, owns)
            })
            .collect(),
    });
    (who, report.map_err(|error| reason(&error)))
}

impl From<PastEvent> for Told {
    fn from(past: PastEvent) -> Self {
        let event = &past.event;
        let gap = match past.gap() {
            gap if gap.is_empty() => gap,
            gap => format!(", gap {gap}"),
        };
        let text = format!("{}: {} {}{gap}", event.role, event.instance_id, past.what());
        let who = Who {
            id: clean(&event.instance_id),
            incarnation: Some(event.incarnation),
        };
        Self {
            role: event.role.clone(),
            at: time_of_ms(event.at_ms),
            token: event.fencing_token,
            began: past.began_at().map(|_| who),
            text: clean(&text),
        }
    }
}

/// Why there is no history, in few words.
pub const fn without_history(failure: &Failure) -> &'static str {
    match failure.code {
        Code::NotFound => "no history is kept",
        Code::Refused => "this user may not read the history",
        _ => "the history can't be read",
    }
}

/// Why nobody could be asked, in few words.
pub fn reason(error: &AdminError) -> String {
    match error {
        AdminError::Timeout { .. } => {
            "no answer: they may be cut off, or this user may not ask (docs/security.md)".into()
        }
        error => clean(&error.to_string()),
    }
}
