//! `group move`: gives a unit to an instance.

use clap::Args;
use nats_elect::admin::AdminClient;

use super::operate;
use crate::cli::Shared;
use crate::exit::Outcome;
use crate::names;
use crate::operating::unit_move::Request;
use crate::output::Output;
use crate::progress::progress;

const MORE: &str = "\
The unit stays there until something else moves it: the instance leaves or dies, or the group's
members balance their load again. A move that the group's policy would undo at once is refused. With
the default policy that is a move that takes an instance out of the band of 10 % around its share, and
one against labels, `max_units`, zones or `apart`, or to where the unit keeps failing.

To place a unit for good, change the program's settings: its weight, the units from which it is to
be apart, or the policy.

Exit codes:
  0  the instance owns the unit
  1  no instance answers, and JetStream is off
  2  several processes have that id: name one by its incarnation
  3  there is no such instance or unit, or the instance takes no part in the group
  4  refused, and nothing was done: the instance takes no units, the policy would undo the move, the
     unit can't have an owner now, the group's record is missing or not understood, or a permission is
     missing
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
    #[arg(value_parser = names::group)]
    group: String,

    /// The unit: of a shard, its number
    #[arg(value_parser = names::unit)]
    unit: String,

    /// The instance: its id, or its incarnation if several processes have that id
    #[arg(value_parser = names::instance)]
    instance: String,
}

impl Move {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let request = Request {
            group: self.group,
            unit: self.unit,
            to: self.instance,
        };
        let moving = async |admin: AdminClient| {
            let tell = |what: &str| progress(output, what);
            let done = request.carry_out(&admin, shared.patience(), tell).await?;
            if output.is_data() {
                output.data(&done.json())?;
            } else {
                output.line(done.words())?;
            }
            Ok(0)
        };
        operate(shared, moving).await
    }
}
