//! `group drain`: has all units leave an instance.

use std::time::Duration;

use clap::Args;
use nats_elect::admin::AdminClient;

use super::operate;
use crate::cli::{Shared, duration};
use crate::exit::Outcome;
use crate::names;
use crate::operating::drain::Request;
use crate::output::Output;
use crate::progress::Wait;

const MORE: &str = "\
The command does what `cordon` does, and then waits for the units: the instance hands its
roles over, too, takes no new term, and takes no unit until it is resumed. Units leave in waves, each
to where it is to stay.

A unit stays if no other instance may take it: `nats-elect group plan` says so. A warning on stderr
says as soon as that is known if no other instance that answers takes units of a group.

Exit codes:
  0  the instance owns no unit, and leads none of its roles
  1  no instance answers, and JetStream is off
  2  several processes have that id: name one by its incarnation
  3  there is no such instance, or it ended before it owned nothing
  4  refused: the instance is stopping, or a permission is missing
  5  it still owns units after --wait-timeout, or a role could not be freed; the instance stays cordoned

Examples:
  nats-elect group drain node-1
  nats-elect group drain node-1 --wait-timeout 10m && systemctl restart worker
  nats-elect resume node-1                             end the drain";

/// Have all units leave an instance, and its roles as well, and wait for that
///
/// Use it before maintenance of an instance that goes on running. An instance that is stopped hands
/// everything over by itself.
///
/// The process keeps the order in memory: an instance that restarts is not cordoned.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Drain {
    /// The instance: its id, or its incarnation if several processes have that id
    #[arg(value_parser = names::instance)]
    instance: String,

    /// How long to wait at most until the units have left
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    wait_timeout: Duration,
}

impl Drain {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let request = Request {
            instance: self.instance,
            timeout: self.wait_timeout,
        };
        let draining = async |admin: AdminClient| {
            let wait = Wait::new(output);
            let tell = |what: &str| wait.tell(what);
            let warn = |what: &str| output.warning(what);
            let done = request
                .carry_out(&admin, shared.patience(), tell, warn)
                .await?;
            if output.is_data() {
                output.data(&done.json())?;
            } else {
                for line in done.words() {
                    output.line(line)?;
                }
            }
            match done.failure() {
                Some(failure) => Err(failure),
                None => Ok(done.shortfall().map_or(0, |code| code as u8)),
            }
        };
        operate(shared, draining).await
    }
}
