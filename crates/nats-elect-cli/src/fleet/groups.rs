//! Groups, their units and members, as programs read them.

use std::collections::BTreeMap;

use nats_elect::{ObservedGroup, ObservedMember, UnitKind, UnitStanding};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::members::{Member, lives, problems};
use super::{Groups, Seconds, Whole};

/// A group, and how many of its units have an owner
#[derive(Serialize, JsonSchema)]
pub struct Group {
    group: String,
    /// Null if the group has no map that is understood
    #[schemars(with = "Option<String>", extend("enum" = [UnitKind::Sharded, UnitKind::Spread, null]))]
    kind: Option<UnitKind>,
    shards: Option<u32>,
    generation: u32,
    /// The map's version: its sequence in the stream
    map: Option<Whole>,
    unit_count: usize,
    /// Units that the map gives to a member that is not over, seen alive or not
    owned: usize,
    /// Units without an owner that is known to live
    unowned: usize,
    /// The number of units by their standing
    standings: BTreeMap<&'static str, usize>,
    /// Members that are not over, seen alive or not, and owners of units
    member_count: usize,
    units_per_member: Range,
    /// What is not as members leave it, in words
    problems: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Range {
    least: Option<usize>,
    most: Option<usize>,
}

impl Group {
    pub fn of(groups: &Groups, name: &str, group: &ObservedGroup) -> Self {
        let members = Member::all(group);
        let counts = members.iter().map(|it| it.units.len());
        let standings = UnitStanding::ALL.iter();
        Self {
            group: name.to_owned(),
            kind: group.kind,
            shards: group.shards,
            generation: group.generation,
            map: group.map.map(Whole::from),
            unit_count: group.unit_count(),
            owned: group.count(UnitStanding::Owned) + group.count(UnitStanding::Changing),
            unowned: groups.unowned(group).values().sum(),
            standings: standings
                .map(|it| (it.as_str(), group.count(*it)))
                .collect(),
            member_count: members.len(),
            units_per_member: Range {
                least: counts.clone().min(),
                most: counts.max(),
            },
            problems: problems(&groups.all, name),
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Member")]
#[expect(clippy::struct_excessive_bools, reason = "a member tells them")]
pub struct MemberRecord<'a> {
    /// The name of its lease
    epoch: String,
    /// Empty if its record tells none
    instance_id: String,
    incarnation: Option<Uuid>,
    /// Whether its key shows a record of this epoch, or its end
    understood: bool,
    /// Whether a heartbeat was seen within its lease
    confirmed: bool,
    /// Whether its lease has ended for good
    over: bool,
    /// Time since its last record was received here
    age_seconds: Seconds,
    ttl_seconds: Option<Seconds>,
    /// Time until its lease has passed as seen from here, if no heartbeat comes
    remaining_seconds: Option<Seconds>,
    /// The work that its units make, as their handlers reported it
    load: Whole,
    zone: Option<String>,
    /// The version of its application
    version: Option<String>,
    /// Whether it takes no more units
    cordoned: bool,
    /// Whether it gives its units away, and ends
    leaves: bool,
    /// The newest map that it acknowledges
    follows: Whole,
    /// Units whose handlers still run by an earlier map
    still_running: Vec<String>,
    /// Units that it can't run
    unable: Vec<String>,
    revision: Whole,
    /// The units that it owns by the map
    units: Vec<&'a str>,
    unit_count: usize,
}

impl<'a> MemberRecord<'a> {
    pub fn of(member: Member<'a>) -> Self {
        let seen = member.seen;
        Self {
            epoch: member.epoch.to_owned(),
            instance_id: seen.instance_id.clone(),
            incarnation: seen.incarnation,
            understood: seen.understood,
            confirmed: seen.confirmed,
            over: seen.over,
            age_seconds: Seconds(seen.age),
            ttl_seconds: seen.ttl.map(Seconds),
            remaining_seconds: remaining(seen),
            load: seen.load.into(),
            zone: seen.zone.clone(),
            version: seen.version.clone(),
            cordoned: seen.cordoned,
            leaves: seen.leaves,
            follows: seen.follows.into(),
            still_running: seen.still_running.clone(),
            unable: seen.unable.clone(),
            revision: seen.revision.into(),
            unit_count: member.units.len(),
            units: member.units,
        }
    }
}

/// Time until a lease has passed as seen from here, if no heartbeat comes.
pub fn remaining(member: &ObservedMember) -> Option<Seconds> {
    let left = member.ttl.map(|ttl| ttl.saturating_sub(member.age));
    left.filter(|_| lives(member)).map(Seconds)
}
