//! Drains: all units leave an instance, and its roles as well.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::future::{Either, select};
use nats_elect::admin::{
    AdminClient, AdminError, GroupReport, Instance, InstanceReport, ProblemCode,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::orders::{self, Order, failure_of};
use super::standby::UNSEEN;
use crate::commands::candidates::asked;
use crate::exit::{Code, Failure};
use crate::text::lasted;

/// The pause between two questions how many units are left.
const PAUSE: Duration = Duration::from_millis(500);

/// How often in a row an instance may seem to be gone, for ten seconds. It may be connecting again.
const MOST_ABSENCES: u32 = 20;

/// What is asked for.
pub struct Request {
    /// The id of the instance, or its incarnation.
    pub instance: String,
    /// How long the units are waited for at most.
    pub timeout: Duration,
}

/// What came of it.
pub struct Done {
    order: orders::Request,
    ordered: orders::Done,
    /// The units that it still owns, by group.
    left: BTreeMap<String, usize>,
    /// The handlers that still run of units that it owns no more, by group.
    still_running: BTreeMap<String, usize>,
    timeout: Duration,
}

/// So many units of each group, and so many handlers.
type Left = (BTreeMap<String, usize>, BTreeMap<String, usize>);

impl Request {
    /// What to know of the instance's units that no other instance could take now.
    async fn warning(&self, admin: &AdminClient, patience: Duration) -> Option<String> {
        // If nobody says how things are, nothing is known to warn of.
        let found = asked(admin, None, patience).await.unwrap_or_default();
        let (these, others): (Vec<_>, Vec<_>) =
            found.iter().partition(|it| self.means(&it.instance));
        let [drained] = &these[..] else {
            return None;
        };
        let drained = drained.report.as_ref().ok()?;
        let has_taker = |group: &String| {
            let mut reports = others.iter().filter_map(|it| it.report.as_ref().ok());
            reports.any(|it| it.groups.get(group).is_some_and(|it| it.takes_units))
        };
        let owned = drained.groups.iter().filter(|(_, it)| it.units > 0);
        let wanting: Vec<_> = owned
            .map(|(name, _)| name)
            .filter(|name| !has_taker(name))
            .map(String::as_str)
            .collect();
        (!wanting.is_empty()).then(|| {
            let wanting = wanting.join(", ");
            format!(
                "no instance that answers could take units over now: {wanting}. They stay until one can; \
                 `resume` ends a cordon; {UNSEEN}"
            )
        })
    }

    fn means(&self, instance: &Instance) -> bool {
        let incarnation = self.instance.parse::<Uuid>().ok();
        instance.instance_id == self.instance || incarnation == Some(instance.incarnation)
    }

    /// Cordons the instance, and waits until it owns no unit. `tell` hears again and again how many
    /// are left. `warn` hears which groups nobody else could take, as soon as that is known.
    pub async fn carry_out(
        &self,
        admin: &AdminClient,
        patience: Duration,
        tell: impl Fn(&str),
        warn: impl FnOnce(&str),
    ) -> Result<Done, Failure> {
        let warning = async {
            if let Some(warning) = self.warning(admin, patience).await {
                warn(&warning);
            }
        };
        // Instances that do not answer hold up nothing.
        let draining = pin!(self.drain(admin, patience, tell));
        match select(draining, pin!(warning)).await {
            Either::Left((done, _)) => done,
            Either::Right(((), draining)) => draining.await,
        }
    }

    async fn drain(
        &self,
        admin: &AdminClient,
        patience: Duration,
        tell: impl Fn(&str),
    ) -> Result<Done, Failure> {
        let found = admin.instance(&self.instance, patience).await;
        let instance = found.map_err(|error| failure_of(&error))?;
        let order = orders::Request::new(Order::Cordon, Vec::new())?;
        let ordering = async {
            let done = order.give(admin, instance.clone(), patience).await;
            done.failure().map_or(Ok(done), Err)
        };
        // The units leave while the roles do.
        let (ordered, (left, still_running)) =
            tokio::try_join!(ordering, self.left(admin, &instance, tell))?;
        Ok(Done {
            order,
            ordered,
            left,
            still_running,
            timeout: self.timeout,
        })
    }

    /// Waits until the instance owns no unit, and runs no handler of one. Returns how many are left of
    /// each group.
    async fn left(
        &self,
        admin: &AdminClient,
        instance: &Instance,
        tell: impl Fn(&str),
    ) -> Result<Left, Failure> {
        let mut over = pin!(tokio::time::sleep(self.timeout));
        let (mut was_empty, mut absences) = (false, 0);
        loop {
            match admin.status(instance).await {
                Ok(report) => {
                    absences = 0;
                    let takes_units = report.groups.values().any(|it| it.takes_units);
                    let left = counts(&report, |it| it.units);
                    let still_running = counts(&report, |it| it.still_running);
                    // The order may not have come yet, or a last unit may be on its way there.
                    let is_empty = left.is_empty() && still_running.is_empty() && !takes_units;
                    if is_empty && was_empty || over.is_elapsed() {
                        return Ok((left, still_running));
                    }
                    was_empty = is_empty;
                    tell(&match (left.values().sum(), still_running.values().sum()) {
                        (0, handlers) if handlers > 0 => still_run(handlers),
                        (units, _) => format!("{units} units are left"),
                    });
                }
                Err(error) => {
                    let is_absent = matches!(error, AdminError::NoSuchInstance(_));
                    absences = if is_absent { absences + 1 } else { 0 };
                    if absences > MOST_ABSENCES || !may_pass(&error) || over.is_elapsed() {
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

/// What an instance reports of each group, without zeros.
fn counts(
    report: &InstanceReport,
    count: impl Fn(&GroupReport) -> usize,
) -> BTreeMap<String, usize> {
    let groups = report.groups.iter();
    let counts = groups.map(|(name, it)| (name.clone(), count(it)));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn still_run(handlers: usize) -> String {
    let run = if handlers == 1 {
        "handler still runs"
    } else {
        "handlers still run"
    };
    format!("{handlers} {run}")
}

/// Whether another question may be answered.
fn may_pass(error: &AdminError) -> bool {
    match error {
        AdminError::Timeout { .. } | AdminError::Unavailable(_) | AdminError::NoSuchInstance(_) => {
            true
        }
        error => error.refusal() == Some(ProblemCode::Busy),
    }
}

impl Done {
    pub fn json(&self) -> Value {
        let mut value = self.ordered.json();
        value["units_left"] = json!(self.left);
        value["still_running"] = json!(self.still_running);
        value
    }

    pub fn words(&self) -> Vec<String> {
        let mut lines = self.order.words(&self.ordered);
        if self.left.is_empty() {
            lines.push(format!("{} owns no unit", self.ordered.instance));
        }
        lines
    }

    /// Why it is no success, if units are left.
    pub fn failure(&self) -> Option<Failure> {
        let handlers: usize = self.still_running.values().sum();
        if self.left.is_empty() && handlers == 0 {
            return None;
        }
        let left: Vec<_> = self
            .left
            .iter()
            .map(|(group, units)| format!("{units} of {group}"))
            .collect();
        let owns = if left.is_empty() {
            "owns no unit".to_owned()
        } else {
            format!("still owns units: {}", left.join(", "))
        };
        let runs =
            (handlers > 0).then(|| format!("; {} of units that it gave away", still_run(handlers)));
        let what = format!(
            "{} {owns}{}, after {}",
            self.ordered.instance,
            runs.unwrap_or_default(),
            lasted(self.timeout)
        );
        let advice = "they go on leaving; `nats-elect group plan GROUP` says what keeps them; a \
                      handler that hangs ends with its process alone";
        Some(Failure::new(Code::Unreachable, what).advice(advice))
    }

    /// Why it is no success, if it is none.
    pub fn shortfall(&self) -> Option<Code> {
        let left = self.failure().map(|failure| failure.code);
        left.or(self.ordered.shortfall())
    }
}
