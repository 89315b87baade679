//! Groups in JSON: a group has the fields that `group ls --json` shows, and those of `group show
//! --json`, a unit those of `group explain --json`.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use nats_elect::duration::seconds::Seconds;
use nats_elect::{ObservedGroup, ObservedMember, ObservedUnit, UnitKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Served;
use super::api::{Answer, Parsed, Where, query, told};
use super::group_view::Groups;
use super::problem::Problem;
use super::view::View;
use crate::commands::group::explain::Facts;
use crate::commands::group::{Member, group_json, member_json};
use crate::unowned::{lack, lives};

/// Which unit is meant: by its name, or by a key that belongs to a shard.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    bucket: Option<String>,
    key: Option<String>,
    unit: Option<String>,
}

pub async fn groups(State(served): State<Served>, asked: Parsed<Where>) -> Answer {
    let bucket = query(asked)?.bucket;
    let views = served.views(bucket.as_deref(), View::groups_freshness)?;
    let mut all = Vec::new();
    for view in &views {
        let groups = view.groups.groups();
        let each = groups.all.groups.iter();
        all.extend(each.map(|(name, group)| json_of(view, &groups, name, group)));
    }
    let views: Vec<_> = views.iter().map(|view| view.groups_json()).collect();
    Ok(told(&json!({ "views": views, "groups": all })))
}

pub async fn group(
    State(served): State<Served>,
    Path(name): Path<String>,
    asked: Parsed<Where>,
) -> Answer {
    let bucket = query(asked)?.bucket;
    let view = served.view(bucket.as_deref(), View::groups_freshness)?;
    let groups = view.groups.groups();
    let group = groups.all.groups.get(&name).ok_or_else(no_group)?;
    let mut answer = json_of(view, &groups, &name, group);
    let members = Member::all(&groups.all, &name, group);
    let members = members.iter().map(|member| {
        let mut json = member_json(member, &name);
        json["remaining_seconds"] = remaining(member.seen);
        json["units"] = json!(member.units);
        json
    });
    answer["members"] = members.collect();
    answer["without_owner"] = json!(groups.lacking(group));
    answer["view"] = view.groups_json();
    Ok(told(&answer))
}

pub async fn unit(
    State(served): State<Served>,
    Path((name, unit)): Path<(String, String)>,
    asked: Parsed<Where>,
) -> Answer {
    let bucket = query(asked)?.bucket;
    let view = served.view(bucket.as_deref(), View::groups_freshness)?;
    let groups = view.groups.groups();
    let group = groups.all.groups.get(&name).ok_or_else(no_group)?;
    let unit = group.unit(&unit).ok_or_else(no_unit)?;
    let facts = Facts {
        all: &groups.all,
        name: &name,
        group,
        unit,
        planned: None,
    };
    let mut answer = facts.json();
    answer["bucket"] = json!(view.bucket);
    answer["view"] = view.groups_json();
    Ok(told(&answer))
}

/// 200 if the unit has an owner that is known to live, else 503.
pub async fn owner(
    State(served): State<Served>,
    Path(name): Path<String>,
    asked: Parsed<Which>,
) -> Answer {
    let asked = query(asked)?;
    let view = served.view(asked.bucket.as_deref(), View::groups_freshness)?;
    let by_key = asked.key.is_some();
    let (unit, member) = match (asked.unit, asked.key) {
        (Some(unit), None) => of_unit(view, &name, &unit)?,
        (None, Some(key)) => of_key(view, &name, &key)?,
        _ => {
            let why = "name a key or a unit, as in ?key=customer-4711 or ?unit=17";
            return Err(Problem::bad_request(why));
        }
    };
    let freshness = view.groups_freshness();
    let reason = lack(&unit, member.as_ref(), freshness.stale.is_none());
    let status = match reason {
        None => StatusCode::OK,
        Some(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let body = json!({
        "bucket": view.bucket,
        "group": name,
        "unit": unit.unit,
        "shard": unit.unit.parse::<u32>().ok().filter(|_| by_key),
        "has_owner": reason.is_none(),
        "reason": reason,
        "instance_id": unit.instance_id,
        "owner": unit.owner,
        "fencing_token": unit.fencing_token,
        "age_seconds": member.as_ref().map(|it| Seconds(it.age)),
        "remaining_seconds": member.as_ref().map_or(Value::Null, remaining),
        "view": view.groups_json(),
    });
    Ok((status, told(&body)).into_response())
}

/// A unit, and the member that its record names.
type Owned = (ObservedUnit, Option<ObservedMember>);

fn of_unit(view: &View, name: &str, unit: &str) -> Result<Owned, Problem> {
    view.groups.unit(name, unit).ok_or_else(|| {
        let groups = view.groups.groups();
        let group = groups.all.groups.get(name);
        // A group may be taken back between the two looks.
        group
            .and_then(|it| it.unit(unit).is_none().then(no_unit))
            .unwrap_or_else(no_group)
    })
}

/// The shard of a key, and the member that its record names.
fn of_key(view: &View, name: &str, key: &str) -> Result<Owned, Problem> {
    // What is not UTF-8 was replaced by this, and belongs to another shard.
    if key.contains(char::REPLACEMENT_CHARACTER) {
        return Err(Problem::bad_request("key: a key is text in UTF-8"));
    }
    view.groups.owner_of(name, key).ok_or_else(|| {
        let groups = view.groups.groups();
        match groups.all.groups.get(name).map(|group| group.kind) {
            None => no_group(),
            Some(Some(UnitKind::Spread)) => {
                Problem::bad_request("the group has named units: ask for one, as in ?unit=name")
            }
            Some(_) => Problem::unavailable(
                "the group has no record that can be understood, so that its shards are not known",
            ),
        }
    })
}

fn json_of(view: &View, groups: &Groups, name: &str, group: &ObservedGroup) -> Value {
    let mut json = group_json(&groups.all, name, group);
    let unowned: usize = groups.unowned(group).values().sum();
    json["bucket"] = json!(view.bucket);
    json["living_members"] = json!(groups.living(name).count());
    json["unowned"] = json!(unowned);
    json["unowned_seconds"] = json!(view.groups.unowned_for(name).map(Seconds));
    json
}

/// Time until its lease has passed as seen from here, if no heartbeat comes.
fn remaining(member: &ObservedMember) -> Value {
    let left = member.ttl.map(|ttl| ttl.saturating_sub(member.age));
    json!(left.filter(|_| lives(member)).map(Seconds))
}

fn no_group() -> Problem {
    Problem::not_found("the bucket has no such group")
}

fn no_unit() -> Problem {
    Problem::not_found("the group has no such unit")
}
