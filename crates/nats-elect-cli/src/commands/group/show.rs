//! `group show`: the members of a group, and who owns its units.

use clap::Args;
use comfy_table::{Cell, Color};
use nats_elect::{GroupName, ObservedGroup, UnitStanding};
use serde_json::json;

use super::waiting::missing;
use super::{find, note_problems, read};
use crate::columns::Layout;
use crate::exit::Outcome;
use crate::fleet::{Group, Groups, Member, MemberRecord, listed, ranges};
use crate::options::{Heartbeats, Shared};
use crate::output::{Output, SHOWN};
use crate::seen::coloured;
use crate::text::{joined, lasted};

const MEMBERS: Layout = Layout {
    all: "INSTANCE STATE UNITS LOAD ZONE LEASE EPOCH INCARNATION OWNS",
    wide: "EPOCH INCARNATION",
    flexible: "OWNS",
};

const UNITS: Layout = Layout {
    all: "UNIT STATE OWNER EPOCH WAITS-FOR",
    wide: "EPOCH",
    flexible: "OWNER",
};

const MORE: &str = "\
Columns of members:
  INSTANCE  the member's instance id; `, cordoned` if it takes no more units
  STATE     confirmed    it sent a heartbeat while this command watched
            unconfirmed  there is a record, but no heartbeat came yet: it may be dead
            leaving      it gives its units away, and ends
            over         its lease has ended, and its units get other owners
            unknown      the value under its key can't be understood
  UNITS     how many units of this group it owns
  LOAD      the work that its units make, as their handlers reported it
  ZONE      where it runs, as it says
  LEASE     the length of its lease
  EPOCH     the name of its lease, with --output wide
  INCARNATION  the start of that instance, with --output wide
  OWNS      the units; 3-7 are five shards

Columns of units (--units):
  UNIT      the unit
  STATE     owned          it has an owner
            changing       it has one, which waits for former owners
            free           nobody owns it: a member takes it
            owner_over     its owner's lease has ended: a member takes it
            owner_missing  its owner has no record that is understood: members wait for its lease
  OWNER     the owner's instance id
  EPOCH     the owner's lease, with --output wide
  WAITS-FOR the former owners whose acknowledgement is missing

Exit codes: those of `nats-elect --help`

Examples:
  nats-elect group show partitions
  nats-elect group show partitions --units
  nats-elect group show partitions --json | jq -r '.units[] | select(.standing != \"owned\") | .unit'";

/// Show the members of a group, and who owns its units
///
/// The command reads the bucket, and waits a moment for a heartbeat of each member.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Show {
    /// The group
    group: GroupName,

    /// Show each unit on a line of its own
    #[arg(short, long)]
    units: bool,

    #[command(flatten)]
    heartbeats: Heartbeats,
}

impl Show {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let groups = Groups::read(read(shared, self.heartbeats.wait).await?);
        let group = find(&groups.all, self.group.as_str())?;
        let members = Member::all(group);
        if output.is_data() {
            let mut told = json!(Group::of(&groups, self.group.as_str(), group));
            told["bucket"] = json!(shared.config()?.bucket);
            told["members"] = members
                .into_iter()
                .map(MemberRecord::of)
                .map(|it| json!(it))
                .collect();
            told["units"] = json!(group.units);
            output.data(&told)?;
            return Ok(0);
        }
        if self.units {
            units(group, output)?;
        } else {
            output.line(title(self.group.as_str(), group))?;
            output.line("")?;
            table(&members, output)?;
            unowned(group, output)?;
        }
        note_problems(&groups.all, [&self.group], output);
        Ok(0)
    }
}

fn title(name: &str, group: &ObservedGroup) -> String {
    let kind = match (group.kind, group.shards) {
        (_, Some(shards)) => format!("{shards} shards"),
        (Some(_), None) => "named units".into(),
        (None, None) => "no map that is understood".into(),
    };
    format!("group {name}: {kind}, generation {}", group.generation)
}

fn table(members: &[Member<'_>], output: Output) -> std::io::Result<()> {
    let none = || "–".to_owned();
    let rows = members.iter().map(|it| {
        let cordoned = if it.seen.cordoned { ", cordoned" } else { "" };
        let load = Some(it.seen.load).filter(|load| *load > 0);
        let zone = it.seen.zone.as_deref();
        vec![
            Cell::new(format!("{}{cordoned}", output.name(&it.name()))),
            coloured(it.state()),
            Cell::new(it.units.len()),
            Cell::new(load.map_or_else(none, |it| it.to_string())),
            Cell::new(zone.map_or_else(none, |zone| output.name(zone))),
            Cell::new(it.seen.ttl.map_or_else(none, lasted)),
            Cell::new(it.epoch),
            Cell::new(it.seen.incarnation.map_or_else(none, |it| it.to_string())),
            Cell::new(output.name(&ranges(&it.units))),
        ]
    });
    MEMBERS.show(rows, output)
}

/// The units that have no owner, or one that waits, by their standing.
fn unowned(group: &ObservedGroup, output: Output) -> std::io::Result<()> {
    let shown = if output.is_wide() { usize::MAX } else { SHOWN };
    let mut is_first = true;
    for &standing in UnitStanding::ALL {
        let these = group.units.iter().filter(|unit| unit.standing == standing);
        let units: Vec<_> = these.map(|unit| unit.unit.as_str()).collect();
        if standing == UnitStanding::Owned || units.is_empty() {
            continue;
        }
        if std::mem::take(&mut is_first) {
            output.line("\nwithout an owner that acts")?;
        }
        let (count, shown) = (units.len(), listed(&units, units.len(), shown));
        output.line(format!("  {:<14} {count:>5}  {shown}", standing.as_str()))?;
    }
    Ok(())
}

fn units(group: &ObservedGroup, output: Output) -> std::io::Result<()> {
    let none = || "–".to_owned();
    let rows = group.units.iter().map(|unit| {
        let owner = unit.instance_id.as_deref().map(|id| output.name(id));
        let waits = missing(group, unit).into_iter();
        let waits = joined(waits.map(|it| output.name(&it.instance_id)));
        let color = match unit.standing {
            UnitStanding::Owned => Color::Green,
            UnitStanding::Changing => Color::Yellow,
            _ => Color::Red,
        };
        vec![
            Cell::new(&unit.unit),
            Cell::new(unit.standing).fg(color),
            Cell::new(owner.unwrap_or_else(none)),
            Cell::new(unit.owner.clone().unwrap_or_else(none)),
            Cell::new(waits),
        ]
    });
    UNITS.show(rows, output)
}
