//! `step-down`: has the leader of a role hand it over.

use std::time::Duration;

use clap::Args;
use nats_elect::FencingToken;
use nats_elect::admin::AdminClient;

use crate::cli::{Shared, duration};
use crate::exit::Outcome;
use crate::names;
use crate::operating::operating;
use crate::operating::step_down::Request;
use crate::output::Output;
use crate::progress::progress;

const MORE: &str = "\
Exit codes:
  0  success: another instance leads, or the role is free; with --no-wait: the term has ended
  1  no instance answers, and JetStream is off
  3  no instance leads the role, or none that answers; or there is no such role
  4  refused, and nothing was done: the successor is absent, paused, unwell, cut off from NATS or in
     a cool-down; or that is so for all other candidates that answer, without --to and --force; or
     the named term is over. Or no other instance claimed the role, and its leader leads it again
  5  no answer in time; or the role could not be freed, and its lease has to run out

Instances without an admin service can't be seen. If only such instances could take the role over,
use --force.

A leader that stepped down stays out for the role's cool-down, or for --hold-off. `resume` ends
neither of them, only a pause. A warning on stderr says if no other candidate could take the role
over then.

With --to the successor keeps the role against candidates of higher priority, for --hold-off or else
an hour, or until it is resumed or another order ends its term. If it restarts, priority counts again.

Examples:
  nats-elect step-down scheduler                       any ready instance may lead next
  nats-elect step-down scheduler --to node-2           node-2 leads next, or nothing changes
  nats-elect step-down scheduler --hold-off 10m        the old leader stays out for ten minutes";

/// Make a role's leader step down, and show the next leader
///
/// The command finds the leader among the instances, and asks it to end its current term. A request
/// that comes late ends no other term. The leader winds its handler down, which may take its stop
/// budget, and frees the role.
///
/// With --to the leader first asks whether the successor runs, passes its health check and can take
/// the role. If not, it leads on. Without --to the command first asks the other candidates for their
/// status. If none of them could take the role over, it does nothing, unless --force is given.
///
/// Some leaders do not answer: those of other libraries, and those whose admin service is switched
/// off. To take a role from such a leader, delete the role's key: `nats kv del leaders scheduler`.
/// The leader notices with its next heartbeat.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct StepDown {
    /// The role
    role: String,

    /// The id of the instance that leads next [default: the first one to claim the role]
    #[arg(long, value_name = "ID", value_parser = names::instance)]
    to: Option<String>,

    /// How long the leader stays out afterwards, at most a day [default: the role's cool-down]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    hold_off: Option<Duration>,

    /// The fencing token of the expected term, in 32 hexadecimal digits, as `nats-elect ls -o wide`
    /// shows it. In another term nothing is done [default: the current term]
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    expect: Option<FencingToken>,

    /// End the term also if no other candidate is seen that could take the role over
    #[arg(long, conflicts_with = "to")]
    force: bool,

    /// Exit when the term has ended, without waiting for the next leader
    #[arg(long, overrides_with = "wait")]
    no_wait: bool,

    /// Wait for the next leader, which is the default
    #[arg(long, overrides_with = "no_wait")]
    wait: bool,
}

impl StepDown {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let request = Request {
            role: self.role,
            to: self.to,
            hold_off: self.hold_off,
            expected: self.expect,
            force: self.force,
            wait: !self.no_wait,
        };
        request.validate()?;
        let config = shared.config()?;
        let acting = async |admin: AdminClient| {
            let tell = |what: &str| progress(output, what);
            let done = request.carry_out(&admin, &config, tell).await?;
            if output.is_data() {
                output.data(&done.json())?;
            } else {
                output.line(done.words())?;
            }
            if let Some(warning) = request.warning(&admin, &done, shared.patience()).await {
                output.warning(&warning);
            }
            Ok(done.shortfall().map_or(0, |code| code as u8))
        };
        operating(&config, shared.whose(), acting).await
    }
}

fn token(text: &str) -> Result<FencingToken, String> {
    let token = text.parse::<FencingToken>();
    token.map_err(|error| format!("{error}: `nats-elect ls -o wide` shows it"))
}
