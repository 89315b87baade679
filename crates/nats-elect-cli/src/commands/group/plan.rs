//! `group plan`: which units should move, and why.

use std::time::Duration;

use clap::Args;
use comfy_table::Cell;
use nats_elect::GroupPlan;
use nats_elect::admin::{AdminClient, Instance};

use super::asking::ask;
use super::read;
use crate::cli::Shared;
use crate::columns::{Columns, Layout};
use crate::exit::{Code, Failure, Outcome};
use crate::operating::operating;
use crate::output::Output;

const LAYOUT: Layout = Layout {
    all: &["UNIT", "FROM", "TO", "WHY", "WHEN"],
    wide: &[],
    flexible: "WHEN",
};

const MORE: &str = "\
Columns:
  UNIT  the unit that moves
  FROM  the instance that gives it away, or – if it has no living owner
  TO    the next owner
  WHY   unowned, owner_died, drain (its owner is cordoned), balance, apart, zones, failing and more:
        docs/groups.md#why-a-unit-moves
  WHEN  now, under way, or what the move waits for

The command asks all instances, and shows the plan of the one that plans for the group. A plan
decides nothing: only a unit's owner gives it away.

Exit codes:
  0  success, also if nothing is to move
  1  JetStream is off
  3  no instance that answers takes part in the group
  4  NATS refused the credentials or a permission, an instance has too many requests, or the group's
     record is missing or not understood
  5  NATS or an instance did not answer in time

Examples:
  nats-elect group plan partitions
  nats-elect group plan partitions --json | jq '.unplaced'";

/// Show which units of a group should move now, and why
///
/// Below the moves the command lists the units that nobody may take, with the reason.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Plan {
    /// The group
    group: String,

    #[command(flatten)]
    columns: Columns,
}

impl Plan {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let columns = self.columns.of(LAYOUT, output)?;
        let asking = async |admin: AdminClient| self.ask(&admin, shared).await;
        let plan = operating(&shared.config()?, asking).await?;
        if output.is_data() {
            output.data(&plan)?;
            return Ok(0);
        }
        for line in head(&plan) {
            output.note(&line);
        }
        let rows = rows(&plan);
        if rows.is_empty() {
            output.note("nothing is to move");
        } else {
            columns.show(rows, output)?;
        }
        for it in &plan.unplaced {
            let stays = it.kept_by.as_ref().map_or_else(
                || "has no owner".to_owned(),
                |owner| format!("stays with {owner}"),
            );
            output.note(&format!("unit {} {stays}: {}", it.unit, it.why));
        }
        if plan.omitted > 0 {
            output.note(&format!("{} more are not shown", plan.omitted));
        }
        Ok(0)
    }

    /// Asks everyone, and takes the planner's plan if it is among the answers.
    async fn ask(&self, admin: &AdminClient, shared: &Shared) -> Result<GroupPlan, Failure> {
        let question = async |it: &Instance| admin.group_plan(it, &self.group).await;
        let plan = ask(admin, shared, question, |plan| plan.is_planners).await;
        let plan = match plan {
            Err(failure) if failure.code == Code::Refused => {
                let trouble = self.trouble_of_record(shared).await;
                return Err(trouble.unwrap_or(failure));
            }
            plan => plan?,
        };
        plan.ok_or_else(|| {
            let group = &self.group;
            Failure::not_found(format!(
                "no instance that answers takes part in a group {group:?}"
            ))
            .advice("`nats-elect group ls` lists the groups of the bucket")
        })
    }

    /// Whether members can't plan because of the group's record, as far as this user may read it.
    async fn trouble_of_record(&self, shared: &Shared) -> Option<Failure> {
        let reading = Box::pin(read(shared, Duration::ZERO));
        let read = tokio::time::timeout(shared.patience(), reading).await;
        let all = read.ok()?.ok()?;
        let group = all.groups.get(&self.group);
        let what = format!(
            "the record of group {:?} is missing or not understood: nobody plans for it, or takes a unit",
            self.group
        );
        let trouble = group.is_none_or(|it| it.kind.is_none());
        trouble.then(|| {
            Failure::new(Code::Refused, what).advice(
                "docs/runbook.md says how to write it again: \"Write a group's record again\"",
            )
        })
    }
}

fn head(plan: &GroupPlan) -> Vec<String> {
    let planner = plan.planner.as_deref().unwrap_or("nobody");
    let mut lines = vec![format!("group {} is planned for by {planner}", plan.group)];
    if !plan.is_planners {
        lines.push(
            "that one did not answer: this is another member's plan, and may show moves that wait"
                .into(),
        );
    }
    let (before, after) = (plan.before, plan.after);
    lines.push(format!(
        "load of members: {} to {} of their shares, then {} to {}",
        share(before.least),
        share(before.most),
        share(after.least),
        share(after.most)
    ));
    lines
}

/// Thousandths as percent.
pub fn share(thousandths: u64) -> String {
    format!("{}%", thousandths / 10)
}

fn rows(plan: &GroupPlan) -> Vec<Vec<Cell>> {
    let under_way = plan.under_way.iter().map(|it| (it, "under way".to_owned()));
    let now = plan.moves.iter().map(|it| (it, "now".to_owned()));
    let held = plan.held.iter().map(|it| {
        let waits_for = it.waits_for.as_deref().unwrap_or("something");
        (it, format!("waits for {waits_for}"))
    });
    let all = under_way.chain(now).chain(held);
    all.map(|(it, when)| {
        vec![
            Cell::new(&it.unit),
            Cell::new(it.from.as_deref().unwrap_or("–")),
            Cell::new(&it.to),
            Cell::new(it.cause.as_deref().unwrap_or("–")),
            Cell::new(when),
        ]
    })
    .collect()
}
