//! `group drain`: has all units leave an instance.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use nats_elect::InstanceId;
use nats_elect::admin::{AdminClient, GroupReport, Instance, InstanceReport};
use serde_json::json;

use crate::commands::orders::{Order, Request, failure_of};
use crate::exit::{Failure, Outcome};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::progress::Wait;
use crate::text::{joined, lasted};

/// The pause between two questions how many units are left.
const PAUSE: Duration = Duration::from_millis(500);

/// How often in a row an instance may seem to be gone, for ten seconds. It may be connecting again.
const MOST_FAILURES: u32 = 20;

const MORE: &str = "\
The command does what `cordon` does, and then waits for the units: the instance hands its roles
over, too, takes no new term, and takes no unit until it is resumed. It ends when the instance owns
no unit, and no handler of one runs there any more.

A unit stays if no other instance may take it: `nats-elect group explain GROUP UNIT` says so.

Exit codes: those of `nats-elect --help`. 0 if the instance owns no unit, and leads none of its
roles. 2 if several processes have that id. 3 also if it ended before it owned nothing. 5 if it
still owns units after --wait-timeout, or a role could not be freed; the instance stays cordoned

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
    instance: InstanceId,

    /// How long to wait at most until the units have left
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "5m")]
    wait_timeout: Duration,
}

/// What an instance still has, by group, without zeros.
struct Left {
    units_left: BTreeMap<String, usize>,
    /// The handlers that still run of units that it owns no more.
    still_running: BTreeMap<String, usize>,
    /// Why nobody may take one of the units, if that is so.
    stays: Option<String>,
}

impl Left {
    fn of(report: &InstanceReport) -> Self {
        let counts = |count: fn(&GroupReport) -> usize| {
            let counts = report
                .groups
                .iter()
                .map(|(name, it)| (name.clone(), count(it)));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        Self {
            units_left: counts(|it| it.units),
            still_running: counts(|it| it.still_running),
            stays: None,
        }
    }

    /// Asks the instance whether anybody may take a unit.
    async fn ask(&mut self, admin: &AdminClient, instance: &Instance) -> Option<()> {
        let group = self.units_left.keys().next()?;
        let plan = admin.group_plan(instance, group).await.ok()?;
        let it = plan.into_iter().find(|it| it.verdict == "unplaced")?;
        let (unit, why) = (it.unit, it.why?);
        self.stays = Some(format!("nobody may take {unit} of {group}: {why}"));
        Some(())
    }

    fn is_empty(&self) -> bool {
        self.units_left.is_empty() && self.still_running.is_empty()
    }

    /// Its units and handlers, in words.
    fn words(&self) -> String {
        let of_group = self.units_left.iter();
        let of_group = joined(of_group.map(|(group, it)| format!("{it} of {group}")));
        let units = (!of_group.is_empty()).then(|| format!("units ({of_group})"));
        let handlers: usize = self.still_running.values().sum();
        let handlers =
            (handlers > 0).then(|| format!("handlers of units that it gave away ({handlers})"));
        let stays = self.stays.as_ref().map(|it| format!("; {it}"));
        joined(units.into_iter().chain(handlers)) + &stays.unwrap_or_default()
    }
}

impl Drain {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let patience = shared.patience();
        let draining = async |admin: AdminClient| self.drain(&admin, patience, output).await;
        shared.operate(draining).await
    }

    /// Cordons the instance, and waits until it owns no unit.
    async fn drain(&self, admin: &AdminClient, patience: Duration, output: Output) -> Outcome {
        let found = admin.instance(self.instance.as_str(), patience).await;
        let instance = &found.map_err(|error| failure_of(&error))?;
        let order = Request::new(Order::Cordon, Vec::new())?;
        let ordering = async {
            let done = order.give(admin, instance.clone(), patience).await;
            done.failure().map_or(Ok(done), Err)
        };
        let wait = Wait::new(output);
        // The units leave while the roles do.
        let (ordered, left) = tokio::try_join!(ordering, self.left(admin, instance, &wait))?;
        let mut words = order.words(&ordered);
        if left.units_left.is_empty() {
            words.push(format!("{instance} owns no unit"));
        }
        let mut told = json!(ordered);
        told["units_left"] = json!(left.units_left);
        told["still_running"] = json!(left.still_running);
        output.tell(&told, words)?;
        self.failure(instance, &left)?;
        Ok(ordered.shortfall().map_or(0, |code| code as u8))
    }

    /// Fails if units are left.
    fn failure(&self, instance: &Instance, left: &Left) -> Result<(), Failure> {
        if left.is_empty() {
            return Ok(());
        }
        let (has, after) = (left.words(), lasted(self.wait_timeout));
        let what = format!("after {after} {instance} still has {has}");
        let advice = "units leave when another instance may take them; `nats-elect group explain GROUP UNIT` says what keeps a unit; a \
                      handler that hangs ends with its process alone";
        Err(Failure::unreachable(what).advice(advice))
    }

    /// Waits until the instance owns no unit, and runs no handler of one. Returns what is left.
    async fn left(
        &self,
        admin: &AdminClient,
        instance: &Instance,
        wait: &Wait,
    ) -> Result<Left, Failure> {
        let mut over = pin!(tokio::time::sleep(self.wait_timeout));
        let (mut was_empty, mut failures, mut had) = (false, 0, BTreeMap::new());
        loop {
            match admin.status(instance).await {
                Ok(report) => {
                    failures = 0;
                    let mut left = Left::of(&report);
                    if left.units_left == had {
                        left.ask(admin, instance).await;
                    }
                    had.clone_from(&left.units_left);
                    // The order may not have come yet, or a last unit may be on its way there.
                    let takes_units = report.groups.values().any(|it| it.takes_units);
                    let is_empty = left.is_empty() && !takes_units;
                    if is_empty && was_empty || over.is_elapsed() {
                        return Ok(left);
                    }
                    was_empty = is_empty;
                    if !left.is_empty() {
                        wait.tell(&format!("{instance} still has {}", left.words()));
                    }
                }
                Err(error) => {
                    failures += 1;
                    if failures > MOST_FAILURES || over.is_elapsed() {
                        return Err(failure_of(&error));
                    }
                    was_empty = false;
                }
            }
            tokio::select! {
                () = &mut over => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}
