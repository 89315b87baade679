//! `step-down`: has the leader of a role hand it over.

use std::time::Duration;

use clap::Args;
use nats_elect::admin::{AdminClient, AdminError, Instance, LeaderFound, ProblemCode};
use nats_elect::duration::seconds::Seconds;
use nats_elect::{FencingToken, Handoff, ManagerConfig, RoleName, StepDown as How};
use serde::Serialize;

use crate::connect::{bucket_of, reading};
use crate::exit::{Code, Failure, Outcome};
use crate::instances::{Candidate, asked, operating};
use crate::names;
use crate::operating::standby::{Standbys, UNSEEN, hindrance, stays_out};
use crate::operating::stepped::{Leads, Stepped};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::progress::progress;
use crate::record::Written;
use crate::roles::unknown;
use crate::text::lasted;

/// How long an order to lead holds, if it names no hold-off.
const HOUR: Duration = Duration::from_secs(3600);

/// How long is waited for the record of a leader that was not found.
const RECORD: Duration = Duration::from_secs(2);

const OTHER_TERM: &str =
    "nothing was done, because that term is over: `nats-elect ls -o wide` shows the present one";

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
    #[arg(long)]
    no_wait: bool,
}

/// What came of it, for programs.
#[derive(Serialize)]
struct Told<'a> {
    role: &'a str,
    from: Option<Leads>,
    #[serde(flatten)]
    stepped: &'a Stepped,
    /// How long the order to lead holds against higher priorities.
    holds_seconds: Option<Seconds>,
}

impl StepDown {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        RoleName::new(&self.role)?;
        if self.hold_off.is_some_and(|time| time > How::MAX_HOLD_OFF) {
            return Err(Failure::usage(
                "a hold-off is at most a day: to keep an instance out for longer, pause it",
            ));
        }
        let config = shared.config()?;
        let acting = async |admin: AdminClient| self.act(&admin, &config, output).await;
        operating(&config, shared.whose(), acting).await
    }

    /// Finds the leader and asks it.
    async fn act(&self, admin: &AdminClient, config: &ManagerConfig, output: Output) -> Outcome {
        let (role, patience) = (self.role.as_str(), config.start_timeout);
        progress(output, &format!("looking for the leader of {role:?}"));
        let found = asked(admin, Some(role), admin.instances(patience).await?).await;
        let terms = found.iter().filter_map(|one| one.term(role));
        let Some(leader) = terms.max_by_key(|it| it.fencing_token) else {
            return Err(self.nobody(&found, config).await);
        };
        self.check_term(&leader)?;
        let from = &leader.instance;
        if self.to.as_ref() == Some(&from.instance_id) {
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
        let ended = admin.step_down_leader(&leader, self.how()).await;
        let ended = ended.map_err(|error| self.refused(error))?;
        let mut stepped = Stepped::of(role, ended, Some(&leader.report));
        if !self.no_wait {
            progress(output, "the term has ended; waiting for the next leader");
            let is_heir = |it: &&Candidate| self.to.as_ref() == Some(&it.instance.instance_id);
            let heirs = found.iter().filter(is_heir).map(|it| it.instance.clone());
            let heirs: Vec<_> = heirs.collect();
            let term = Some(leader.fencing_token);
            stepped.wait(admin, term, &heirs, patience).await;
        }
        let from = from.clone();
        self.tell(leader, &stepped, output)?;
        if stepped.is_led_again(&from) {
            return Ok(Code::Refused as u8);
        }
        if !self.no_wait && !self.is_any_left(&from, &stepped, &found) {
            output.warning(&format!(
                "no other candidate that answers could take {role:?} over now: see `nats-elect candidates {role}`. \
                 `resume` ends a pause; a cool-down or hold-off ends by itself"
            ));
        }
        let is_done = self.no_wait || stepped.is_done();
        Ok(if is_done { 0 } else { Code::Unreachable as u8 })
    }

    fn how(&self) -> How {
        let mut how = match &self.to {
            Some(successor) => How::to(successor),
            None => How::any(),
        };
        if let Some(token) = self.expect {
            how = how.expecting(token);
        }
        if let Some(time) = self.hold_off {
            how = how.hold_off(time);
        }
        how
    }

    /// The instance that is to lead does so already.
    fn tell_nothing_done(&self, leader: LeaderFound, output: Output) -> Outcome {
        let line = format!(
            "{}: {} leads already, nothing was done",
            self.role, leader.instance
        );
        let told = Told {
            role: &self.role,
            from: None,
            stepped: &Stepped::none(&self.role, leader),
            holds_seconds: None,
        };
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
        let told = Told {
            role: &self.role,
            from: Some(leader.into()),
            stepped,
            holds_seconds: heir.map(|_| Seconds(holds)),
        };
        output.tell(&told, [words].into_iter().chain(kept))
    }

    /// Refuses if no other candidate is seen that could take the role over: the leader would only
    /// lead it again later.
    fn check_standbys(&self, leader: &Instance, found: &[Candidate]) -> Result<(), Failure> {
        let role = &self.role;
        let standbys = Standbys::beside(leader, role, found);
        if standbys.is_one_ready {
            return Ok(());
        }
        let why = if standbys.hindered.is_empty() {
            format!("no other instance that answers takes part in the election of {role:?}")
        } else {
            let why = standbys.hindered.join(", ");
            format!("no other candidate that answers could take {role:?} over: {why}")
        };
        Err(Failure::refused(why).advice(format!(
            "nothing was done. --force ends the term nevertheless; {UNSEEN}"
        )))
    }

    /// Returns whether an instance other than the new leader could take the role over, by what all
    /// said before. The instance that stepped down can soon, unless it was told to stay out.
    fn is_any_left(&self, before: &Instance, stepped: &Stepped, found: &[Candidate]) -> bool {
        let leads = stepped.leader.as_ref().map(|it| &it.instance);
        let could = |one: &Candidate| {
            one.role(&self.role).is_some_and(|role| {
                let out = if one.instance == *before {
                    self.hold_off.map(|_| "stays out")
                } else {
                    stays_out(role)
                };
                hindrance(role).or(out).is_none()
            })
        };
        let mut others = found.iter().filter(|it| Some(&it.instance) != leads);
        others.any(could)
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
    async fn nobody(&self, found: &[Candidate], config: &ManagerConfig) -> Failure {
        let role = &self.role;
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
            let bucket = bucket_of(client, &name, config.start_timeout).await?;
            let (record, fence) = Written::of_role(&bucket, role).await?;
            Ok((name, record, fence))
        };
        let late = || Failure::unreachable("the bucket could not be read in time");
        let read = tokio::time::timeout(RECORD, reading(config, record)).await;
        let (bucket, record, fence) = match read.unwrap_or_else(|_| Err(late())) {
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
        if record.is_none() && fence.is_none() && found.is_empty() {
            return unknown(role);
        }
        let Some(record) = record.filter(|it| !it.is_marker()) else {
            return Failure::not_found(format!("nobody leads {role:?}: the role is free"))
                .advice("`nats-elect candidates` lists the candidates");
        };
        let id = record.id();
        let id = id.map_or("an instance".into(), |id| format!("{id:?}"));
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
                Some(ProblemCode::NotLeader | ProblemCode::UnexpectedTerm) => {
                    Some(OTHER_TERM.to_owned())
                }
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
        Failure::from(error).advised(advice)
    }
}

fn token(text: &str) -> Result<FencingToken, String> {
    let token = text.parse::<FencingToken>();
    token.map_err(|error| format!("{error}: `nats-elect ls -o wide` shows it"))
}
