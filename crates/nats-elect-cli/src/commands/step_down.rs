//! `step-down`: has the leader of a role hand it over.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use nats_elect::admin::{AdminClient, AdminError, Instance, LeaderFound, ProblemCode};
use nats_elect::{FencingToken, RoleName, StepDown as How};
use serde::Deserialize;
use serde_json::json;

use super::candidates::{Candidate, asked};
use crate::cli::{Shared, duration};
use crate::exit::{Code, Failure, Outcome};
use crate::operating::operating;
use crate::output::Output;
use crate::roles::unknown;
use crate::standby::{Standbys, UNSEEN, hindrance, stays_out};
use crate::stepped::{Stepped, leader_json};
use crate::text::lasted;

/// How long is waited for the record of a leader that was not found.
const RECORD: Duration = Duration::from_secs(2);

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
    #[arg(long, value_name = "ID")]
    to: Option<String>,

    /// How long the leader stays out afterwards, at most a day [default: the role's cool-down]
    #[arg(long, value_name = "TIME", value_parser = hold_off)]
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
        let role = self.role.as_str();
        RoleName::new(role).map_err(|error| Failure::usage(error.to_string()))?;
        let expected = self.expect;
        let acting = async |admin: AdminClient| self.act(&admin, expected, shared, output).await;
        operating(shared, acting).await
    }

    async fn act(
        &self,
        admin: &AdminClient,
        expected: Option<FencingToken>,
        shared: &Shared,
        output: Output,
    ) -> Outcome {
        let role = self.role.as_str();
        progress(output, &format!("looking for the leader of {role:?}"));
        let leader = match admin.leader(role, shared.patience()).await {
            Ok(leader) => leader,
            Err(AdminError::NoLeader(_)) => return Err(self.nobody(admin, shared).await),
            Err(error) => return Err(error.into()),
        };
        let from = leader.instance.to_string();
        if self.to.as_ref() == Some(&leader.instance.instance_id) {
            return self.leads_already(&leader, expected, output);
        }
        if self.to.is_none() && !self.force {
            self.check_standbys(admin, &leader, shared).await?;
        }
        let time = lasted(leader.report.answers_within);
        progress(
            output,
            &format!("asking {from} to step down, which takes {time} at most"),
        );
        let mut how = match &self.to {
            Some(successor) => How::to(successor),
            None => How::any(),
        };
        if let Some(token) = expected {
            how = how.expecting(token);
        }
        if let Some(time) = self.hold_off {
            how = how.hold_off(time);
        }
        let ended = admin.step_down_leader(&leader, how).await;
        let ended = ended.map_err(|error| self.refused(error))?;
        let patience = if self.no_wait {
            Duration::ZERO
        } else {
            progress(output, "the term has ended; waiting for the next leader");
            shared.patience()
        };
        let stepped = if self.no_wait {
            Stepped {
                role: role.to_owned(),
                ended,
                leader: None,
                runs_out: (!ended.released).then_some(leader.report.ttl),
            }
        } else {
            Stepped::of(admin, role, ended, Some(&leader.report), patience).await
        };
        if output.is_data() {
            let mut json = stepped.json();
            json["role"] = role.into();
            json["from"] = leader_json(&leader);
            output.data(&json)?;
        } else {
            output.line(stepped.words(&from))?;
        }
        if stepped.is_led_again(&leader.instance) {
            return Ok(Code::Refused as u8);
        }
        let leads = stepped.leader.as_ref().map(|it| &it.instance);
        if !self.no_wait
            && !self
                .is_any_left(admin, &leader.instance, leads, shared)
                .await
        {
            output.warning(&format!(
                "no other candidate that answers could take {role:?} over now: see `nats-elect candidates {role}`. \
                 `resume` ends a pause; a cool-down or hold-off ends by itself"
            ));
        }
        let done = self.no_wait || stepped.is_done();
        Ok(if done { 0 } else { Code::Unreachable as u8 })
    }

    /// Refuses if no other candidate is seen that could take the role over: the leader would only
    /// lead it again later.
    async fn check_standbys(
        &self,
        admin: &AdminClient,
        leader: &LeaderFound,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let role = &self.role;
        let found = asked(admin, Some(role), shared.patience()).await?;
        let standbys = Standbys::beside(&leader.instance, role, &found);
        if standbys.is_one_ready {
            return Ok(());
        }
        let why = if standbys.hindered.is_empty() {
            format!("no other instance that answers takes part in the election of {role:?}")
        } else {
            let why = standbys.hindered.join(", ");
            format!("no other candidate that answers could take {role:?} over: {why}")
        };
        Err(Failure::new(Code::Refused, why).advice(format!(
            "nothing was done. --force ends the term nevertheless; {UNSEEN}"
        )))
    }

    /// Returns whether an instance other than the leader could take the role over. The instance
    /// that stepped down can soon, unless it was told to stay out.
    async fn is_any_left(
        &self,
        admin: &AdminClient,
        before: &Instance,
        leads: Option<&Instance>,
        shared: &Shared,
    ) -> bool {
        let Ok(found) = asked(admin, Some(&self.role), shared.patience()).await else {
            return true;
        };
        let could = |one: &Candidate| {
            let report = one.report.as_ref().ok();
            let role = report.and_then(|it| it.roles.get(&self.role));
            let returns = one.instance == *before && self.hold_off.is_none();
            role.is_some_and(|it| {
                hindrance(it)
                    .or(stays_out(it).filter(|_| !returns))
                    .is_none()
            })
        };
        let mut others = found.iter().filter(|it| Some(&it.instance) != leads);
        others.any(could)
    }

    fn leads_already(
        &self,
        leader: &LeaderFound,
        expected: Option<FencingToken>,
        output: Output,
    ) -> Outcome {
        let role = &self.role;
        if let Some(expected) = expected.filter(|it| *it != leader.fencing_token) {
            let (instance, token) = (&leader.instance, leader.fencing_token);
            return Err(Failure::new(
                Code::Refused,
                format!("{instance} leads {role:?} already, but in term {token}, not {expected}"),
            )
            .advice("nothing was done: `nats-elect ls -o wide` shows the term"));
        }
        if output.is_data() {
            output.data(&json!({
                "role": role, "from": null, "released": false, "handoff": null, "leader": leader_json(leader),
            }))?;
        } else {
            output.line(format!(
                "{role}: {} leads already, nothing was done",
                leader.instance
            ))?;
        }
        Ok(0)
    }

    /// Why there is nobody to ask.
    async fn nobody(&self, admin: &AdminClient, shared: &Shared) -> Failure {
        #[derive(Deserialize)]
        struct Record {
            id: String,
        }
        let role = &self.role;
        // Those who stand for it, or do not report whether they do.
        let found = asked(admin, Some(role), shared.patience()).await;
        let found = found.unwrap_or_default();
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
        let record = async |client, name: String| {
            let bucket = shared.bucket_of(client, &name).await?;
            let read = async |key: String| {
                bucket.get(key).await.map_err(|error| {
                    let what = format!("the record of role {role:?} could not be read: {error}");
                    Failure::new(Code::Unreachable, what)
                })
            };
            let value = read(role.clone()).await?;
            let was_led = value.is_some() || read(format!("_fence.{role}")).await?.is_some();
            Ok((name, value, was_led))
        };
        let late = || Failure::new(Code::Unreachable, "the bucket could not be read in time");
        let read = tokio::time::timeout(RECORD, shared.reading(record)).await;
        let (bucket, value, was_led) = match read.unwrap_or_else(|_| Err(late())) {
            Ok(read) => read,
            // Whoever may operate instances need not be allowed to read the bucket.
            Err(failure) if matches!(failure.code, Code::Refused | Code::Unreachable) => {
                return Failure::not_found(format!("no instance that answers leads {role:?}"))
                    .advice(format!(
                        "a leader's admin service may be switched off or have another --admin-prefix, or the leader is of another \
                         library. Its record would show it, but {}",
                        failure.what
                    ));
            }
            Err(failure) => return failure,
        };
        if !was_led && found.is_empty() {
            return unknown(role);
        }
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Failure::not_found(format!("nobody leads {role:?}: the role is free"))
                .advice("`nats-elect candidates` lists the candidates");
        };
        let id = serde_json::from_slice::<Record>(&value)
            .map_or("an instance".into(), |it| format!("{:?}", it.id));
        Failure::not_found(format!(
            "the record says that {id} leads {role:?}, but no instance that answers reports it"
        ))
        .advice(format!(
            "if it has died, its lease runs out. Its admin service may be switched off or have another --admin-prefix, or it is of \
             another library: then `nats kv del {bucket} {role}` takes the role from it at its next heartbeat"
        ))
    }

    fn refused(&self, error: AdminError) -> Failure {
        let advice = match &error {
            AdminError::NoSuchInstance(_) => {
                Some("it has just ended: `nats-elect ls` shows the leader".to_owned())
            }
            AdminError::Timeout { .. } => Some(format!(
                "it may step down nevertheless: `nats-elect ls` shows the leader of {:?}",
                self.role
            )),
            _ => match error.refusal() {
                Some(ProblemCode::NotLeader | ProblemCode::UnexpectedTerm) => Some(
                    "nothing was done, because that term is over: `nats-elect ls -o wide` shows the present one"
                        .to_owned(),
                ),
                Some(ProblemCode::SuccessorAbsent) => Some(format!(
                    "`nats-elect candidates {}` lists the candidates",
                    self.role
                )),
                Some(ProblemCode::SuccessorRefused) => Some(format!(
                    "`nats-elect candidates {}` shows the candidates' state: `nats-elect resume` ends a pause, \
                     a cool-down or hold-off ends by itself",
                    self.role
                )),
                Some(ProblemCode::Unfinished) => {
                    Some("the step-down goes on: `nats-elect ls` shows the next leader".to_owned())
                }
                Some(ProblemCode::Stopped) => {
                    Some("the instance is stopping, which frees the role as well".to_owned())
                }
                _ => None,
            },
        };
        let failure = Failure::from(error);
        match advice {
            Some(advice) => failure.advice(advice),
            None => failure,
        }
    }
}

fn token(text: &str) -> Result<FencingToken, String> {
    let token = text.parse::<FencingToken>();
    token.map_err(|error| format!("{error}: `nats-elect ls -o wide` shows it"))
}

fn hold_off(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time > How::MAX_HOLD_OFF {
        return Err(
            "it must be at most a day: to keep an instance out for longer, pause it".into(),
        );
    }
    Ok(time)
}

/// Shows the progress to the user of a terminal.
pub fn progress(output: Output, what: &str) {
    if std::io::stderr().is_terminal() {
        output.note(&format!("… {what}"));
    }
}
