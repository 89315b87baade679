//! What a unit waits for before its owner acts, by the rules of the members.

use nats_elect::{ObservedGroup, ObservedMember, ObservedUnit, UnitStanding};
use serde::Serialize;

use crate::fleet::{has_expired, lives, name, owner};
use crate::output::SHOWN;
use crate::text::{cut, lasted};

/// An epoch whose acknowledgement is missing.
#[derive(Serialize)]
pub struct Missing<'a> {
    epoch: &'a str,
    pub instance_id: String,
    /// Whether its handler of the unit still runs. If not, it has not acknowledged the map.
    still_running: bool,
    /// Whether a heartbeat was seen within its lease.
    confirmed: bool,
}

/// Those whose acknowledgement a unit waits for.
pub fn missing<'a>(group: &ObservedGroup, unit: &'a ObservedUnit) -> Vec<Missing<'a>> {
    let missing = unit.waits_for.iter().map(|epoch| {
        let member = group.members.get(epoch);
        Missing {
            epoch,
            instance_id: name(epoch, member),
            still_running: member.is_some_and(|it| it.still_running.contains(&unit.unit)),
            confirmed: member.is_some_and(lives),
        }
    });
    missing.collect()
}

/// What a unit waits for, in words. Nothing if its owner may act, and lives.
pub fn waits_for(group: &ObservedGroup, unit: &ObservedUnit) -> Option<String> {
    if group.kind.is_none() {
        return Some("a map that is understood: members write one".into());
    }
    match unit.standing {
        UnitStanding::Owned => owner(group, unit).and_then(heartbeat),
        UnitStanding::Changing => {
            let missing = missing(group, unit);
            let missing: Vec<_> = missing.iter().map(Missing::words).collect();
            Some(missing.join("; "))
        }
        UnitStanding::OwnerMissing => {
            Some("the end of its owner's lease, which has no record: a minute at most".into())
        }
        _ => Some(taker(group).into()),
    }
}

fn taker(group: &ObservedGroup) -> &'static str {
    let takes = |it: &ObservedMember| !has_expired(it, true) && !it.cordoned && !it.leaves;
    if group.members.values().any(takes) {
        "a member that takes it"
    } else {
        "a member that may take it: the group has none that lives, or all are cordoned"
    }
}

fn heartbeat(owner: &ObservedMember) -> Option<String> {
    let lease = owner.ttl.map_or_else(|| "a minute".to_owned(), lasted);
    let what = format!("a heartbeat of the owner, or the end of its lease of {lease}");
    (!lives(owner)).then_some(what)
}

impl Missing<'_> {
    fn words(&self) -> String {
        let who = cut(&self.instance_id, SHOWN);
        let what = if self.still_running {
            "the end of its handler on"
        } else {
            "the acknowledgement of"
        };
        let silent = if self.confirmed {
            ""
        } else {
            ", of which no heartbeat came, or the end of its lease"
        };
        format!("{what} {who}{silent}")
    }
}
