//! `group move`: gives a unit to an instance.

use clap::Args;
use nats_elect::admin::{AdminClient, Instance, ProblemCode};
use nats_elect::{FencingToken, GroupName};
use serde_json::json;

use crate::cli::Shared;
use crate::commands::step_down::progress;
use crate::exit::{Failure, Outcome};
use crate::operating::operating;
use crate::operating::orders::failure_of;
use crate::output::Output;

const MORE: &str = "\
The unit stays there until something else moves it: the instance leaves or dies, or the group's
members balance their load again. A move that the group's policy would undo at once is refused. With
the default policy that is a move that takes an instance out of the band of 10 % around its share.

To place a unit for good, change the program's settings: its weight, the units from which it is to
be apart, or the policy.

Exit codes:
  0  the instance owns the unit
  1  no instance answers, and JetStream is off
  3  there is no such instance or unit, or the instance takes no part in the group
  4  refused, and nothing was done: the instance takes no units, the policy would undo the move, or a
     permission is missing
  5  the move was not seen in time; it may still come about

Examples:
  nats-elect group move partitions 17 node-2
  nats-elect group move control scheduler node-2 --json";

/// Move a unit of a group to an instance
///
/// The command asks the instance to have the unit given to it, and waits until it owns it. The
/// unit's present owner ends its handler first, which may take its stop budget.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Move {
    /// The group
    group: String,

    /// The unit: of a shard, its number
    unit: String,

    /// The instance: its id, or its incarnation if several processes have that id
    instance: String,
}

impl Move {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        GroupName::new(&self.group).map_err(|error| Failure::usage(error.to_string()))?;
        let moving = async |admin: AdminClient| {
            let found = admin.instance(&self.instance, shared.patience()).await;
            let instance = found.map_err(|error| failure_of(&error))?;
            progress(output, "waiting until the present owner gives it away");
            let taken = admin.take_unit(&instance, &self.group, &self.unit).await;
            let taken = match taken {
                Ok(fence) => Some(fence),
                Err(error) if error.refusal() == Some(ProblemCode::AlreadyThere) => None,
                Err(error) => return Err(Failure::from(&error).advice(advice(error.refusal()))),
            };
            self.tell(&instance, taken, output)
        };
        operating(&shared.config()?, moving).await
    }

    fn tell(&self, instance: &Instance, taken: Option<FencingToken>, output: Output) -> Outcome {
        let (group, unit) = (&self.group, &self.unit);
        if output.is_data() {
            output.data(&json!({
                "group": group,
                "unit": unit,
                "instance_id": instance.instance_id,
                "incarnation": instance.incarnation,
                "moved": taken.is_some(),
                "fencing_token": taken,
            }))?;
            return Ok(0);
        }
        output.line(match taken {
            Some(fence) => format!("{instance} owns unit {unit} of {group} now (token {fence})"),
            None => format!("{instance} owns unit {unit} of {group} already"),
        })?;
        Ok(0)
    }
}

const fn advice(refusal: Option<ProblemCode>) -> &'static str {
    match refusal {
        Some(ProblemCode::UnknownUnit) => "`nats-elect group show GROUP --units` lists the units",
        Some(ProblemCode::TakenBack) => {
            "give the unit a weight, or the policy a wider band, in the program's settings"
        }
        Some(ProblemCode::TakesNone) => "`nats-elect resume` ends a cordon",
        Some(ProblemCode::UnknownGroup) => "`nats-elect group show GROUP` lists its members",
        _ => "`nats-elect group explain GROUP UNIT` shows who owns it",
    }
}
