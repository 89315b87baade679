//! `end-lease`: ends the wait for a lease whose holder is gone.

use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, LeaderFound, ProblemCode};
use nats_elect::duration::seconds::Seconds;
use nats_elect::{RoleName, RoleState};
use serde_json::{Value, json};

use crate::cli::Shared;
use crate::confirm::{can_confirm, confirm};
use crate::exit::{Code, Failure, Outcome};
use crate::operating::stepped::{leader_json, new_leader};
use crate::operating::{Member, Whose, members, operating};
use crate::output::Output;
use crate::progress::progress;
use crate::record::Written;
use crate::text::{lasted, stamp, wall_clock};

const MORE: &str = "\
When it is safe:
  Only if the holder of the lease is certainly gone: its process has ended, its machine is off, or
  the record was never a leader's (somebody wrote it by hand, or another program left it over).
  Silence is no proof: a process that is cut off from NATS does not answer, and may lead until its
  lease ends. If the holder lives, there are two leaders until its next heartbeat is refused. Then
  only systems that compare fencing tokens are protected. When in doubt, wait: the lease ends by
  itself.

The command refuses if an instance reports that it leads the role or winds it down, and if the
holder runs but does not report its status. --force ends the lease nevertheless.

Exit codes:
  0  success: no candidate that answers waits for this lease any longer
  1  no instance answers, and JetStream is off
  2  there is no terminal to confirm it on, and no --yes
  3  no instance that answers stands for the role
  4  refused, and nothing was done: an instance leads the role, no candidate waits for this record
     any more, the operator did not confirm, or a permission is missing
  5  no answer in time; some instances may have received the request

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
    role: String,

    /// Do not ask for a confirmation, for scripts
    #[arg(short, long)]
    yes: bool,

    /// Also if an instance reports that it leads the role, or if the holder may still run
    #[arg(long)]
    force: bool,
}

/// The message under the role's key. Revision 0 stands for a missing one: then the instances wait
/// for the last lease that they saw.
#[derive(Default)]
struct Holding {
    revision: u64,
    title: Option<String>,
    written_at: Option<String>,
    /// By the record; nothing if it does not tell.
    id: Option<String>,
    incarnation: Option<String>,
    ttl: Option<Duration>,
    age: Duration,
}

/// What an instance made of the request.
struct Answered {
    instance: Instance,
    result: Result<(), AdminError>,
}

impl EndLease {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        RoleName::new(&self.role).map_err(|error| Failure::usage(error.to_string()))?;
        if !self.yes && !can_confirm() {
            return Err(
                Failure::usage("there is no terminal to confirm it on").advice(
                    "--yes ends it without a confirmation: use it only if the holder of the lease is certainly gone",
                ),
            );
        }
        let read = async |client, name: String| {
            let bucket = shared.bucket_of(client, &name).await?;
            Written::read(&bucket, &self.role).await
        };
        let written = shared.reading(read).await?;
        let holding = Holding::of(written.as_ref());
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
        progress(output, "asking the instances for their status");
        let members = self.members(admin, shared).await?;
        for line in holding.words(role) {
            output.note(&line);
        }
        if !self.force {
            self.check(&members, holding)?;
        }
        if !self.yes {
            let holder = holding.id.as_deref().unwrap_or("its writer");
            confirm(&format!(
                "Is {holder} certainly gone? If it lives, there will be two leaders. End its lease?"
            ))
            .await?;
        }
        let asked = members.into_iter().map(async |member| Answered {
            result: admin
                .end_lease(&member.instance, role, holding.revision)
                .await,
            instance: member.instance,
        });
        let answers = join_all(asked).await;
        let noted = answers.iter().any(|it| it.result.is_ok());
        let leader = if noted {
            progress(
                output,
                "the instances no longer wait; waiting for the next leader",
            );
            new_leader(admin, role, shared.patience()).await
        } else {
            None
        };
        if output.is_data() {
            let mut json = holding.json(role);
            json["answers"] = answers.iter().map(Answered::json).collect();
            json["leader"] = leader.as_ref().map(leader_json).into();
            output.data(&json)?;
        } else {
            for answer in &answers {
                output.line(answer.words())?;
            }
            if noted {
                output.line(next_words(role, leader.as_ref()))?;
            }
        }
        outcome(answers, noted)
    }

    /// The instances that may wait for the lease.
    async fn members(&self, admin: &AdminClient, shared: &Shared) -> Result<Vec<Member>, Failure> {
        let members = members(admin, &self.role, shared.patience()).await?;
        if members.is_empty() {
            return Err(Failure::not_found(format!(
                "no instance that answers takes part in the election of {:?}: none waits for the lease",
                self.role
            ))
            .advice("name the bucket with --bucket, and the instances' prefix with --admin-prefix; restart an instance whose admin service is off"));
        }
        Ok(members)
    }

    /// Whether the lease may be in use.
    fn check(&self, members: &[Member], holding: &Holding) -> Result<(), Failure> {
        let in_use = |why: String, advice: &str| {
            Err(Failure::new(Code::Refused, why).advice(format!(
                "nothing was done. {advice} --force ends the lease nevertheless"
            )))
        };
        for member in members {
            let who = &member.instance;
            match &member.role {
                Ok(report) if report.is_leader => {
                    return in_use(
                        format!("{who} reports that it leads {:?}", self.role),
                        "`nats-elect step-down` makes it hand the role over.",
                    );
                }
                Ok(report) if report.state == Some(RoleState::Draining) => {
                    return in_use(
                        format!(
                            "{who} reports that it led {:?} and winds it down now",
                            self.role
                        ),
                        "It will free the role, or its lease will end.",
                    );
                }
                Err(error) if holding.is_of(who) => {
                    return in_use(
                        format!(
                            "{who} holds the lease and runs, but does not report its status: {error}"
                        ),
                        "End its process first.",
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Holding {
    fn of(written: Option<&Written>) -> Self {
        let Some(written) = written else {
            return Self::default();
        };
        Self {
            revision: written.revision(),
            title: Some(written.title()),
            written_at: Some(stamp(written.time())),
            id: written.id(),
            incarnation: written.text("incarnation"),
            ttl: written.ttl(),
            age: wall_clock()
                .duration_since(written.time())
                .unwrap_or_default(),
        }
    }

    fn is_of(&self, instance: &Instance) -> bool {
        match &self.incarnation {
            Some(incarnation) => *incarnation == instance.incarnation.to_string(),
            None => self.id.as_ref() == Some(&instance.instance_id),
        }
    }

    /// How long those may still wait who saw it when it was written.
    fn left(&self) -> Option<Duration> {
        Some(self.ttl?.saturating_sub(self.age))
    }

    fn words(&self, role: &str) -> Vec<String> {
        let (Some(title), Some(written_at)) = (&self.title, &self.written_at) else {
            return vec![format!(
                "{role}: its key is missing; candidates wait for the last lease that they saw"
            )];
        };
        let holder = match (&self.id, &self.incarnation) {
            (Some(id), Some(incarnation)) => format!("{id:?}, incarnation {incarnation}"),
            (Some(id), None) => format!("{id:?}, by a record without an incarnation"),
            (None, _) => "an unknown instance".into(),
        };
        let wait = match (self.ttl, self.left()) {
            (Some(ttl), Some(left)) => format!(
                "{}, by its ttl_ms; candidates that saw it arrive wait for another {} at most, others for longer",
                lasted(ttl),
                lasted(left)
            ),
            _ => "not stated; candidates wait for the last lease that they saw".into(),
        };
        vec![
            format!("{role}: {title}"),
            format!("  held by  {holder}"),
            format!("  since    {written_at} ({} ago)", lasted(self.age)),
            format!("  lease    {wait}"),
        ]
    }

    fn json(&self, role: &str) -> Value {
        json!({
            "role": role,
            "revision": self.revision,
            "instance_id": self.id,
            "incarnation": self.incarnation,
            "written_at": self.written_at,
            "ttl_seconds": self.ttl.map(Seconds),
            "remaining_seconds": self.left().map(Seconds),
        })
    }
}

impl Answered {
    fn word(&self) -> &'static str {
        match &self.result {
            Ok(()) => "noted",
            Err(error) => match error.refusal() {
                Some(ProblemCode::Changed) => "changed",
                Some(ProblemCode::UnknownRole) => "not_a_candidate",
                Some(_) => "refused",
                None => "no_answer",
            },
        }
    }

    fn words(&self) -> String {
        let who = &self.instance;
        match (&self.result, self.word()) {
            (Ok(()), _) => format!("{who}: it no longer waits for this lease"),
            (_, "changed") => format!(
                "{who}: nothing was done, because it does not wait for the role or sees another record"
            ),
            (_, "not_a_candidate") => {
                format!("{who}: it does not take part in the role's election")
            }
            (Err(AdminError::NoSuchInstance(_)), _) => {
                format!("{who}: it has ended, or its version does not know this request")
            }
            (Err(error), _) => format!("{who}: {error}"),
        }
    }

    fn json(&self) -> Value {
        json!({
            "instance_id": self.instance.instance_id,
            "incarnation": self.instance.incarnation,
            "answer": self.word(),
            "error": self.result.as_ref().err().map(ToString::to_string),
        })
    }
}

fn next_words(role: &str, leader: Option<&LeaderFound>) -> String {
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
        let Err(error) = answer.result else { continue };
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
