//! `step-down`: has the leader of a role hand it over.

use std::time::Duration;

use clap::Args;
use nats_elect::admin::{AdminClient, AdminError, Instance, LeaderFound, ProblemCode};
use nats_elect::duration::seconds::Seconds;
use nats_elect::{FencingToken, Handoff, InstanceId, ManagerConfig, RoleName, StepDown as How};
use serde_json::json;

use crate::exit::{Code, Failure, Outcome};
use crate::instances::{Candidate, asked};
use crate::operating::standby::{UNSEEN, hindered};
use crate::operating::stepped::{Leads, Stepped, how};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::progress::progress;
use crate::text::lasted;

/// How long an order to lead holds, if it names no hold-off.
const HOUR: Duration = Duration::from_secs(3600);

const OTHER_TERM: &str =
    "nothing was done, because that term is over: `nats-elect ls -o wide` shows the present one";

const MORE: &str = "\
Exit codes: those of `nats-elect --help`. 0 if another instance leads, or the role is free. 3 if
no instance that answers leads the role. 4 if nothing was done: the successor, or without --to and
--force each other candidate, is absent, paused, unwell, cut off from NATS or in a cool-down; or
the named term is over. 4 also if no other instance claimed the role, and its leader leads it
again. 5 also if the role could not be freed, and its lease has to run out

Instances without an admin service can't be seen. If only such instances could take the role over,
use --force.

A leader that stepped down stays out for the role's cool-down, or for --hold-off. `resume` ends
neither of them, only a pause.

With --to the successor keeps the role against candidates of higher priority, for --hold-off or
else an hour, or until it is resumed or another order ends its term. If it restarts, priority
counts again.

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
    role: RoleName,

    /// The id of the instance that leads next [default: the first one to claim the role]
    #[arg(long, value_name = "ID")]
    to: Option<InstanceId>,

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
    #[arg(long)]
    no_wait: bool,
}

impl StepDown {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        if self.hold_off.is_some_and(|time| time > How::MAX_HOLD_OFF) {
            return Err(Failure::usage(
                "a hold-off is at most a day: to keep an instance out for longer, pause it",
            ));
        }
        let config = shared.config()?;
        let acting = async |admin: AdminClient| self.act(&admin, &config, output).await;
        shared.operate(acting).await
    }

    /// Finds the leader and asks it.
    async fn act(&self, admin: &AdminClient, config: &ManagerConfig, output: Output) -> Outcome {
        let (role, patience) = (self.role.as_str(), config.start_timeout);
        progress(output, &format!("looking for the leader of {role:?}"));
        let found = asked(admin, Some(role), admin.instances(patience).await?).await;
        let terms = found.iter().filter_map(|one| one.term(role));
        let Some(leader) = terms.max_by_key(|it| it.fencing_token) else {
            return Err(self.nobody(&found, config));
        };
        self.check_term(&leader)?;
        let from = &leader.instance;
        if self.to.as_ref().is_some_and(|to| *to == *from.instance_id) {
            return self.tell_nothing_done(leader, output);
        }
        if self.to.is_none() && !self.force {
            self.check_standbys(from, &found)?;
        }
        let time = lasted(leader.report.answers_within);
        progress(
            output,
            &format!("asking {from} to step down, which takes {time} at most"),
        );
        let how = how(
            self.to.as_ref().map(InstanceId::as_str),
            self.hold_off,
            self.expect,
        );
        let ended = admin.step_down_leader(&leader, how).await;
        let ended = ended.map_err(|error| self.refused(error))?;
        let mut stepped = Stepped::of(role, ended, Some(&leader.report));
        if !self.no_wait {
            progress(output, "the term has ended; waiting for the next leader");
            let term = Some(leader.fencing_token);
            stepped.wait(admin, term, patience).await;
        }
        let from = from.clone();
        self.tell(leader, &stepped, output)?;
        if stepped.is_led_again(&from) {
            return Ok(Code::Refused as u8);
        }
        let is_done = self.no_wait || stepped.is_done();
        Ok(if is_done { 0 } else { Code::Unreachable as u8 })
    }

    /// The instance that is to lead does so already.
    fn tell_nothing_done(&self, leader: LeaderFound, output: Output) -> Outcome {
        let line = format!(
            "{}: {} leads already, nothing was done",
            self.role, leader.instance
        );
        let told = json!({
            "role": self.role, "from": null, "released": false, "handoff": null,
            "leader": Leads::from(leader), "holds_seconds": null,
        });
        output.tell(&told, [line])?;
        Ok(0)
    }

    fn tell(&self, leader: LeaderFound, stepped: &Stepped, output: Output) -> std::io::Result<()> {
        let taken = stepped.handoff == Some(Handoff::Accepted);
        let heir = self.to.as_ref().filter(|_| taken);
        let holds = self.hold_off.unwrap_or(HOUR);
        let words = stepped.words(&leader.instance);
        let kept = heir.map(|heir| {
            format!(
                "{heir} keeps it against higher priorities for {}, or until `nats-elect resume {heir}`, \
                 another order, or the end of its term",
                lasted(holds)
            )
        });
        let mut told = json!(stepped);
        told["role"] = json!(self.role);
        told["from"] = json!(Leads::from(leader));
        // How long the order to lead holds against higher priorities.
        told["holds_seconds"] = json!(heir.map(|_| Seconds(holds)));
        output.tell(&told, [words].into_iter().chain(kept))
    }

    /// Refuses if no other candidate is seen that could take the role over: the leader would only
    /// lead it again later.
    fn check_standbys(&self, leader: &Instance, found: &[Candidate]) -> Result<(), Failure> {
        let role = self.role.as_str();
        let Some(hindered) = hindered(leader, role, found) else {
            return Ok(());
        };
        let why = if hindered.is_empty() {
            format!("no other instance that answers takes part in the election of {role:?}")
        } else {
            let why = hindered.join(", ");
            format!("no other candidate that answers could take {role:?} over: {why}")
        };
        Err(Failure::refused(why).advice(format!(
            "nothing was done. --force ends the term nevertheless; {UNSEEN}"
        )))
    }

    /// Refuses if the leader is in another term than the one that is to end.
    fn check_term(&self, leader: &LeaderFound) -> Result<(), Failure> {
        let Some(expected) = self.expect.filter(|it| *it != leader.fencing_token) else {
            return Ok(());
        };
        let (role, instance, token) = (&self.role, &leader.instance, leader.fencing_token);
        let what = format!("{instance} leads {role:?} in term {token}, not {expected}");
        Err(Failure::refused(what).advice(OTHER_TERM))
    }

    /// Why there is nobody to ask.
    fn nobody(&self, found: &[Candidate], config: &ManagerConfig) -> Failure {
        let (role, bucket) = (&self.role, &config.bucket);
        let unclear: Vec<_> = found
            .iter()
            .filter_map(|one| one.report.as_ref().err())
            .filter(|error| !matches!(error, AdminError::NoSuchInstance(_)))
            .map(ToString::to_string)
            .collect();
        if !unclear.is_empty() {
            return Failure::not_found(format!(
                "no instance reports that it leads {role:?}, but not all of them report their status: {}",
                unclear.join("; ")
            ))
            .advice(
                "one of these may lead it: try `nats-elect candidates` and `nats-elect ls`, \
                 with a nats-elect of their version",
            );
        }
        Failure::not_found(format!(
            "no instance that answers leads {role:?} in bucket {bucket:?}"
        ))
        .advice(format!(
            "`nats-elect ls` shows the roles of the bucket and their leaders. If {role} has one, its admin service is switched off or \
             has another --admin-prefix, or it is of another library: `nats kv del {bucket} {role}` takes the role from it at its next heartbeat"
        ))
    }

    fn refused(&self, error: AdminError) -> Failure {
        let role = &self.role;
        let advice = match error.refusal() {
            Some(ProblemCode::SuccessorAbsent | ProblemCode::SuccessorRefused) => format!(
                "`nats-elect candidates {role}` shows the candidates' state: `nats-elect resume` ends a pause, \
                 a cool-down or hold-off ends by itself"
            ),
            _ => format!(
                "it may step down nevertheless: `nats-elect ls --role {role}` shows the leader"
            ),
        };
        Failure::from(error).advice(advice)
    }
}

fn token(text: &str) -> Result<FencingToken, String> {
    let token = text.parse::<FencingToken>();
    token.map_err(|error| format!("{error}: `nats-elect ls -o wide` shows it"))
}
