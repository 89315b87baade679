//! `group move`: gives a unit to an instance.

use clap::Args;
use nats_elect::admin::{AdminClient, ProblemCode};
use nats_elect::{GroupName, InstanceId, UnitName};
use serde_json::json;

use crate::commands::orders::failure_of;
use crate::exit::{Failure, Outcome};
use crate::options::Shared;
use crate::output::Output;
use crate::progress::progress;

const MORE: &str = "\
The unit stays there until something else moves it: the instance leaves or dies, or the group's
members balance their load again. If the instance has more than its share then, another unit moves in
return. A move that the group's plan would undo at once is refused: one against labels, `max_units`,
zones or `apart`, to where the unit keeps failing, or of a unit that nothing outweighs.

To place a unit for good, change the program's settings: its weight, the units from which it is to
be apart, or the labels that it requires.

Exit codes: those of `nats-elect --help`. 0 if the instance owns the unit. 2 if several processes
have that id. 4 if nothing was done: the instance takes no units, the plan would undo the move,
the unit can't have another owner now, or the group has no map that is understood. 5 if the move
was not seen in time; it may still come about

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
    group: GroupName,

    /// The unit: of a shard, its number
    unit: UnitName,

    /// The instance: its id, or its incarnation if several processes have that id
    instance: InstanceId,
}

impl Move {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let moving = async |admin: AdminClient| self.carry_out(&admin, shared, output).await;
        shared.operate(moving).await
    }

    /// Asks the instance, and waits until it owns the unit.
    async fn carry_out(&self, admin: &AdminClient, shared: &Shared, output: Output) -> Outcome {
        let (group, unit) = (self.group.as_str(), self.unit.as_str());
        let found = admin
            .instance(self.instance.as_str(), shared.patience())
            .await;
        let instance = &found.map_err(|error| failure_of(&error))?;
        progress(output, "waiting until the present owner gives it away");
        let fencing_token = match admin.take_unit(instance, group, unit).await {
            Ok(fence) => Some(fence),
            Err(error) if error.refusal() == Some(ProblemCode::AlreadyThere) => None,
            Err(error) => return Err(Failure::from(&error).advice(advice(error.refusal()))),
        };
        let words = match fencing_token {
            Some(token) => format!("{instance} owns unit {unit} of {group} now (token {token})"),
            None => format!("{instance} owns unit {unit} of {group} already"),
        };
        let (instance_id, incarnation) = (&instance.instance_id, instance.incarnation);
        let told = json!({
            "group": group, "unit": unit, "instance_id": instance_id, "incarnation": incarnation,
            "moved": fencing_token.is_some(), "fencing_token": fencing_token,
        });
        output.tell(&told, [words])?;
        Ok(0)
    }
}

const fn advice(refusal: Option<ProblemCode>) -> &'static str {
    match refusal {
        Some(ProblemCode::UnknownUnit | ProblemCode::UnknownGroup) => {
            "`nats-elect group show GROUP --units` lists the units"
        }
        Some(ProblemCode::TakesNone) => "`nats-elect resume ID` ends a cordon",
        Some(ProblemCode::Busy) => "nothing was done: give the command again in a moment",
        _ => {
            "`nats-elect group explain GROUP UNIT` shows who owns it, what it waits for, and what speaks for and against each instance"
        }
    }
}
