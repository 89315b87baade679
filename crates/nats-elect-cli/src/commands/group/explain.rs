//! `group explain`: why a unit is where it is, and which units wait, for whom and for what.

use std::collections::BTreeMap;

use clap::Args;
use comfy_table::Cell;
use nats_elect::admin::AdminClient;
use nats_elect::{
    GroupName, ObservedGroup, ObservedMember, ObservedUnit, UnitExplanation, UnitName, UnitStanding,
};
use serde_json::json;

use super::asking::{explained, lines, verdict};
use super::waiting::{missing, waits_for};
use super::{find, read};
use crate::columns::Layout;
use crate::exit::{Failure, Outcome};
use crate::fleet::{Member, MemberRecord, listed, owner, problems};
use crate::instances::operating;
use crate::options::{Heartbeats, Shared};
use crate::output::{Output, SHOWN};
use crate::text::{ago, cut, lasted, row};

/// Of zones and of lists of units so many characters are shown.
const SHORT: usize = 24;

const LAYOUT: Layout = Layout {
    all: "UNITS STATE OWNER WAITS-FOR",
    wide: "",
    flexible: "WAITS-FOR",
};

const MORE: &str = "\
Of a unit the command shows, from the bucket:
  its owner by the group's map, and that one's lease and last heartbeat
  what it waits for: whose acknowledgement of the map is missing, or whose handler still runs

It also asks the members, and shows what the one that plans for the group says:
  what the plan does with the unit: whether it stays, where it goes and why, or why nobody may take it
  of each member what speaks against it as the owner

Without a unit it shows all units that wait for something or move, for whom and why, and those that
nobody may take.

If no member answers, or these credentials may not ask, the command says so, and shows the rest. It
does not ask members of which no heartbeat came; so `--wait 0s` reads the bucket alone.

Whether the owner's handler runs, only the owner knows: see its log, and `nats-elect candidates`.

Exit codes: those of `nats-elect --help`. 0 also if units wait, or nobody owns them

Examples:
  nats-elect group explain partitions
  nats-elect group explain partitions 17
  nats-elect group explain partitions --json | jq -r '.missing[].instance_id' | sort | uniq -c
  nats-elect group explain partitions 17 --json | jq '.plan.choices[] | select(.why_not == null)'";

/// Explain why a unit of a group is where it is, or which units of a group wait
///
/// The command reads the bucket, waits a moment for a heartbeat of each member, and asks them.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Explain {
    /// The group
    group: GroupName,

    /// The unit: of a shard, its number [default: all that wait for something]
    unit: Option<UnitName>,

    #[command(flatten)]
    heartbeats: Heartbeats,
}

impl Explain {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let all = read(shared, self.heartbeats.wait).await?;
        let name = self.group.as_str();
        let group = find(&all, name)?;
        let unit = self.unit.as_ref().map(UnitName::as_str);
        if let Some(unit) = unit.filter(|it| group.unit(it).is_none()) {
            let what = format!("group {:?} has no unit {unit:?}", self.group);
            let advice = "`nats-elect group show GROUP --units` lists the units";
            return Err(Failure::not_found(what).advice(advice));
        }
        let plans = if group.members.values().any(|it| it.confirmed) {
            let asking = async |admin: AdminClient| explained(&admin, shared, name, unit).await;
            operating(&shared.config()?, shared.whose(), asking).await
        } else {
            Ok(Vec::new())
        };
        if let Err(failure) = &plans {
            let what = &failure.what;
            output.note(&format!("what the members plan is not known: {what}"));
            failure.advice.iter().for_each(|it| output.note(it));
        }
        let plans = plans.unwrap_or_default();
        let plans = plans.iter().map(|it| (it.unit.as_str(), it));
        let plans: BTreeMap<_, _> = plans.collect();
        let told = group
            .units
            .iter()
            .filter(|it| unit.is_none_or(|unit| it.unit == unit));
        let told = told.map(|it| {
            let plan = plans.get(&*it.unit).copied();
            (it, plan, waiting(group, it, plan))
        });
        let waits = |plan: Option<&UnitExplanation>| plan.is_some_and(|it| it.verdict != "stays");
        let told = told.filter(|(_, plan, why)| unit.is_some() || why.is_some() || waits(*plan));
        let told: Vec<_> = told.collect();
        if output.is_data() {
            for (unit, plan, why) in told {
                let mut told = json!(unit);
                told["group"] = json!(self.group);
                told["generation"] = json!(group.generation);
                told["problems"] = json!(problems(&all, name));
                told["member"] = json!(owner_of(group, unit).map(MemberRecord::of));
                told["missing"] = json!(missing(group, unit));
                told["why"] = json!(why);
                told["plan"] = json!(plan);
                output.data(&told)?;
            }
            return Ok(0);
        }
        if unit.is_none() {
            table(group, told, output)?;
            super::note_problems(&all, [&self.group], output);
            return Ok(0);
        }
        for (unit, plan, why) in told {
            let planned = plan.into_iter().flat_map(lines);
            let told = of_unit(name, group, unit, why.as_deref());
            for line in told.into_iter().chain(planned) {
                output.line(line)?;
            }
        }
        Ok(0)
    }
}

/// What a unit waits for, and why nobody takes it, if members say so.
fn waiting(
    group: &ObservedGroup,
    unit: &ObservedUnit,
    plan: Option<&UnitExplanation>,
) -> Option<String> {
    let is_owned = matches!(unit.standing, UnitStanding::Owned | UnitStanding::Changing);
    let unplaced = plan.filter(|it| it.verdict == "unplaced" && !is_owned);
    match unplaced.and_then(|it| it.why.as_ref()) {
        Some(why) => Some(format!("a member that may take it: {why}")),
        None => waits_for(group, unit),
    }
}

fn owner_of<'a>(group: &'a ObservedGroup, unit: &'a ObservedUnit) -> Option<Member<'a>> {
    let units = group.units.iter().filter(|it| it.owner == unit.owner);
    Some(Member {
        epoch: unit.owner.as_deref()?,
        seen: owner(group, unit)?,
        units: units.map(|it| it.unit.as_str()).collect(),
    })
}

/// A unit, what members say of it, and what it waits for.
type Told<'a> = (
    &'a ObservedUnit,
    Option<&'a UnitExplanation>,
    Option<String>,
);

/// Units that wait for the same share a row.
fn table(group: &ObservedGroup, told: Vec<Told<'_>>, output: Output) -> std::io::Result<()> {
    if told.is_empty() {
        output.note("no unit waits or is to move: each has an owner that is alive");
        return Ok(());
    }
    let mut rows = BTreeMap::<_, Vec<_>>::new();
    for (unit, plan, why) in told {
        let owner = owner_of(group, unit).map(|it| it.name());
        let why = why.or_else(|| plan.map(verdict)).unwrap_or_default();
        let row = (unit.standing, owner, why);
        rows.entry(row).or_default().push(unit.unit.as_str());
    }
    let rows = rows.into_iter().map(|((standing, owner, why), units)| {
        vec![
            Cell::new(listed(&units, units.len(), SHORT)),
            Cell::new(standing),
            Cell::new(owner.map_or_else(|| "–".to_owned(), |it| output.name(&it))),
            Cell::new(why),
        ]
    });
    LAYOUT.show(rows, output)
}

fn of_unit(
    name: &str,
    group: &ObservedGroup,
    unit: &ObservedUnit,
    why: Option<&str>,
) -> Vec<String> {
    let mut lines = vec![
        format!("unit {} of group {name}", unit.unit),
        row("state", unit.standing.as_str()),
    ];
    if let Some(member) = owner_of(group, unit) {
        let seen = member.seen;
        let owner = format!("{} (epoch {})", cut(&member.name(), SHOWN), member.epoch);
        lines.push(row("owner", &owner));
        lines.push(row("owner's state", &alive(seen, member.state())));
        let cordoned = if seen.cordoned { ", cordoned" } else { "" };
        let zone = seen.zone.as_ref();
        let zone = zone.map(|zone| format!(", zone {}", cut(zone, SHORT)));
        let (units, zone) = (member.units.len(), zone.unwrap_or_default());
        let has = format!("{units} units of this group{zone}{cordoned}");
        lines.push(row("owner has", &has));
    }
    lines.push(row("waits for", why.unwrap_or("nothing")));
    lines
}

fn alive(member: &ObservedMember, state: &str) -> String {
    let lease = member.ttl.map_or_else(
        || "its lease is not known".to_owned(),
        |ttl| format!("lease {}", lasted(ttl)),
    );
    let beat = if member.confirmed {
        format!("last heartbeat {}", ago(member.age))
    } else {
        format!("no heartbeat for {}", lasted(member.age))
    };
    format!("{state}: {beat}, {lease}")
}
