//! `group ls`: the groups, and how many of their units have an owner.

use clap::Args;
use comfy_table::{Cell, Color};
use nats_elect::{ObservedGroup, UnitKind};

use super::{note_problems, read};
use crate::columns::Layout;
use crate::exit::Outcome;
use crate::fleet::{Group, Member, owned};
use crate::options::{Heartbeats, Shared};
use crate::output::Output;

const LAYOUT: Layout = Layout {
    all: "GROUP KIND UNITS OWNED UNOWNED MEMBERS ALIVE EACH GENERATION",
    wide: "GENERATION",
    flexible: "GROUP",
};

const MORE: &str = "\
Columns:
  GROUP       the group
  KIND        sharded   units with numbers
              spread    named units
              unknown   the group has no map that is understood
  UNITS       the number of its units
  OWNED       units that the group's map gives to a member
  UNOWNED     the other ones: `group show` says of each why
  MEMBERS     instances that take part in the group
  ALIVE       those of them that sent a heartbeat while this command watched
  EACH        the fewest and the most units that a member owns
  GENERATION  1 until the group grows, with --output wide

Exit codes: those of `nats-elect --help`. 0 also if the bucket has no group

Examples:
  nats-elect group ls
  nats-elect group ls --json | jq 'select(.owned < .unit_count)'";

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
        let all = read(shared, self.heartbeats.wait).await?;
        if output.is_data() {
            for (name, group) in &all.groups {
                output.data(&Group::of(&all, name, group))?;
            }
            return Ok(0);
        }
        if all.groups.is_empty() {
            let name = shared.config()?.bucket;
            output.note(&format!("bucket {name:?} has no group"));
            return Ok(0);
        }
        let rows = all.groups.iter();
        LAYOUT.show(rows.map(|(name, group)| row(name, group)), output)?;
        note_problems(&all, all.groups.keys(), output);
        Ok(0)
    }
}

fn row(name: &str, group: &ObservedGroup) -> Vec<Cell> {
    let members = Member::all(group);
    let (units, owned) = (group.unit_count(), owned(group));
    let alive = members.iter().filter(|it| it.seen.confirmed).count();
    let counts = members.iter().map(|it| it.units.len());
    let each = match (counts.clone().min(), counts.max()) {
        (Some(least), Some(most)) if least == most => most.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "–".to_owned(),
    };
    let color = |is_well: bool| if is_well { Color::Green } else { Color::Red };
    vec![
        Cell::new(name),
        Cell::new(group.kind.map_or("unknown", UnitKind::as_str)),
        Cell::new(units),
        Cell::new(owned),
        Cell::new(units - owned).fg(color(units == owned)),
        Cell::new(members.len()),
        Cell::new(alive).fg(color(alive == members.len())),
        Cell::new(each),
        Cell::new(group.generation),
    ]
}
