//! `end-lease`: ends the wait for a lease whose holder is gone.

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, ProblemCode};
use nats_elect::duration::seconds::Seconds;
use nats_elect::{RoleName, RoleState};
use serde::Serialize;
use serde_json::{Value, json};

use crate::confirm::{can_be_confirmed, confirm};
use crate::exit::{Failure, Outcome};
use crate::instances::{Candidate, Whose, in_words, members, named, operating};
use crate::operating::stepped::{Leads, next_leader};
use crate::options::Shared;
use crate::output::Output;
use crate::progress::progress;
use crate::record::Written;
use crate::text::{lasted, stamp, wall_clock};

const MORE: &str = "\
It is safe only if the holder of the lease is certainly gone: its process has ended, its machine
is off, or the record was never a leader's. Silence is no proof: a process that is cut off from
NATS does not answer, and may lead until its lease ends. If the holder lives, there are two
leaders until its next heartbeat is refused. When in doubt, wait: the lease ends by itself.

The command refuses if an instance reports that it leads the role or winds it down, or does not
report its status. --force ends the lease nevertheless.

Exit codes: those of `nats-elect --help`. 0 if no candidate that answers waits for this lease any
longer. 3 if no instance that answers stands for the role. 4 if nothing was done: an instance
leads the role, no candidate waits for this record any more, or the operator did not confirm. 5 if
some instances may have received the request

Examples:
  nats-elect end-lease scheduler            shows the holder, and asks for a confirmation
  nats-elect end-lease scheduler --yes      for scripts that know that the holder is gone";

/// End the wait for a lease whose holder is gone for good
///
/// Candidates wait until the lease of the last record is over, even if its holder has died. That
/// takes seconds. But a misconfigured or foreign program may write a record with a huge `ttl_ms`,
/// and keep a role without a leader for long. This command shows the record, its writer, and how
/// long candidates may still wait for it. Then it asks every instance to treat the lease of the
/// record at exactly that revision as over. A later record is not affected.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct EndLease {
    /// The role
    role: RoleName,

    /// Do not ask for a confirmation, for scripts
    #[arg(short, long)]
    yes: bool,

    /// Also if an instance reports that it leads the role, or does not report its status
    #[arg(long)]
    force: bool,
}

/// The message under the role's key. If it is missing, the instances wait for the last lease that
/// they saw.
struct Holding(Option<Written>);

/// What an instance made of the request.
#[derive(Serialize)]
struct Answered {
    #[serde(flatten, serialize_with = "named")]
    instance: Instance,
    answer: &'static str,
    #[serde(serialize_with = "in_words")]
    error: Option<AdminError>,
}

impl EndLease {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        can_be_confirmed(
            self.yes,
            "--yes ends it without a confirmation: use it only if the holder of the lease is certainly gone",
        )?;
        let read = async |bucket| Written::read(&bucket, self.role.as_str()).await;
        let holding = Holding(shared.in_bucket(read).await?);
        let acting = async |admin: AdminClient| self.act(&admin, &holding, shared, output).await;
        operating(&shared.config()?, Whose::Read, acting).await
    }

    async fn act(
        &self,
        admin: &AdminClient,
        holding: &Holding,
        shared: &Shared,
        output: Output,
    ) -> Outcome {
        let role = self.role.as_str();
        let mut told = holding.told();
        progress(output, "asking the instances for their status");
        let members = members(admin, role, shared.patience()).await?;
        if members.is_empty() {
            return Err(Failure::not_found(format!(
                "no instance that answers takes part in the election of {role:?}: none waits for the lease"
            ))
            .advice("name the bucket with --bucket, and the instances' prefix with --admin-prefix; restart an instance whose admin service is off"));
        }
        for line in holding.words(role) {
            output.note(&line);
        }
        if !self.force {
            self.check(&members)?;
        }
        if !self.yes {
            let holder = holding.0.as_ref().and_then(Written::id);
            let holder = holder.as_deref().unwrap_or("its writer");
            confirm(&format!(
                "Is {holder} certainly gone? If it lives, there will be two leaders. End its lease?"
            ))
            .await?;
        }
        let asked = members.into_iter().map(async |member| {
            let instance = member.instance;
            let ended = admin.end_lease(&instance, role, holding.revision()).await;
            Answered::of(instance, ended.err())
        });
        let answers = join_all(asked).await;
        let noted = answers.iter().any(|it| it.error.is_none());
        let leader = if noted {
            progress(
                output,
                "the instances no longer wait; waiting for the next leader",
            );
            next_leader(admin, role, None, shared.patience()).await
        } else {
            None
        };
        let next = noted.then(|| next_words(role, leader.as_ref()));
        told["role"] = json!(role);
        told["answers"] = json!(answers);
        told["leader"] = json!(leader);
        output.tell(&told, answers.iter().map(Answered::words).chain(next))?;
        outcome(answers, noted)
    }

    /// Whether the lease may be in use.
    fn check(&self, members: &[Candidate]) -> Result<(), Failure> {
        for member in members {
            let who = &member.instance;
            let why = match (&member.report, member.role(self.role.as_str())) {
                (Err(error), _) => format!("{who} runs, but does not report its status: {error}"),
                (_, Some(role)) if role.is_leader || role.state == Some(RoleState::Draining) => {
                    format!(
                        "{who} reports that it leads {:?}, or winds it down",
                        self.role
                    )
                }
                _ => continue,
            };
            return Err(Failure::refused(why).advice(
                "nothing was done. `nats-elect step-down` makes a leader hand the role over; --force ends the lease nevertheless",
            ));
        }
        Ok(())
    }
}

impl Holding {
    /// 0 stands for a missing message.
    fn revision(&self) -> u64 {
        self.0.as_ref().map_or(0, |it| it.revision)
    }

    /// The lease, if the record tells it; and how long those may still wait who saw it when it was
    /// written.
    fn lease(&self) -> Option<(Duration, Duration)> {
        let written = self.0.as_ref()?;
        let age = wall_clock().duration_since(written.time);
        let ttl = written.ttl()?;
        Some((ttl, ttl.saturating_sub(age.unwrap_or_default())))
    }

    fn told(&self) -> Value {
        let (written, (ttl, left)) = (self.0.as_ref(), self.lease().unzip());
        json!({
            "revision": self.revision(),
            "written_at": written.map(|it| stamp(it.time)),
            "instance_id": written.and_then(Written::id),
            "incarnation": written.and_then(|it| it.text("incarnation")),
            "ttl_seconds": ttl.map(Seconds),
            "remaining_seconds": left.map(Seconds),
        })
    }

    fn words(&self, role: &str) -> Vec<String> {
        let Some(written) = &self.0 else {
            return vec![format!(
                "{role}: its key is missing; candidates wait for the last lease that they saw"
            )];
        };
        let holder = match (written.id(), written.text("incarnation")) {
            (Some(id), Some(incarnation)) => format!("{id:?}, incarnation {incarnation}"),
            (Some(id), None) => format!("{id:?}, by a record without an incarnation"),
            (None, _) => "an unknown instance".into(),
        };
        let wait = match self.lease() {
            Some((ttl, left)) => format!(
                "{}, by its ttl_ms; candidates that saw it arrive wait for another {} at most, others for longer",
                lasted(ttl),
                lasted(left)
            ),
            None => "not stated; candidates wait for the last lease that they saw".into(),
        };
        vec![
            format!("{role}: {}", written.title()),
            format!("  held by  {holder}"),
            format!("  lease    {wait}"),
        ]
    }
}

impl Answered {
    fn of(instance: Instance, error: Option<AdminError>) -> Self {
        let answer = match error.as_ref().map(AdminError::refusal) {
            None => "noted",
            Some(Some(ProblemCode::Changed)) => "changed",
            Some(Some(ProblemCode::UnknownRole)) => "not_a_candidate",
            Some(Some(_)) => "refused",
            Some(None) => "no_answer",
        };
        Self {
            instance,
            answer,
            error,
        }
    }

    fn words(&self) -> String {
        let who = &self.instance;
        match &self.error {
            None => format!("{who}: it no longer waits for this lease"),
            Some(error) => format!("{who}: {error}"),
        }
    }
}

fn next_words(role: &str, leader: Option<&Leads>) -> String {
    match leader {
        Some(leader) => format!("{role}: {} leads now", leader.instance),
        None => format!(
            "{role}: no instance that answers leads it yet; `nats-elect candidates {role}` shows their state"
        ),
    }
}

/// What it ends with: the failure of one who was asked, unless another one is as good.
fn outcome(answers: Vec<Answered>, noted: bool) -> Outcome {
    for answer in answers {
        let Some(error) = answer.error else { continue };
        let refused = error.refusal().is_some();
        // It saw what came after, or does not stand any more.
        if noted && refused {
            continue;
        }
        let failure = Failure::from(error);
        return Err(failure.advice(if refused {
            "`nats-elect inspect` shows the current record"
        } else {
            "an instance that did not receive the request waits on; the others may lead"
        }));
    }
    Ok(0)
}
