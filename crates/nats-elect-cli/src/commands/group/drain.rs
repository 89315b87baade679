//! `group drain`: has all units leave an instance.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use nats_elect::admin::{AdminClient, Instance};
use serde_json::json;

use crate::cli::{Shared, duration};
use crate::commands::step_down::progress;
use crate::exit::{Code, Failure, Outcome};
use crate::operating::operating;
use crate::operating::orders::{Order, Request, failure_of};
use crate::output::Output;
use crate::text::lasted;

/// The pause between two questions how many units are left.
const PAUSE: Duration = Duration::from_millis(500);

const MORE: &str = "\
The command does what `cordon --instance` does, and then waits for the units: the instance hands its
roles over, too, takes no new term, and takes no unit until it is resumed. Units leave in waves, each
to where it is to stay.

A unit stays if no other instance may take it: `nats-elect group plan` says so.

Exit codes:
  0  the instance owns no unit, and leads none of its roles
  1  no instance answers, and JetStream is off
  3  there is no such instance, or it ended before it owned nothing
  4  refused: the instance is stopping, or a permission is missing
  5  it still owns units after --timeout, or a role could not be freed; the instance stays cordoned

Examples:
  nats-elect group drain node-1
  nats-elect group drain node-1 --timeout 10m && systemctl restart worker
  nats-elect resume --instance node-1                  end the drain";

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
    instance: String,

    /// How long to wait at most until the units have left
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    timeout: Duration,
}

impl Drain {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let draining = async |admin: AdminClient| self.drain(&admin, shared, output).await;
        operating(&shared.config()?, draining).await
    }

    async fn drain(&self, admin: &AdminClient, shared: &Shared, output: Output) -> Outcome {
        let patience = shared.patience();
        let found = admin.instance(&self.instance, patience).await;
        let instance = found.map_err(|error| failure_of(&error))?;
        let request = Request::new(Order::Cordon, Vec::new())?;
        // The units leave while the roles do.
        let (ordered, left) = tokio::join!(
            request.give(admin, instance.clone(), patience),
            self.left(admin, &instance, output)
        );
        if let Some(failure) = ordered.failure() {
            return Err(failure);
        }
        let left = left?;
        if output.is_data() {
            let mut value = ordered.json();
            value["units_left"] = json!(left);
            output.data(&value)?;
        } else {
            for line in request.words(&ordered) {
                output.line(line)?;
            }
            if left.is_empty() {
                output.line(format!("{instance} owns no unit"))?;
            }
        }
        if !left.is_empty() {
            let left: Vec<_> = left
                .iter()
                .map(|(group, units)| format!("{units} of {group}"))
                .collect();
            let what = format!(
                "{instance} still owns units after {}: {}",
                lasted(self.timeout),
                left.join(", ")
            );
            return Err(Failure::new(Code::Unreachable, what)
                .advice("they go on leaving; `nats-elect group plan GROUP` says what keeps them"));
        }
        Ok(ordered.shortfall().map_or(0, |code| code as u8))
    }

    /// Waits until the instance owns no unit. Returns how many are left of each group.
    async fn left(
        &self,
        admin: &AdminClient,
        instance: &Instance,
        output: Output,
    ) -> Result<BTreeMap<String, usize>, Failure> {
        let mut over = pin!(tokio::time::sleep(self.timeout));
        let (mut told, mut was_empty) = (None, false);
        loop {
            let report = admin.status(instance).await;
            let report = report.map_err(|error| failure_of(&error))?;
            let takes_units = report.groups.values().any(|it| it.takes_units);
            let groups = report.groups.into_iter();
            let left: BTreeMap<_, _> = groups
                .map(|(name, it)| (name, it.units))
                .filter(|(_, units)| *units > 0)
                .collect();
            // The order may not have come yet, or a last unit may be on its way there.
            let is_empty = left.is_empty() && !takes_units;
            if is_empty && was_empty || over.is_elapsed() {
                return Ok(left);
            }
            was_empty = is_empty;
            let units: usize = left.values().sum();
            if told.replace(units) != Some(units) {
                progress(output, &format!("{units} units are left"));
            }
            tokio::select! {
                () = &mut over => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}
