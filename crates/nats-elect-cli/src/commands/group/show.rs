//! `group show`: the members of a group, and who owns its units.

use clap::Args;
use comfy_table::{Cell, Color};
use nats_elect::{ObservedGroup, ObservedUnit, UnitStanding};
use serde::Serialize;

use super::{find, note_problems, read};
use crate::columns::Layout;
use crate::exit::Outcome;
use crate::fleet::{Group, In, Member, MemberRecord, UnitRecord, listed, owner, ranges};
use crate::options::{Heartbeats, Shared};
use crate::output::{Output, SHOWN};
use crate::seen::coloured;
use crate::text::lasted;

const MEMBERS: Layout = Layout {
    all: "INSTANCE STATE UNITS LOAD ZONE LEASE EPOCH INCARNATION OWNS",
    wide: "EPOCH INCARNATION",
    flexible: "OWNS",
};

const UNITS: Layout = Layout {
    all: "UNIT STATE OWNER FENCING EPOCH",
    wide: "EPOCH",
    flexible: "OWNER",
};

const MORE: &str = "\
Columns of members:
  INSTANCE  the member's instance id; `, cordoned` if it takes no more units
  STATE     confirmed    it sent a heartbeat while this command watched
            unconfirmed  there is a record, but no heartbeat came yet: it may be dead
            unknown      its record can't be understood
  UNITS     how many units of this group it owns
  LOAD      the work that its units of this group make, as their handlers reported it
  ZONE      where it runs, as it says
  LEASE     the length of its lease
  EPOCH     the name of its lease, with --output wide
  INCARNATION  the start of that instance, with --output wide
  OWNS      the units; 3-7 are five shards

Columns of units (--units):
  UNIT      the unit
  STATE     owned          its record names a member
            free           nobody owns it: a member takes it
            abandoned      its owner's lease was ended: a member takes it
            owner_missing  its owner has no record: members wait for a minute, and end its lease
            unknown        its record can't be understood, or was deleted: members wait for a minute
            missing        it has no key: members create it, and wait for a minute
            closed         it is of a group that grew
  OWNER     the owner's instance id
  FENCING   the end of the fencing token; --json has all of it
  EPOCH     the owner's lease, with --output wide

`keys of no unit` are of shards that the group does not have, as a growth leaves behind that broke
off, and names that are no shard's. Nobody owns them.

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
    #[arg(value_parser = crate::names::group)]
    group: String,

    /// Show each unit on a line of its own
    #[arg(short, long)]
    units: bool,

    #[command(flatten)]
    heartbeats: Heartbeats,
}

/// The group for programs.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    group: In<Group>,
    members: Vec<MemberRecord>,
    units: Vec<UnitRecord>,
    ended: Vec<Ended<'a>>,
}

/// A lease that was ended.
#[derive(Serialize)]
struct Ended<'a> {
    epoch: &'a str,
    all_units: usize,
}

impl Show {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let all = read(shared, self.heartbeats.wait).await?;
        let group = find(&all, &self.group)?;
        let members = Member::all(&all, &self.group, group);
        if output.is_data() {
            let ended = all.ended.iter();
            let ended = ended.map(|(epoch, units)| Ended {
                epoch,
                all_units: *units,
            });
            output.data(&Shown {
                group: In {
                    bucket: shared.config()?.bucket,
                    it: Group::of(&all, &self.group, group),
                },
                members: members
                    .iter()
                    .map(|it| MemberRecord::of(it, &self.group))
                    .collect(),
                units: group.units.iter().map(Into::into).collect(),
                ended: ended.collect(),
            })?;
            return Ok(0);
        }
        if self.units {
            units(group, output)?;
        } else {
            output.line(title(&self.group, group))?;
            output.line("")?;
            table(&members, &self.group, output)?;
            unowned(group, output)?;
        }
        note_problems(&all, [&self.group], output);
        Ok(0)
    }
}

fn title(name: &str, group: &ObservedGroup) -> String {
    let kind = match (group.kind, group.shards) {
        (_, Some(shards)) => format!("{shards} shards"),
        (Some(_), None) => "named units".into(),
        (None, None) => "no record that can be understood".into(),
    };
    let mut title = format!("group {name}: {kind}, generation {}", group.generation);
    if group.making {
        title.push_str(", new: nobody owns a unit yet");
    }
    if group.unclosed > 0 {
        let unclosed = format!(
            ", {} units of earlier generations are not closed yet",
            group.unclosed
        );
        title.push_str(&unclosed);
    }
    if group.prepared > 0 {
        let prepared = format!(
            "\n{} units of generation {} exist: another number of shards is prepared, or that was cut off",
            group.prepared,
            group.generation + 1
        );
        title.push_str(&prepared);
    }
    title
}

fn table(members: &[Member<'_>], group: &str, output: Output) -> std::io::Result<()> {
    let none = || "–".to_owned();
    let rows = members.iter().map(|it| {
        let cordoned = if it.seen.cordoned { ", cordoned" } else { "" };
        let load = it.seen.groups.get(group).filter(|load| **load > 0);
        let zone = it.seen.zone.as_deref();
        vec![
            Cell::new(format!("{}{cordoned}", output.name(&it.name()))),
            coloured(it.state()),
            Cell::new(it.units.len()),
            Cell::new(load.map_or_else(none, u64::to_string)),
            Cell::new(zone.map_or_else(none, |zone| output.name(zone))),
            Cell::new(it.seen.ttl.map_or_else(none, lasted)),
            Cell::new(it.epoch),
            Cell::new(it.seen.incarnation.map_or_else(none, |it| it.to_string())),
            Cell::new(output.name(&ranges(&it.units))),
        ]
    });
    MEMBERS.show(rows, output)
}

/// The units without an owner, by why that is so.
fn unowned(group: &ObservedGroup, output: Output) -> std::io::Result<()> {
    let mut is_first = true;
    for &standing in UnitStanding::ALL {
        let these = group.units.iter().filter(|unit| unit.standing == standing);
        let units: Vec<_> = these.map(|unit| unit.unit.as_str()).collect();
        let count = group.count(standing);
        if standing == UnitStanding::Owned || count == 0 {
            continue;
        }
        if std::mem::take(&mut is_first) {
            output.line("\nwithout an owner")?;
        }
        let shown = listed(&units, count, shown(output));
        output.line(format!("  {:<14} {count:>5}  {shown}", standing.as_str()))?;
    }
    if !group.surplus.is_empty() {
        let surplus: Vec<_> = group.surplus.iter().map(String::as_str).collect();
        let shown = listed(&surplus, surplus.len(), shown(output));
        output.line(format!("\nkeys of no unit: {shown}"))?;
    }
    Ok(())
}

fn units(group: &ObservedGroup, output: Output) -> std::io::Result<()> {
    let none = || "–".to_owned();
    let rows = group.units.iter().map(|unit: &ObservedUnit| {
        let token = unit.fencing_token.map(|it| output.token(it));
        let is_owned = owner(unit).is_some();
        let owner = unit.instance_id.as_deref().map(|id| output.name(id));
        vec![
            Cell::new(&unit.unit),
            Cell::new(unit.standing).fg(if is_owned { Color::Green } else { Color::Red }),
            Cell::new(owner.unwrap_or_else(none)),
            Cell::new(token.unwrap_or_else(none)),
            Cell::new(unit.owner.clone().unwrap_or_else(none)),
        ]
    });
    UNITS.show(rows, output)
}

/// Of lists of units so many characters are shown.
const fn shown(output: Output) -> usize {
    if output.is_wide() { usize::MAX } else { SHOWN }
}
