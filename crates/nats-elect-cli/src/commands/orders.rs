//! `pause`, `resume`, `cordon`: whether instances stand for election.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, ProblemCode, RoleReport};
use nats_elect::{RoleName, SteppedDown};
use serde_json::{Value, json};

use super::step_down::progress;
use crate::cli::Shared;
use crate::exit::{Code, Failure, Outcome};
use crate::operating::operating;
use crate::output::Output;
use crate::stepped::Stepped;

const CODES: &str = "\
Exit codes:
  0  it is done
  3  there is no such instance, or it has no such role
  4  refused: an instance is stopping, or a permission is missing
  5  no answer in time; with `cordon`: a role could not be freed, and its lease runs out
With several instances it goes on after a failure, and ends with the code of the first one.

Examples:
";

/// Have instances stand for no new term
///
/// An instance that is paused leads on where it leads, and stands for nothing new until it is
/// resumed; to have it hand over what it leads, `cordon` it. Of orders that are given one after the
/// other the last counts.
///
/// An order lives in the process alone: an instance that is started anew stands again.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{CODES}  nats-elect pause --instance node-1\n  nats-elect pause --instance node-1 --role scheduler --role metrics"))]
pub struct Pause {
    #[command(flatten)]
    whom: Whom,
}

/// Have instances stand for election again, after `pause` or `cordon`
///
/// They stand at once, or after a cool-down or a hold-off of `step-down` that still runs: those end
/// by themselves alone.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{CODES}  nats-elect resume --instance node-1\n  nats-elect resume --all-instances"))]
pub struct Resume {
    #[command(flatten)]
    whom: Whom,
}

/// Have instances hand over what they lead, and stand for nothing new: for maintenance
///
/// As `pause`, and each role that the instance leads is wound down and freed, for an instance that
/// is ready to take it if there is one. It waits until that is done, as long as the handlers may
/// take, and tells what became of each role.
///
/// An order lives in the process alone: an instance that is started anew stands again. That suits a
/// restart; before longer work stop it as well, or `resume` it in the end.
#[derive(Debug, Args)]
#[command(after_long_help = format!("{CODES}  nats-elect cordon --instance node-1\n  nats-elect cordon --instance 1c9e5b1e-3d0a-4c5f-9b43-0d6c8b6f8a11\n\nThe last one is meant for one of several processes that have one id: it names its incarnation."))]
pub struct Cordon {
    #[command(flatten)]
    whom: Whom,
}

/// To whom an order is given.
#[derive(Debug, Args)]
struct Whom {
    /// The instance, by its id; or by its incarnation, where several processes have one id
    #[arg(short, long, value_name = "ID")]
    instance: Option<String>,

    /// Every instance of the bucket that answers within 400ms of another: with `pause` nobody takes
    /// over from a leader that fails, with `cordon` nobody leads
    #[arg(long, conflicts_with = "instance")]
    all_instances: bool,

    /// For this role alone; may be repeated [default: all roles, those that are added later among
    /// them]
    #[arg(short, long = "role", value_name = "ROLE")]
    roles: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Pause,
    Resume,
    Cordon,
}

/// What came of an order to one instance.
struct Done {
    instance: Instance,
    stepped: Vec<Stepped>,
    /// What it still leads, where that matters.
    leads: Vec<String>,
    failure: Option<AdminError>,
}

impl Pause {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        self.whom.order(Order::Pause, shared, output).await
    }
}

impl Resume {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        self.whom.order(Order::Resume, shared, output).await
    }
}

impl Cordon {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        self.whom.order(Order::Cordon, shared, output).await
    }
}

impl Whom {
    async fn order(mut self, order: Order, shared: &Shared, output: Output) -> Outcome {
        let mut named = BTreeSet::new();
        self.roles.retain(|role| named.insert(role.clone()));
        for role in &self.roles {
            RoleName::new(role).map_err(|error| Failure::usage(error.to_string()))?;
        }
        if self.instance.is_none() && !self.all_instances {
            return Err(
                Failure::usage("which instances are meant is not said").advice(
                    "name one with --instance; for every single one there is --all-instances",
                ),
            );
        }
        let acting = async |admin: AdminClient| self.act(order, &admin, shared, output).await;
        operating(shared, acting).await
    }

    async fn act(
        &self,
        order: Order,
        admin: &AdminClient,
        shared: &Shared,
        output: Output,
    ) -> Outcome {
        let instances = match &self.instance {
            Some(name) => vec![
                admin
                    .instance(name, shared.patience())
                    .await
                    .map_err(told)?,
            ],
            None => everyone(admin, shared.patience()).await?,
        };
        if instances.is_empty() {
            return Err(Failure::not_found("no instance of the bucket answers")
                .advice("name the bucket with --bucket, and --admin-prefix if the instances have another"));
        }
        if order == Order::Cordon {
            progress(output, "waiting until everything is handed over");
        }
        let given = instances
            .into_iter()
            .map(|it| self.give(order, admin, it, shared));
        let mut done = join_all(given).await;
        if self.all_instances && done.iter().any(|it| it.failure.is_none()) {
            // Not everyone has every role.
            done.retain(|it| it.refusal() != Some(ProblemCode::UnknownRole));
        }
        let mut code = 0;
        for done in done {
            if output.is_json() {
                output.json(&done.json(order))?;
            } else {
                for line in done.words(order, &self.roles) {
                    output.line(line)?;
                }
            }
            let unfreed = done.stepped.iter().any(|it| !it.is_done());
            let failed = match done.failure {
                Some(error) => {
                    let failure = told(error);
                    let failed = failure.code as u8;
                    output.failure(
                        failure.code.word(),
                        &failure.what,
                        failure.advice.as_deref(),
                    );
                    failed
                }
                None if unfreed => Code::Unreachable as u8,
                None => 0,
            };
            code = if code == 0 { failed } else { code };
        }
        Ok(code)
    }

    async fn give(
        &self,
        order: Order,
        admin: &AdminClient,
        instance: Instance,
        shared: &Shared,
    ) -> Done {
        let before = reports(admin, &instance).await;
        let roles: Vec<_> = if self.roles.is_empty() {
            vec![None]
        } else {
            self.roles.iter().map(|role| Some(role.as_str())).collect()
        };
        let asked = roles
            .into_iter()
            .map(|role| give(order, admin, &instance, role));
        let (mut ended, mut failure) = (BTreeMap::new(), None);
        for answer in join_all(asked).await {
            match answer {
                Ok(more) => ended.extend(more),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let waited = ended.into_iter().map(async |(role, ended)| {
            Stepped::of(admin, &role, ended, before.get(&role), shared.patience()).await
        });
        let stepped = join_all(waited).await;
        let is_meant = |role: &String| self.roles.is_empty() || self.roles.contains(role);
        let leads = match order {
            Order::Pause => before
                .into_iter()
                .filter(|(role, it)| it.is_leader && is_meant(role))
                .map(|(role, _)| role)
                .collect(),
            Order::Resume | Order::Cordon => Vec::new(),
        };
        Done {
            instance,
            stepped,
            leads,
            failure,
        }
    }
}

/// Returns the instances that answer one of two searches. An instance that is late among many in
/// the first one may not be late in the second.
pub async fn everyone(admin: &AdminClient, within: Duration) -> Result<Vec<Instance>, AdminError> {
    let mut found = admin.instances(within).await?;
    found.extend(admin.instances(within).await?);
    found.sort();
    found.dedup();
    Ok(found)
}

async fn give(
    order: Order,
    admin: &AdminClient,
    instance: &Instance,
    role: Option<&str>,
) -> Result<BTreeMap<String, SteppedDown>, AdminError> {
    match order {
        Order::Pause => admin.pause(instance, role).await?,
        Order::Resume => admin.resume(instance, role).await?,
        Order::Cordon => return admin.cordon(instance, role).await,
    }
    Ok(BTreeMap::new())
}

/// How its roles were before; nothing if it does not say.
async fn reports(admin: &AdminClient, instance: &Instance) -> BTreeMap<String, RoleReport> {
    admin
        .status(instance)
        .await
        .map(|it| it.roles)
        .unwrap_or_default()
}

fn told(error: AdminError) -> Failure {
    let advice = match &error {
        AdminError::NoSuchInstance(_) => Some("`nats-elect candidates` shows who is there"),
        AdminError::Timeout { .. } => {
            Some("it may have been done all the same: `nats-elect candidates` shows who is paused")
        }
        _ => None,
    };
    let failure = Failure::from(error);
    match advice {
        Some(advice) => failure.advice(advice),
        None => failure,
    }
}

impl Order {
    const fn word(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cordon => "cordon",
        }
    }
}

impl Done {
    fn refusal(&self) -> Option<ProblemCode> {
        self.failure.as_ref().and_then(AdminError::refusal)
    }

    fn words(&self, order: Order, roles: &[String]) -> Vec<String> {
        let name = self.instance.to_string();
        let mut lines: Vec<_> = self.stepped.iter().map(|it| it.words(&name)).collect();
        if self.failure.is_some() {
            return lines;
        }
        let what = match roles {
            [] => "any role".to_owned(),
            roles => roles.join(", "),
        };
        let nothing = if order == Order::Cordon && self.stepped.is_empty() {
            "led nothing of it, and "
        } else {
            ""
        };
        lines.push(match (order, roles) {
            (Order::Resume, []) => format!("{name} stands for all its roles again"),
            (Order::Resume, _) => format!("{name} stands for {what} again"),
            (Order::Pause | Order::Cordon, _) => {
                format!("{name} {nothing}stands for no new term of {what} until it is resumed")
            }
        });
        if !self.leads.is_empty() {
            lines.push(format!(
                "{name} still leads {}: `cordon` has it hand over",
                self.leads.join(", ")
            ));
        }
        lines
    }

    fn json(&self, order: Order) -> Value {
        let ended: BTreeMap<_, _> = self
            .stepped
            .iter()
            .map(|it| (&it.role, it.json()))
            .collect();
        json!({
            "instance_id": self.instance.instance_id,
            "incarnation": self.instance.incarnation,
            "order": order.word(),
            "done": self.failure.is_none(),
            "ended": ended,
            "still_leads": self.leads,
            "error": self.failure.as_ref().map(ToString::to_string),
        })
    }
}
