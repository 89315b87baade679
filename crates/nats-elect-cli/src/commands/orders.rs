//! `pause`, `resume`, `cordon`: whether instances stand for election.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, ProblemCode, RoleReport};
use nats_elect::{RoleName, SteppedDown};
use serde_json::{Value, json};

use super::candidates::asked;
use super::step_down::progress;
use crate::cli::Shared;
use crate::exit::{Code, Failure, Outcome};
use crate::operating::{everyone, operating};
use crate::output::Output;
use crate::standby::{UNSEEN, hindrance};
use crate::stepped::Stepped;

/// What help has below the options.
fn more(late: &str, examples: &str) -> String {
    format!(
        "\
Exit codes:
  0  success
  3  there is no such instance, or it has no such role
  4  refused: an instance is stopping, or a permission is missing
  5  {late}
With several instances the command goes on after a failure, and exits with the code of the first
one.

Examples:
{examples}"
    )
}

const LATE: &str = "no answer in time";

/// Stop instances from taking new terms
///
/// A paused instance goes on leading, but takes no new term until it is resumed. To make it hand
/// over its roles, use `cordon`. The latest order counts. A warning on stderr says if no instance
/// that answers could take a role over from a leader that fails.
///
/// The process keeps the order in memory: an instance that restarts is not paused.
#[derive(Debug, Args)]
#[command(after_long_help = more(LATE, "  nats-elect pause --instance node-1\n  nats-elect pause --instance node-1 --role scheduler --role metrics"))]
pub struct Pause {
    #[command(flatten)]
    target: Target,
}

/// Let instances take part in elections again, after `pause` or `cordon`
///
/// They take part at once. But a cool-down, or a hold-off of `step-down`, goes on until its time is
/// over.
#[derive(Debug, Args)]
#[command(after_long_help = more(LATE, "  nats-elect resume --instance node-1\n  nats-elect resume --all-instances"))]
pub struct Resume {
    #[command(flatten)]
    target: Target,
}

/// Make instances hand over their roles and take no new terms, for maintenance
///
/// The instance is paused. It also winds down each role that it leads and frees it, for an instance
/// that is ready to take it if there is one. The command waits for that, as long as the handlers may
/// take, and shows the result for each role. A warning on stderr says if no instance that answers
/// could take a role over then. With --all-instances nobody leads.
///
/// The process keeps the order in memory: an instance that restarts is not paused. That suits a
/// restart. For longer work stop the instance as well, or `resume` it at the end.
#[derive(Debug, Args)]
#[command(after_long_help = more("no answer in time; or a role could not be freed, and its lease has to run out", "  nats-elect cordon --instance node-1\n  nats-elect cordon --instance 1c9e5b1e-3d0a-4c5f-9b43-0d6c8b6f8a11\n\nThe last one names an incarnation, for one of several processes that have the same id."))]
pub struct Cordon {
    #[command(flatten)]
    target: Target,
}

/// The instances and roles of an order.
#[derive(Debug, Args)]
struct Target {
    /// The instance: its id, or its incarnation if several processes have that id
    #[arg(short, long, value_name = "ID")]
    instance: Option<String>,

    /// All instances of the bucket that answer within 400ms of each other
    #[arg(long, conflicts_with = "instance")]
    all_instances: bool,

    /// Only for this role; may be repeated [default: all roles, also those that are added later]
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
        self.target.order(Order::Pause, shared, output).await
    }
}

impl Resume {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        self.target.order(Order::Resume, shared, output).await
    }
}

impl Cordon {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        self.target.order(Order::Cordon, shared, output).await
    }
}

impl Target {
    async fn order(mut self, order: Order, shared: &Shared, output: Output) -> Outcome {
        let mut named = BTreeSet::new();
        self.roles.retain(|role| named.insert(role.clone()));
        for role in &self.roles {
            RoleName::new(role).map_err(|error| Failure::usage(error.to_string()))?;
        }
        if self.instance.is_none() && !self.all_instances {
            return Err(Failure::usage("no instance is named")
                .advice("name one with --instance, or use --all-instances"));
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
                    .map_err(failure_of)?,
            ],
            None => everyone(admin, shared.patience()).await?,
        };
        if instances.is_empty() {
            return Err(
                Failure::not_found("no instance of the bucket answers").advice(
                    "name the bucket with --bucket, and the instances' prefix with --admin-prefix",
                ),
            );
        }
        if order == Order::Cordon {
            progress(output, "waiting until all roles are handed over");
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
        let did = done.iter().filter(|it| it.failure.is_none());
        let did: Vec<_> = did.map(|it| it.instance.clone()).collect();
        for done in done {
            if output.is_data() {
                output.data(&done.json(order))?;
            } else {
                for line in done.words(order, &self.roles) {
                    output.line(line)?;
                }
            }
            let unfreed = done.stepped.iter().any(|it| !it.is_done());
            let failed = match done.failure {
                Some(error) => {
                    let failure = failure_of(error);
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
        if order != Order::Resume && !did.is_empty() {
            self.warn_of_want(admin, &did, shared, output).await;
        }
        Ok(code)
    }

    /// Warns of the roles of these instances that no instance could take over now.
    async fn warn_of_want(
        &self,
        admin: &AdminClient,
        did: &[Instance],
        shared: &Shared,
        output: Output,
    ) {
        // The order is done. If nobody says how things are, nothing is known to warn of.
        let found = asked(admin, None, shared.patience()).await;
        let found = found.unwrap_or_default();
        let reports = || {
            let reports = found.iter();
            reports.filter_map(|one| Some((&one.instance, &one.report.as_ref().ok()?.roles)))
        };
        let of_these = reports().filter(|(instance, _)| did.contains(instance));
        let roles: BTreeSet<_> = of_these.flat_map(|(_, roles)| roles.keys()).collect();
        let is_meant = |role: &String| self.roles.is_empty() || self.roles.contains(role);
        let is_standby = |it: &RoleReport| !it.is_leader && hindrance(it).is_none();
        let has_one =
            |role: &String| reports().any(|(_, roles)| roles.get(role).is_some_and(is_standby));
        let wanting: Vec<_> = roles
            .into_iter()
            .filter(|role| is_meant(role) && !has_one(role))
            .map(String::as_str)
            .collect();
        if !wanting.is_empty() {
            output.warning(&format!(
                "no instance that answers could take over now: {}. `resume` ends a pause; {UNSEEN}",
                wanting.join(", ")
            ));
        }
    }

    async fn give(
        &self,
        order: Order,
        admin: &AdminClient,
        instance: Instance,
        shared: &Shared,
    ) -> Done {
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
        // The order comes first: a status waits for health checks.
        let mut reports = match order {
            Order::Pause => reports(admin, &instance).await,
            // How long a lease lasts that was not freed.
            Order::Cordon if ended.values().any(|it| !it.released) => {
                reports(admin, &instance).await
            }
            Order::Cordon | Order::Resume => BTreeMap::new(),
        };
        let waited = ended.into_iter().map(|(role, ended)| {
            let report = reports.remove(&role);
            async move {
                Stepped::of(admin, &role, ended, report.as_ref(), shared.patience()).await
            }
        });
        let waited: Vec<_> = waited.collect();
        let stepped = join_all(waited).await;
        let is_meant = |role: &String| self.roles.is_empty() || self.roles.contains(role);
        let leads = match order {
            Order::Pause => reports
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

/// How its roles are; nothing if it does not say.
async fn reports(admin: &AdminClient, instance: &Instance) -> BTreeMap<String, RoleReport> {
    admin
        .status(instance)
        .await
        .map(|it| it.roles)
        .unwrap_or_default()
}

fn failure_of(error: AdminError) -> Failure {
    let advice = match &error {
        AdminError::NoSuchInstance(_) => Some("`nats-elect candidates` lists the instances"),
        AdminError::Timeout { .. } => Some(
            "the request may have been carried out: `nats-elect candidates` shows which instances are paused",
        ),
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
            "led none of these roles and "
        } else {
            ""
        };
        lines.push(match (order, roles) {
            (Order::Resume, []) => {
                format!("{name} takes part in the elections of all its roles again")
            }
            (Order::Resume, _) => format!("{name} takes part in the elections of {what} again"),
            (Order::Pause | Order::Cordon, _) => {
                format!("{name} {nothing}takes no new term of {what} until it is resumed")
            }
        });
        if !self.leads.is_empty() {
            lines.push(format!(
                "{name} still leads {}: `cordon` makes it hand over",
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
