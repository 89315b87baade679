//! `group explain`: why a unit is where it is.

use std::time::SystemTime;

use clap::Args;
use nats_elect::admin::{AdminClient, Instance};
use nats_elect::{ObservedGroup, ObservedMember, ObservedUnit, UnitExplanation};
use serde::Serialize;

use super::asking::ask;
use super::reasons;
use super::{find, read};
use crate::exit::{Failure, Outcome};
use crate::fleet::{Facts, Time, Unit, state};
use crate::instances::operating;
use crate::options::{Heartbeats, Shared};
use crate::output::{Output, SHOWN};
use crate::record::Written;
use crate::text::{self, ago, cut, lasted, stamp, wall_clock};

/// The same for zones.
const ZONE: usize = 24;

const MORE: &str = "\
From the bucket the command shows:
  the owner that the unit's record names, and when it was written, by the server's clock
  the fencing token of the owner's term
  the owner's lease, and whether a heartbeat came while this command watched
  what the unit waits for, if nobody owns it

It also asks the members, and shows what the one that plans for the group says:
  what the plan does with the unit: whether it stays, where it goes and why, or why nobody may take it
  of each member its load with the unit, in percent of its share, and what speaks against it

If no member answers, or these credentials may not ask, the command says so, and shows the rest. It
does not ask members of which no heartbeat came; so `--wait 0s` reads the bucket alone.

Whether the owner's handler runs, only the owner knows: see its log, and `nats-elect candidates`.

Exit codes: those of `nats-elect --help`. 0 also if nobody owns the unit

Examples:
  nats-elect group explain partitions 17
  nats-elect group explain control scheduler --json | jq .waits_for
  nats-elect group explain partitions 17 --json | jq '.plan.choices[] | select(.refusal == null)'";

/// Explain why a unit of a group is where it is
///
/// The command reads the bucket, waits a moment for a heartbeat of each member, and asks them.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Explain {
    /// The group
    #[arg(value_parser = crate::names::group)]
    group: String,

    /// The unit: of a shard, its number
    #[arg(value_parser = crate::names::unit)]
    unit: String,

    #[command(flatten)]
    heartbeats: Heartbeats,
}

/// The unit for programs.
#[derive(Serialize)]
struct Explained<'a> {
    #[serde(flatten)]
    unit: Unit,
    written_at: Option<Time>,
    plan: Option<&'a UnitExplanation>,
}

impl Explain {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let all = read(shared, self.heartbeats.wait).await?;
        let group = find(&all, &self.group)?;
        let unit = group.unit(&self.unit).ok_or_else(|| {
            Failure::not_found(format!(
                "group {:?} has no unit {:?}",
                self.group, self.unit
            ))
            .advice("`nats-elect group show GROUP --units` lists them")
        })?;
        let mut facts = Facts {
            all: &all,
            name: &self.group,
            group,
            unit,
            planned: None,
        };
        let written = self.written(shared, group, unit).await?;
        let mut members = all.members_of(&self.group);
        let asked = if members.any(|(_, it)| it.confirmed) {
            self.ask(shared).await
        } else {
            Ok(None)
        };
        if let Err(failure) = &asked {
            output.note(&format!(
                "what the members plan is not known: {}",
                failure.what
            ));
            failure.advice.iter().for_each(|it| output.note(it));
        }
        facts.planned = asked.ok().flatten();
        if output.is_data() {
            output.data(&Explained {
                unit: facts.unit(),
                written_at: written.map(Into::into),
                plan: facts.planned.as_ref(),
            })?;
        } else {
            let planned = facts.planned.iter().flat_map(reasons::lines);
            for line in lines(&facts, written).into_iter().chain(planned) {
                output.line(line)?;
            }
        }
        Ok(0)
    }

    /// Asks the members why the unit is where it is.
    async fn ask(&self, shared: &Shared) -> Result<Option<UnitExplanation>, Failure> {
        let asking = async |admin: AdminClient| {
            let question =
                async |it: &Instance| admin.explain_unit(it, &self.group, &self.unit).await;
            ask(&admin, shared, question, |it| it.is_planners).await
        };
        operating(&shared.config()?, shared.whose(), asking).await
    }

    /// When the record was written that was read, if it still stands there.
    async fn written(
        &self,
        shared: &Shared,
        group: &ObservedGroup,
        unit: &ObservedUnit,
    ) -> Result<Option<SystemTime>, Failure> {
        let key = format!("_group.u.{}.{}.{}", self.group, group.generation, self.unit);
        let read = async |bucket| Written::read(&bucket, &key).await;
        let written = shared.in_bucket(read).await?;
        let sequence = unit.fencing_token.map(|token| token.sequence);
        let written = written.filter(|it| Some(it.revision) == sequence);
        Ok(written.map(|it| it.time))
    }
}

fn lines(facts: &Facts<'_>, written: Option<SystemTime>) -> Vec<String> {
    let unit = facts.unit;
    let mut lines = vec![format!("unit {} of group {}", unit.unit, facts.name)];
    let mut row = |name: &str, value: String| lines.push(text::row(name, &value));
    row("state", unit.standing.to_string());
    if let Some(epoch) = &unit.owner {
        let id = unit.instance_id.as_deref().unwrap_or("not known");
        let id = cut(id, SHOWN);
        row("owner", format!("{id} (epoch {epoch})"));
    }
    if let Some(token) = unit.fencing_token {
        row("fencing token", token.to_string());
    }
    if let Some(written) = written {
        let since = wall_clock().duration_since(written).unwrap_or_default();
        row("written", format!("{} ({})", stamp(written), ago(since)));
    }
    if let Some(member) = facts.owner() {
        row("owner's state", alive(member));
        let here = facts.units_of_owner().len();
        let cordoned = if member.cordoned { ", cordoned" } else { "" };
        let zone = member
            .zone
            .as_ref()
            .map(|zone| format!(", zone {}", cut(zone, ZONE)));
        row(
            "owner has",
            format!(
                "{here} units of this group, {} in all{}{cordoned}",
                member.units,
                zone.unwrap_or_default()
            ),
        );
    }
    match facts.waits_for() {
        Some((what, then)) => {
            row("waits for", what);
            row("then", then.into());
        }
        None => row("waits for", "nothing".into()),
    }
    lines
}

fn alive(member: &ObservedMember) -> String {
    let lease = member.ttl.map_or_else(
        || "its lease is not known".to_owned(),
        |ttl| format!("lease {}", lasted(ttl)),
    );
    let beat = if member.confirmed {
        format!("last heartbeat {}", ago(member.age))
    } else {
        format!("no heartbeat for {}", lasted(member.age))
    };
    format!("{}: {beat}, {lease}", state(member))
}
