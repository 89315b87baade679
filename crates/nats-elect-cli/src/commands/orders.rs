//! `pause`, `resume`, `cordon`: whether instances stand for election.

use clap::{ArgGroup, Args};
use futures::future::join_all;
use nats_elect::admin::{AdminClient, ProblemCode};

use crate::exit::{Failure, Outcome};
use crate::instances::{everyone, operating};
use crate::names;
use crate::operating::orders::{Order, Request, failure_of};
use crate::options::Shared;
use crate::output::Output;
use crate::progress::progress;

/// What help has below the options.
pub fn more(late: &str, examples: &str) -> String {
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

pub const LATE: &str = "no answer in time";

/// The instances and roles of an order.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whom").args(["instance", "all_instances"]).required(true))]
pub struct Target {
    /// The instance: its id, or its incarnation if several processes have that id
    #[arg(value_parser = names::instance)]
    instance: Option<String>,

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
        let named = self.instance.as_deref();
        let acting = async |admin: AdminClient| act(&request, named, &admin, shared, output).await;
        operating(&shared.config()?, shared.whose(), acting).await
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
            output.failure(
                failure.code.word(),
                &failure.what,
                failure.advice.as_deref(),
            );
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
