//! `group ls`: the groups, and how many of their units have an owner.

use clap::Args;
use comfy_table::{Cell, Color};
use nats_elect::{ObservedGroup, UnitKind};

use super::{note_problems, read};
use crate::columns::Layout;
use crate::exit::Outcome;
use crate::fleet::{Group, GroupState, Groups, Member};
use crate::options::{Heartbeats, Shared};
use crate::output::Output;

const LAYOUT: Layout = Layout {
    all: "GROUP KIND UNITS OWNED UNCONFIRMED UNOWNED MEMBERS ALIVE EACH GENERATION",
    wide: "GENERATION",
    flexible: "GROUP",
};

const MORE: &str = "\
Columns:
  GROUP        the group
  KIND         sharded   units with numbers
               spread    named units
               unknown   the group has no map that is understood
  UNITS        the number of its units
  OWNED        units of members that sent a heartbeat while this command watched
  UNCONFIRMED  units of members of which no heartbeat came yet: these may be dead
  UNOWNED      the other ones, also of members of which none came for a whole lease
  MEMBERS      instances that take part in the group
  ALIVE        those of them that sent a heartbeat while this command watched
  EACH         the fewest and the most units that a member owns
  GENERATION   1 until the group grows, with --output wide

Exit codes: those of `nats-elect --help`. 0 also if the bucket has no group

Examples:
  nats-elect group ls
  nats-elect group ls --json | jq 'select(.unowned > 0)'";

/// List the groups, and how many of their units have an owner
///
/// The command reads the bucket. It writes nothing and needs no running instance. The record of a
/// member that died a second ago looks like the record of a living one. So the command waits a
/// moment for a heartbeat of each member.
#[derive(Debug, Args)]
#[command(visible_alias = "list", after_long_help = MORE)]
pub struct Ls {
    #[command(flatten)]
    heartbeats: Heartbeats,
}

impl Ls {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let groups = Groups::read(read(shared, self.heartbeats.wait).await?);
        let all = &groups.all;
        if output.is_data() {
            for (name, group) in &all.groups {
                output.data(&Group::of(&groups, name, group))?;
            }
            return Ok(0);
        }
        if all.groups.is_empty() {
            let name = shared.config()?.bucket;
            output.note(&format!("bucket {name:?} has no group"));
            return Ok(0);
        }
        let rows = all.groups.iter();
        let rows = rows.map(|(name, group)| row(name, &groups, group));
        LAYOUT.show(rows, output)?;
        note_problems(all, all.groups.keys(), output);
        Ok(0)
    }
}

fn row(name: &str, groups: &Groups, group: &ObservedGroup) -> Vec<Cell> {
    let members = Member::all(group);
    let it = GroupState::of(groups, group);
    let alive = members.iter().filter(|it| it.seen.confirmed).count();
    let counts = members.iter().map(|it| it.units.len());
    let each = match (counts.clone().min(), counts.max()) {
        (Some(least), Some(most)) if least == most => most.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "–".to_owned(),
    };
    let color = |is_well: bool| if is_well { Color::Green } else { Color::Red };
    let lacks = |units: usize| Cell::new(units).fg(color(units == 0));
    vec![
        Cell::new(name),
        Cell::new(group.kind.map_or("unknown", UnitKind::as_str)),
        Cell::new(it.units),
        Cell::new(it.units - it.unconfirmed - it.unowned),
        lacks(it.unconfirmed),
        lacks(it.unowned),
        Cell::new(members.len()),
        Cell::new(alive).fg(color(alive == members.len())),
        Cell::new(each),
        Cell::new(group.generation),
    ]
}
