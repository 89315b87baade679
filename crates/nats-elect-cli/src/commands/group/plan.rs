//! `group plan`: which units should move, and why.

use std::collections::BTreeMap;

use clap::Args;
use comfy_table::Cell;
use nats_elect::GroupPlan;
use nats_elect::admin::{AdminClient, Instance};

use super::asking::{ask, of_another};
use crate::columns::Layout;
use crate::exit::{Code, Failure, Outcome};
use crate::fleet::{listed, order};
use crate::options::Shared;
use crate::output::Output;

const LAYOUT: Layout = Layout {
    all: "UNIT FROM TO WHY WHEN",
    wide: "",
    flexible: "WHEN",
};

/// Of units with the same reason so many characters are listed.
const LISTED: usize = 60;

const MORE: &str = "\
Columns:
  UNIT  the unit that moves
  FROM  the instance that gives it away, or – if it has no living owner
  TO    the next owner
  WHY   unowned, owner_died, drain (its owner is cordoned), balance, apart, zones, failing and more:
        docs/groups.md#why-a-unit-moves; – if it is not known, as of a move by hand that is under way
  WHEN  now, under way, or what the move waits for

The command asks all instances, and shows the plan of the one that plans for the group. A plan
decides nothing: only a unit's owner gives it away.

Exit codes: those of `nats-elect --help`. 0 also if nothing is to move. 3 if no instance that
answers takes part in the group. 4 also if an instance has too many requests, or the group's
record is missing or not understood

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
    #[arg(value_parser = crate::names::group)]
    group: String,
}

impl Plan {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let asking = async |admin: AdminClient| self.ask(&admin, shared).await;
        let plan = shared.operate(asking).await?;
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
            LAYOUT.show(rows, output)?;
        }
        for line in unplaced(&plan) {
            output.note(&line);
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
        let plan = plan.map_err(|failure| match failure.code {
            Code::Refused => failure.advice(
                "if `nats-elect group show` finds no record of the group that can be understood, see docs/runbook.md: \"Write a group's record again\"",
            ),
            _ => failure,
        });
        plan?.ok_or_else(|| {
            let group = &self.group;
            Failure::not_found(format!(
                "no instance that answers takes part in a group {group:?}"
            ))
            .advice("`nats-elect group ls` lists the groups of the bucket")
        })
    }
}

fn head(plan: &GroupPlan) -> Vec<String> {
    let planned = match &plan.planner {
        Some(planner) if plan.is_planners => {
            format!("group {} is planned for by {planner}", plan.group)
        }
        _ => format!("group {}", plan.group),
    };
    let mut lines = vec![planned];
    lines.extend(of_another(plan.planner.as_deref(), plan.is_planners));
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

/// The units that nobody may take, a line for each reason.
fn unplaced(plan: &GroupPlan) -> Vec<String> {
    let mut reasons = BTreeMap::<_, Vec<_>>::new();
    for it in &plan.unplaced {
        let reason = (it.kept_by.as_deref(), it.why.as_str());
        reasons.entry(reason).or_default().push(it.unit.as_str());
    }
    let line = |((kept_by, why), mut units): ((Option<&str>, &str), Vec<&str>)| {
        units.sort_by_key(|it| order(it));
        let units = listed(&units, units.len(), LISTED);
        match kept_by {
            Some(owner) => format!("units kept by {owner}: {units} ({why})"),
            None => format!("units without an owner: {units} ({why})"),
        }
    };
    reasons.into_iter().map(line).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(json: &serde_json::Value) -> GroupPlan {
        let range = serde_json::json!({ "most": 1000, "least": 1000 });
        let mut plan = serde_json::json!({ "group": "g", "before": range, "after": range });
        for (field, value) in json.as_object().expect("fields") {
            plan[field] = value.clone();
        }
        serde_json::from_value(plan).expect("a plan")
    }

    #[test]
    fn nobody_is_blamed_for_no_answer_where_nobody_plans() {
        let lines = head(&plan(&serde_json::json!({})));
        assert!(lines[1].contains("no member takes units"), "{lines:?}");
        assert!(!lines.concat().contains("did not answer"), "{lines:?}");
        let lines = head(&plan(&serde_json::json!({ "planner": "a" })));
        assert!(lines[1].contains("did not answer"), "{lines:?}");
    }

    #[test]
    fn units_with_one_reason_share_a_line_in_their_order() {
        let unplaced = |units: Vec<(String, &str, Option<&str>)>| {
            let units = units.into_iter().map(|(unit, why, kept_by)| {
                serde_json::json!({ "unit": unit, "why": why, "kept_by": kept_by })
            });
            let units: Vec<_> = units.collect();
            super::unplaced(&plan(&serde_json::json!({ "unplaced": units })))
        };
        let why = "no member takes units";
        let mut units: Vec<_> = [10, 2, 1, 7].map(|it| (it.to_string(), why, None)).into();
        units.push(("3".into(), why, Some("a")));
        assert_eq!(
            unplaced(units),
            [
                format!("units without an owner: 1-2,7,10 ({why})"),
                format!("units kept by a: 3 ({why})"),
            ]
        );
        let many = (0..200).map(|it| ((it * 2).to_string(), why, None));
        let lines = unplaced(many.collect());
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains(" … and 178 more ("), "{lines:?}");
    }
}
