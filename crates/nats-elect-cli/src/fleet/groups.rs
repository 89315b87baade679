//! Groups, their units and members.

use std::collections::BTreeMap;

use nats_elect::{ObservedGroup, ObservedGroups, ObservedUnit, UnitKind, UnitStanding};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::members::{Member, problems};
use super::{Seconds, Token, Whole};

/// What is told of a group wherever it is named.
#[derive(Serialize, JsonSchema)]
pub struct Head {
    group: String,
    /// Null if the group has no record that can be understood
    #[schemars(with = "Option<String>", extend("enum" = [UnitKind::Sharded, UnitKind::Spread, null]))]
    kind: Option<UnitKind>,
    generation: u32,
    /// Whether the group is new, and nobody owns a unit of it yet
    making: bool,
    /// Units of earlier generations that are not closed
    unclosed: usize,
    /// What is not as members leave it, in words
    problems: Vec<String>,
}

impl Head {
    pub fn of(all: &ObservedGroups, name: &str, group: &ObservedGroup) -> Self {
        Self {
            group: name.to_owned(),
            kind: group.kind,
            generation: group.generation,
            making: group.making,
            unclosed: group.unclosed,
            problems: problems(all, name),
        }
    }
}

/// A group, and how many of its units have an owner
#[derive(Serialize, JsonSchema)]
pub struct Group {
    #[serde(flatten)]
    head: Head,
    shards: Option<u32>,
    /// Keys of this generation that are no unit's, as of numbers beyond that of the shards
    surplus: usize,
    /// Units of the next generation: another number of shards is prepared, or that was cut off
    prepared: usize,
    unit_count: usize,
    /// Units whose record names a member, alive or not
    owned: usize,
    /// The number of units by their standing
    standings: BTreeMap<&'static str, usize>,
    /// Members with a record, alive or not
    member_count: usize,
    units_per_member: Range,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Range {
    least: Option<usize>,
    most: Option<usize>,
}

impl Group {
    pub fn of(all: &ObservedGroups, name: &str, group: &ObservedGroup) -> Self {
        let members = Member::all(all, name, group);
        let counts = members.iter().map(|it| it.units.len());
        let standings = UnitStanding::ALL.iter();
        Self {
            head: Head::of(all, name, group),
            shards: group.shards,
            surplus: group.surplus.len(),
            prepared: group.prepared,
            unit_count: group.unit_count(),
            owned: group.count(UnitStanding::Owned),
            standings: standings
                .map(|it| (it.as_str(), group.count(*it)))
                .collect(),
            member_count: members.len(),
            units_per_member: Range {
                least: counts.clone().min(),
                most: counts.max(),
            },
        }
    }
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Member")]
pub struct MemberRecord {
    /// The name of its lease
    epoch: String,
    /// Empty if its record tells none
    instance_id: String,
    incarnation: Option<Uuid>,
    /// Whether its record fits its epoch
    understood: bool,
    /// Whether a heartbeat was seen within its lease
    confirmed: bool,
    /// Time since its last record was received here
    age_seconds: Seconds,
    ttl_seconds: Option<Seconds>,
    /// The work that its units of this group make, as their handlers reported it
    load: Option<Whole>,
    zone: Option<String>,
    /// Whether it takes no more units
    cordoned: bool,
    revision: Whole,
    /// Units of this group
    unit_count: usize,
    /// Units of all groups
    all_units: usize,
}

impl MemberRecord {
    pub fn of(member: &Member<'_>, group: &str) -> Self {
        let seen = member.seen;
        Self {
            epoch: member.epoch.to_owned(),
            instance_id: seen.instance_id.clone(),
            incarnation: seen.incarnation,
            understood: seen.understood,
            confirmed: seen.confirmed,
            age_seconds: Seconds(seen.age),
            ttl_seconds: seen.ttl.map(Seconds),
            load: seen.groups.get(group).map(|load| Whole::from(*load)),
            zone: seen.zone.clone(),
            cordoned: seen.cordoned,
            revision: seen.revision.into(),
            unit_count: member.units.len(),
            all_units: seen.units,
        }
    }
}

#[derive(Serialize)]
pub struct UnitRecord {
    unit: String,
    standing: UnitStanding,
    /// The epoch that its record names
    owner: Option<String>,
    instance_id: Option<String>,
    fencing_token: Option<Token>,
}

impl From<&ObservedUnit> for UnitRecord {
    fn from(unit: &ObservedUnit) -> Self {
        Self {
            unit: unit.unit.clone(),
            standing: unit.standing,
            owner: unit.owner.clone(),
            instance_id: unit.instance_id.clone(),
            fencing_token: unit.fencing_token.map(Token),
        }
    }
}

/// A unit: its owner, or what it waits for
#[derive(Serialize)]
pub struct Unit {
    #[serde(flatten)]
    pub record: UnitRecord,
    #[serde(flatten)]
    pub head: Head,
    /// The owner, if it has a record
    pub member: Option<MemberRecord>,
    /// What has to happen before somebody owns it, in words
    pub waits_for: Option<String>,
    /// What follows, in words
    pub then: Option<&'static str>,
}
