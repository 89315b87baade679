//! `step-down`: has whoever leads a role hand it over.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, LeaderFound, ProblemCode, RoleReport};
use nats_elect::{FencingToken, RoleName, RoleState, StepDown as How};
use serde::Deserialize;
use serde_json::json;

use crate::cli::{Shared, duration};
use crate::exit::{Code, Failure, Outcome};
use crate::operating::operating;
use crate::output::Output;
use crate::stepped::{Stepped, leader_json};
use crate::text::lasted;

/// How long is waited for the record of a leader that was not found.
const RECORD: Duration = Duration::from_secs(2);

const MORE: &str = "\
Exit codes:
  0  it is done: somebody else leads, or the role is free; with --no-wait: the term has ended
  1  no instance answers, and JetStream is off
  3  no instance leads the role, or none that answers
  4  refused, and nothing was done: the successor is not there, paused, not well, out of touch
     with NATS or in a cool-down, or the term that was meant is over; or nobody else claimed the
     role, and its leader leads it again
  5  no answer in time; or the role could not be freed and nobody leads yet: its lease runs out

A leader that stepped down stays out for the role's cool-down, or for --hold-off. Both end by
themselves, and not before: `resume` ends a pause alone. If no candidate is left that could take
the role over then, that is told on stderr.

Examples:
  nats-elect step-down scheduler                       whoever is ready may lead next
  nats-elect step-down scheduler --to node-2           node-2, or nothing is done
  nats-elect step-down scheduler --hold-off 10m        and its leader stays out for ten minutes";

/// Have a role's leader step down, and tell who leads then
///
/// It asks the instances who leads, and the one that does to end its term: that very term, so that
/// a request that comes late ends no other one. The leader winds its handler down, which may take
/// its stop budget, and frees the role. With --to it first asks the successor whether it is there,
/// well and able to take the role, and leads on if not.
///
/// To force a role from a leader that does not answer, one of another library or with its admin
/// service switched off, delete the role's key: `nats kv del leaders scheduler`. It notices with
/// its next heartbeat.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct StepDown {
    /// The role
    role: String,

    /// The instance that is to lead next, by its id [default: whoever claims the role first]
    #[arg(long, value_name = "ID")]
    to: Option<String>,

    /// For how long its leader stays out afterwards, at most a day [default: the role's cool-down]
    #[arg(long, value_name = "TIME", value_parser = hold_off)]
    hold_off: Option<Duration>,

    /// Do nothing unless this is the term's fencing token, in 32 hexadecimal digits [default: the
    /// term that is found]
    #[arg(long, value_name = "TOKEN")]
    expect: Option<String>,

    /// End when the term has ended, without waiting for the next leader
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
        let expected = self.expected()?;
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
        let report = self.report(admin, &leader).await;
        if self.to.as_ref() == Some(&leader.instance.instance_id) {
            return self.leads_already(&leader, output);
        }
        if let Some(report) = &report {
            let time = lasted(report.answers_within);
            progress(
                output,
                &format!("asking {from} to step down, which takes {time} at most"),
            );
        }
        let mut how = match &self.to {
            Some(successor) => How::to(successor),
            None => How::any(),
        };
        how = how.expecting(expected.unwrap_or(leader.fencing_token));
        if let Some(time) = self.hold_off {
            how = how.hold_off(time);
        }
        let ended = admin.step_down(&leader.instance, role, how).await;
        let ended = ended.map_err(|error| self.refused(error))?;
        let patience = if self.no_wait {
            Duration::ZERO
        } else {
            progress(output, "it has; waiting for the next leader");
            shared.patience()
        };
        let stepped = if self.no_wait {
            Stepped {
                role: role.to_owned(),
                ended,
                leader: None,
                runs_out: report.map(|it| it.ttl).filter(|_| !ended.released),
            }
        } else {
            Stepped::of(admin, role, ended, report.as_ref(), patience).await
        };
        if output.is_json() {
            let mut told = stepped.json();
            told["role"] = role.into();
            told["from"] = leader_json(&leader);
            output.json(&told)?;
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
                "no other candidate that answers could take {role:?} over now, as `nats-elect candidates {role}` shows: \
                 a pause ends with `resume`, a cool-down or hold-off by itself"
            ));
        }
        let done = self.no_wait || stepped.is_done();
        Ok(if done { 0 } else { Code::Unreachable as u8 })
    }

    fn expected(&self) -> Result<Option<FencingToken>, Failure> {
        let parse = |text: &String| {
            text.parse::<FencingToken>()
                .map_err(|error| Failure::usage(format!("--expect {text:?}: {error}")))
        };
        self.expect.as_ref().map(parse).transpose()
    }

    /// What the leader said of the role, as long as it leads in that term.
    async fn report(&self, admin: &AdminClient, leader: &LeaderFound) -> Option<RoleReport> {
        let mut status = admin.status_of(&leader.instance, &self.role).await.ok()?;
        let report = status.roles.remove(&self.role)?;
        (report.fencing_token == Some(leader.fencing_token)).then_some(report)
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
        let Ok(mut others) = admin.instances(shared.patience()).await else {
            return true;
        };
        others.retain(|it| Some(it) != leads);
        let could = others.iter().map(async |instance| {
            let status = admin.status_of(instance, &self.role).await.ok();
            let role = status.and_then(|mut it| it.roles.remove(&self.role))?;
            let stays_out = match role.state {
                Some(RoleState::Demoted | RoleState::Draining) => {
                    instance != before || self.hold_off.is_some()
                }
                Some(RoleState::Stopped) => true,
                _ => false,
            };
            (!stays_out && !role.paused && role.healthy != Some(false)).then_some(())
        });
        join_all(could).await.iter().any(Option::is_some)
    }

    fn leads_already(&self, leader: &LeaderFound, output: Output) -> Outcome {
        let role = &self.role;
        if output.is_json() {
            output.json(&json!({
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
        let unclear = self.unclear(admin, shared).await;
        if !unclear.is_empty() {
            return Failure::not_found(format!(
                "no instance says that it leads {role:?}, but not all of them say how they are: {}",
                unclear.join("; ")
            ))
            .advice(
                "one of them may lead it: look again with `nats-elect candidates` and `nats-elect ls`, \
                 with a nats-elect of their version",
            );
        }
        let record = async |client, name: String| {
            let bucket = shared.bucket_of(client, &name).await?;
            let value = bucket.get(role.as_str()).await.map_err(|error| {
                let what = format!("the record of role {role:?} could not be read: {error}");
                Failure::new(Code::Unreachable, what)
            })?;
            Ok((name, value))
        };
        let late = || Failure::new(Code::Unreachable, "the bucket could not be read in time");
        let read = tokio::time::timeout(RECORD, shared.reading(record)).await;
        let (bucket, value) = match read.unwrap_or_else(|_| Err(late())) {
            Ok(read) => read,
            // Whoever may operate instances need not be allowed to read the bucket.
            Err(failure) if matches!(failure.code, Code::Refused | Code::Unreachable) => {
                return Failure::not_found(format!("no instance that answers leads {role:?}"))
                    .advice(format!(
                        "if somebody does: its admin service is switched off, has another --admin-prefix, or it is of another \
                         library. Its record would tell, but {}",
                        failure.what
                    ));
            }
            Err(failure) => return failure,
        };
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Failure::not_found(format!("nobody leads {role:?}: the role is free"))
                .advice("`nats-elect candidates` shows who stands for it");
        };
        let id = serde_json::from_slice::<Record>(&value)
            .map_or("somebody".into(), |it| format!("{:?}", it.id));
        Failure::not_found(format!(
            "by its record {id} leads {role:?}, but no instance that answers says that it does"
        ))
        .advice(format!(
            "it may have died: then its lease runs out. Or its admin service is switched off, has another --admin-prefix, or it is of \
             another library: then `nats kv del {bucket} {role}` takes the role from it, which it notices with its next heartbeat"
        ))
    }

    /// What instances said that are there and did not say how the role stands with them.
    async fn unclear(&self, admin: &AdminClient, shared: &Shared) -> Vec<String> {
        let instances = admin.instances(shared.patience()).await.unwrap_or_default();
        let asked = instances.iter().map(|it| admin.status_of(it, &self.role));
        let failed = join_all(asked).await.into_iter().filter_map(Result::err);
        failed
            .filter(|error| error.refusal() != Some(ProblemCode::UnknownRole))
            .filter(|error| !matches!(error, AdminError::NoSuchInstance(_)))
            .map(|error| error.to_string())
            .collect()
    }

    fn refused(&self, error: AdminError) -> Failure {
        let advice = match &error {
            AdminError::NoSuchInstance(_) => {
                Some("it ended just now: look again who leads".to_owned())
            }
            AdminError::Timeout { .. } => Some(format!(
                "it may step down all the same: `nats-elect ls` shows who leads {:?}",
                self.role
            )),
            _ => match error.refusal() {
                Some(ProblemCode::NotLeader | ProblemCode::UnexpectedTerm) => Some(
                    "nothing was done, the term that was meant is over: look again who leads"
                        .to_owned(),
                ),
                Some(ProblemCode::SuccessorAbsent) => Some(format!(
                    "`nats-elect candidates {}` shows who could take it",
                    self.role
                )),
                Some(ProblemCode::SuccessorRefused) => Some(format!(
                    "`nats-elect candidates {}` shows how they are: `nats-elect resume` ends a pause, \
                     a cool-down or hold-off ends by itself",
                    self.role
                )),
                Some(ProblemCode::Unfinished) => {
                    Some("it goes on: `nats-elect ls` shows when the role is led again".to_owned())
                }
                Some(ProblemCode::Stopped) => {
                    Some("it is stopping, which frees the role as well".to_owned())
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

fn hold_off(text: &str) -> Result<Duration, String> {
    let time = duration(text)?;
    if time > How::MAX_HOLD_OFF {
        return Err("it must be at most a day: whoever is to stay out for longer is paused".into());
    }
    Ok(time)
}

/// What is going on, for whoever sits before a terminal.
pub fn progress(output: Output, what: &str) {
    if std::io::stderr().is_terminal() {
        output.note(&format!("… {what}"));
    }
}
