//! `step-down`: has whoever leads a role hand it over.

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use nats_elect::admin::{AdminClient, AdminError, LeaderFound, ProblemCode, RoleReport};
use nats_elect::{FencingToken, RoleName, StepDown as How};
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
  0  it is done: somebody else leads, or the role is free
  3  no instance leads the role, or none that answers
  4  refused, and nothing was done: the successor is not there, paused, not well or out of touch with NATS; or the term that was
     meant is over
  5  no answer in time; or the role could not be freed and nobody leads yet: its lease runs out

Examples:
  nats-elect step-down scheduler                       whoever is ready may lead next
  nats-elect step-down scheduler --to node-2           node-2, or nothing is done
  nats-elect step-down scheduler --hold-off 10m        and its leader stays out for ten minutes";

/// Have a role's leader step down, and tell who leads then
///
/// It asks the instances who leads, and the one that does to end its term: that very term, so that a request that comes late ends no
/// other one. The leader winds its handler down, which may take its stop budget, and frees the role. With --to it first asks the
/// successor whether it is there, well and able to take the role, and leads on if not.
///
/// To force a role from a leader that does not answer, one of another library or with its admin service switched off, delete the
/// role's key: `nats kv del leaders scheduler`. It notices with its next heartbeat.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct StepDown {
    /// The role
    role: String,

    /// The instance that is to lead next, by its id [default: whoever claims the role first]
    #[arg(long, value_name = "ID")]
    to: Option<String>,

    /// For how long its leader stays out afterwards, at most a day [default: the role's cool-down]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    hold_off: Option<Duration>,

    /// Do nothing unless this is the term's fencing token, in 32 hexadecimal digits [default: the term that is found]
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
            Err(AdminError::NoLeader(_)) => return Err(self.nobody(shared).await),
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
    async fn nobody(&self, shared: &Shared) -> Failure {
        #[derive(Deserialize)]
        struct Record {
            id: String,
        }
        let role = &self.role;
        // Whoever may operate instances need not be allowed to read the bucket.
        let reading = tokio::time::timeout(RECORD, async {
            let bucket = shared.bucket().await.ok()?;
            Some((bucket.name.clone(), bucket.get(role.as_str()).await.ok()?))
        });
        let Ok(Some((bucket, value))) = reading.await else {
            return Failure::not_found(format!("no instance that answers leads {role:?}")).advice(
                "if somebody does: its admin service is switched off, has another --admin-prefix, or it is of another library. \
                 This user may not read the bucket; whoever may sees more with `nats-elect ls`",
            );
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
                    "`nats-elect candidates {}` shows how they are; `nats-elect resume` ends a pause",
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

/// What is going on, for whoever sits before a terminal.
pub fn progress(output: Output, what: &str) {
    if std::io::stderr().is_terminal() {
        output.note(&format!("… {what}"));
    }
}
