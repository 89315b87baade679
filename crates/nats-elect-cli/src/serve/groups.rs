//! Groups in JSON: a group has the fields that `group ls --json` shows, and those of `group show
//! --json`.

use std::collections::BTreeMap;

use axum::extract::{Path, Query, State};
use axum::response::IntoResponse;
use nats_elect::{ObservedGroup, ObservedMember, ObservedUnit, UnitKind, UnitStanding};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Served;
use super::api::{Answer, Where, of_views, told};
use crate::fleet::{
    self, Groups, In, Member, MemberRecord, Seconds, Watched, lack, living, remaining,
};
use crate::problem::{Problem, ok_or_unavailable};

/// Which unit is meant: by its name, or by a key that belongs to a shard.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Which {
    /// Needed if several buckets are served
    bucket: Option<String>,
    /// Text in UTF-8: the owner of its shard is meant
    key: Option<String>,
    /// Instead of a key: the unit
    unit: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Groups")]
pub struct All {
    views: Vec<fleet::View>,
    groups: Vec<In<Group>>,
}

/// A group, and how many of its units have an owner
#[derive(Serialize, JsonSchema)]
pub struct Group {
    #[serde(flatten)]
    group: fleet::Group,
    /// Members that are known to live
    living_members: usize,
    /// The longest time for which a unit has been one of these, as far as this process has watched.
    /// Null while the groups are not current
    unowned_seconds: Option<Seconds>,
}

/// A group: its members with their units, and the units without an owner
#[derive(Serialize, JsonSchema)]
pub struct GroupInFull<'a> {
    #[serde(flatten)]
    group: In<Group>,
    members: Vec<MemberRecord<'a>>,
    /// The units without an owner that is known to live, by why that is so: free, owner_over or
    /// owner_missing as the unit stands; unconfirmed if its owner was not seen alive yet; expired if
    /// no heartbeat of its owner was seen for its whole lease
    without_owner: BTreeMap<&'a str, Vec<&'a str>>,
    view: fleet::View,
}

/// Whether a unit has an owner, or the shard of a key
#[derive(Serialize, JsonSchema)]
pub struct UnitOwner {
    group: String,
    unit: String,
    /// That of the key, if a key was given
    shard: Option<u32>,
    /// Whether it has an owner that is known to live
    has_owner: bool,
    /// Why it has none, in the words of `without_owner`
    reason: Option<&'static str>,
    /// Whether it changes its owner: the new one, which is named here, begins when former ones have
    /// ended
    changing: bool,
    /// The owner by the map
    instance_id: Option<String>,
    /// The epoch of that instance
    owner: Option<String>,
    /// Time since the owner's last heartbeat was received here
    age_seconds: Option<Seconds>,
    /// Time until its lease has passed as seen from here, if no heartbeat comes
    remaining_seconds: Option<Seconds>,
    view: fleet::View,
}

pub async fn groups(State(served): State<Served>, Query(asked): Query<Where>) -> Answer {
    let views = served.views(asked.bucket.as_deref(), Watched::groups_freshness)?;
    let mut all = Vec::new();
    for view in &views {
        let groups = view.groups.groups();
        let each = groups.all.groups.iter();
        all.extend(each.map(|(name, group)| told_of(view, &groups, name, group)));
    }
    Ok(told(&All {
        views: of_views(&views, Watched::groups_freshness),
        groups: all,
    }))
}

pub async fn group(
    State(served): State<Served>,
    Path(name): Path<String>,
    Query(asked): Query<Where>,
) -> Answer {
    let view = served.view(asked.bucket.as_deref(), Watched::groups_freshness)?;
    let groups = view.groups.groups();
    let group = groups.all.groups.get(&name).ok_or_else(no_group)?;
    let members = Member::all(group).into_iter();
    Ok(told(&GroupInFull {
        group: told_of(view, &groups, &name, group),
        members: members.map(MemberRecord::of).collect(),
        without_owner: groups.lacking(group),
        view: view.told(Watched::groups_freshness),
    }))
}

/// 200 if the unit has an owner that is known to live, else 503.
pub async fn owner(
    State(served): State<Served>,
    Path(name): Path<String>,
    Query(asked): Query<Which>,
) -> Answer {
    let view = served.view(asked.bucket.as_deref(), Watched::groups_freshness)?;
    let by_key = asked.key.is_some();
    let (unit, member) = match (asked.unit, asked.key) {
        (Some(unit), None) => of_unit(view, &name, &unit)?,
        (None, Some(key)) => of_key(view, &name, &key)?,
        _ => {
            let why = "name a key or a unit, as in ?key=customer-4711 or ?unit=17";
            return Err(Problem::bad_request(why));
        }
    };
    let freshness = view.told(Watched::groups_freshness);
    let reason = lack(&unit, member.as_ref(), freshness.current);
    let body = view.of(UnitOwner {
        group: name,
        shard: unit.unit.parse().ok().filter(|_| by_key),
        unit: unit.unit,
        has_owner: reason.is_none(),
        reason,
        changing: unit.standing == UnitStanding::Changing,
        instance_id: unit.instance_id,
        owner: unit.owner,
        age_seconds: member.as_ref().map(|it| Seconds(it.age)),
        remaining_seconds: member.as_ref().and_then(remaining),
        view: freshness,
    });
    Ok((ok_or_unavailable(reason.is_none()), told(&body)).into_response())
}

/// A unit, and the member that the map names.
type Owned = (ObservedUnit, Option<ObservedMember>);

fn of_unit(view: &Watched, name: &str, unit: &str) -> Result<Owned, Problem> {
    let followed = view.groups.followed();
    let owned = followed.and_then(|it| it.unit(name, unit));
    owned.ok_or_else(|| Problem::not_found("the bucket has no such unit of this group"))
}

/// The shard of a key, and the member that the map names.
fn of_key(view: &Watched, name: &str, key: &str) -> Result<Owned, Problem> {
    // What is not UTF-8 was replaced by this, and belongs to another shard.
    if key.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Problem::bad_request("key: a key is text in UTF-8"));
    }
    let followed = view.groups.followed();
    let owned = followed.and_then(|it| it.owner_of(name, key));
    owned.ok_or_else(|| {
        let groups = view.groups.groups();
        match groups.all.groups.get(name).map(|group| group.kind) {
            None => no_group(),
            Some(Some(UnitKind::Spread)) => {
                Problem::bad_request("the group has named units: ask for one, as in ?unit=name")
            }
            Some(_) => Problem::unavailable(
                "the group has no map that is understood, so that its shards are not known",
            ),
        }
    })
}

fn told_of(view: &Watched, groups: &Groups, name: &str, group: &ObservedGroup) -> In<Group> {
    view.of(Group {
        group: fleet::Group::of(groups, name, group),
        living_members: living(group).count(),
        unowned_seconds: view.groups.unowned_for(name).map(Seconds),
    })
}

fn no_group() -> Problem {
    Problem::not_found("the bucket has no such group")
}
