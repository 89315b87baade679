//! `pause`, `resume`, `cordon`: whether instances stand for election.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{ArgGroup, Args};
use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, ProblemCode, RoleReport};
use nats_elect::{InstanceId, RoleName, SteppedDown};
use serde::Serialize;

use crate::exit::{Code, Failure, Outcome};
use crate::instances::{asked, everyone, in_words, named};
use crate::operating::standby::{UNSEEN, hindrance};
use crate::operating::stepped::Stepped;
use crate::options::Shared;
use crate::output::Output;
use crate::progress::progress;

/// What help has below the options.
pub fn more(examples: &str) -> String {
    format!(
        "\
Exit codes: those of `nats-elect --help`. 3 also if the instance has no such role. 4 also if it is
stopping. 5 also if a role could not be freed, and its lease has to run out. With several
instances the command goes on after a failure, and exits with the code of the first one.

Examples:
{examples}"
    )
}

/// The instances and roles of an order.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whom").args(["instance", "all_instances"]).required(true))]
pub struct Target {
    /// The instance: its id, or its incarnation if several processes have that id
    instance: Option<InstanceId>,

    /// All instances of the bucket that answer within 400ms of each other
    #[arg(long)]
    all_instances: bool,

    /// Only for this role; may be repeated [default: all roles, also those that are added later]
    #[arg(short, long = "role", value_name = "ROLE")]
    roles: Vec<String>,
}

impl Target {
    pub async fn order(self, order: Order, shared: &Shared, output: Output) -> Outcome {
        let request = Request::new(order, self.roles)?;
        let named = self.instance.as_ref().map(InstanceId::as_str);
        let acting = async |admin: AdminClient| act(&request, named, &admin, shared, output).await;
        shared.operate(acting).await
    }
}

/// Gives the order to the named instance, or to all.
async fn act(
    request: &Request,
    named: Option<&str>,
    admin: &AdminClient,
    shared: &Shared,
    output: Output,
) -> Outcome {
    let patience = shared.patience();
    let instances = match named {
        Some(name) => {
            let found = admin.instance(name, patience).await;
            vec![found.map_err(|error| failure_of(&error))?]
        }
        None => everyone(admin, patience).await?,
    };
    if instances.is_empty() {
        return Err(
            Failure::not_found("no instance of the bucket answers").advice(
                "name the bucket with --bucket, and the instances' prefix with --admin-prefix",
            ),
        );
    }
    if request.order == Order::Cordon {
        progress(output, "waiting until all roles are handed over");
    }
    let given = instances
        .into_iter()
        .map(|it| request.give(admin, it, patience));
    let mut done = join_all(given).await;
    if named.is_none() && done.iter().any(|it| it.is_given) {
        // Not everyone has every role.
        done.retain(|it| it.refusal() != Some(ProblemCode::UnknownRole));
    }
    let mut code = 0;
    for done in &done {
        output.tell(done, request.words(done))?;
        if let Some(failure) = done.failure() {
            failure.tell(output);
        }
        let failed = done.shortfall().map_or(0, |code| code as u8);
        code = if code == 0 { failed } else { code };
    }
    let did = done.into_iter().filter(|it| it.is_given);
    let did: Vec<_> = did.map(|it| it.instance).collect();
    if let Some(warning) = request.warning(admin, &did, patience).await {
        output.warning(&warning);
    }
    Ok(code)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    Pause,
    Resume,
    Cordon,
}

/// What is ordered.
#[derive(Debug)]
pub struct Request {
    pub order: Order,
    /// Only for these roles. Without one, for all roles, also those that are added later.
    pub roles: Vec<String>,
}

/// What came of an order to one instance.
#[derive(Serialize)]
pub struct Done {
    #[serde(flatten, serialize_with = "named")]
    pub instance: Instance,
    order: Order,
    /// Whether the instance took the order.
    #[serde(rename = "done")]
    pub is_given: bool,
    ended: BTreeMap<String, Stepped>,
    #[serde(rename = "error", serialize_with = "in_words")]
    failure: Option<AdminError>,
}

impl Order {
    async fn give(
        self,
        admin: &AdminClient,
        instance: &Instance,
        role: Option<&str>,
    ) -> Result<BTreeMap<String, SteppedDown>, AdminError> {
        match self {
            Self::Pause => admin.pause(instance, role).await?,
            Self::Resume => admin.resume(instance, role).await?,
            Self::Cordon => return admin.cordon(instance, role).await,
        }
        Ok(BTreeMap::new())
    }
}

impl Request {
    /// # Errors
    /// If a role can't have that name.
    pub fn new(order: Order, mut roles: Vec<String>) -> Result<Self, Failure> {
        let mut named = BTreeSet::new();
        roles.retain(|role| named.insert(role.clone()));
        for role in &roles {
            RoleName::new(role)?;
        }
        Ok(Self { order, roles })
    }

    /// Gives the order to an instance.
    pub async fn give(&self, admin: &AdminClient, instance: Instance, patience: Duration) -> Done {
        let order = self.order;
        let roles: Vec<_> = if self.roles.is_empty() {
            vec![None]
        } else {
            self.roles.iter().map(|role| Some(role.as_str())).collect()
        };
        let asked = roles
            .into_iter()
            .map(|role| order.give(admin, &instance, role));
        let (mut ended, mut failure) = (BTreeMap::new(), None);
        for answer in join_all(asked).await {
            match answer {
                Ok(more) => ended.extend(more),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        let waited = ended.into_iter().map(async |(role, ended)| {
            let mut stepped = Stepped::of(&role, ended, None);
            stepped.wait(admin, None, patience).await;
            (role, stepped)
        });
        let ended = join_all(waited).await.into_iter().collect();
        Done {
            instance,
            order,
            is_given: failure.is_none(),
            ended,
            failure,
        }
    }

    /// What to know of the roles of these instances that no instance could take over now.
    pub async fn warning(
        &self,
        admin: &AdminClient,
        did: &[Instance],
        patience: Duration,
    ) -> Option<String> {
        if self.order == Order::Resume || did.is_empty() {
            return None;
        }
        // The order is done. If nobody says how things are, nothing is known to warn of.
        let instances = everyone(admin, patience).await.ok()?;
        let found = asked(admin, None, instances).await;
        let reports = || {
            let reports = found.iter();
            reports.filter_map(|one| Some((&one.instance, &one.report.as_ref().ok()?.roles)))
        };
        let of_these = reports().filter(|(instance, _)| did.contains(instance));
        let roles: BTreeSet<_> = of_these.flat_map(|(_, roles)| roles.keys()).collect();
        let is_standby = |it: &RoleReport| !it.is_leader && hindrance(it).is_none();
        let has_one =
            |role: &String| reports().any(|(_, roles)| roles.get(role).is_some_and(is_standby));
        let is_meant = |role: &String| self.roles.is_empty() || self.roles.contains(role);
        let wanting: Vec<_> = roles
            .into_iter()
            .filter(|role| is_meant(role) && !has_one(role))
            .map(String::as_str)
            .collect();
        (!wanting.is_empty()).then(|| {
            let wanting = wanting.join(", ");
            format!(
                "no instance that answers could take over now: {wanting}. `resume` ends a pause; {UNSEEN}"
            )
        })
    }

    pub fn words(&self, done: &Done) -> Vec<String> {
        let name = &done.instance;
        let mut lines: Vec<_> = done.ended.values().map(|it| it.words(name)).collect();
        if !done.is_given {
            return lines;
        }
        let what = match &*self.roles {
            [] if self.order == Order::Resume => "all its roles".to_owned(),
            [] => "any role".to_owned(),
            roles => roles.join(", "),
        };
        let nothing = if self.order == Order::Cordon && done.ended.is_empty() {
            "led none of these roles and "
        } else {
            ""
        };
        lines.push(match self.order {
            Order::Resume => format!("{name} takes part in the elections of {what} again"),
            Order::Pause | Order::Cordon => {
                format!("{name} {nothing}takes no new term of {what} until it is resumed")
            }
        });
        lines
    }
}

/// Why an order could not be given, and what to do about it.
pub fn failure_of(error: &AdminError) -> Failure {
    let advice = match error {
        AdminError::NoSuchInstance(_) => Some("`nats-elect candidates` lists the instances"),
        AdminError::Timeout { .. } => Some(
            "the request may have been carried out: `nats-elect candidates` shows which instances are paused",
        ),
        _ => None,
    };
    Failure::from(error).advised(advice)
}

impl Done {
    pub fn refusal(&self) -> Option<ProblemCode> {
        self.failure.as_ref().and_then(AdminError::refusal)
    }

    /// Why the instance did not take the order, if it did not.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.as_ref().map(failure_of)
    }

    /// Why it is no success, if it is none.
    pub fn shortfall(&self) -> Option<Code> {
        let unfreed = self.ended.values().any(|it| !it.is_done());
        let failed = self.failure().map(|it| it.code);
        failed.or(unfreed.then_some(Code::Unreachable))
    }
}
