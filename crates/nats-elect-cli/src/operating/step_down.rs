//! A step-down: has the leader of a role hand it over.

use std::time::Duration;

use nats_elect::admin::{AdminClient, AdminError, Instance, LeaderFound, ProblemCode};
use nats_elect::duration::seconds::Seconds;
use nats_elect::{FencingToken, Handoff, ManagerConfig, RoleName, StepDown as How};
use serde::Deserialize;
use serde_json::{Value, json};

use super::standby::{Standbys, UNSEEN, hindrance, stays_out};
use super::stepped::{Stepped, leader_json};
use crate::commands::candidates::{Candidate, asked};
use crate::connect::{bucket_of, reading};
use crate::exit::{Code, Failure};
use crate::roles::unknown;
use crate::text::lasted;

/// How long an order to lead holds, if it names no hold-off.
const HOUR: Duration = Duration::from_secs(3600);

/// How long is waited for the record of a leader that was not found.
const RECORD: Duration = Duration::from_secs(2);

const OTHER_TERM: &str =
    "nothing was done, because that term is over: `nats-elect ls -o wide` shows the present one";

/// What is asked for.
#[derive(Debug)]
pub struct Request {
    pub role: String,
    /// The id of the instance that leads next. Without it, the first one to claim the role.
    pub to: Option<String>,
    /// How long the leader stays out afterwards, unless for the role's cool-down.
    pub hold_off: Option<Duration>,
    /// The term that is to end. Without it, the current one.
    pub expected: Option<FencingToken>,
    /// Also if no other candidate is seen that could take the role over.
    pub force: bool,
    /// Wait for the next leader.
    pub wait: bool,
}

/// What came of it.
pub struct Done {
    role: String,
    leader: LeaderFound,
    /// Nothing if the leader is the one that is to lead: then nothing was done.
    stepped: Option<Stepped>,
    waited: bool,
    /// Which instance leads by this order, and how long that holds against higher priorities.
    held: Option<(String, Duration)>,
}

impl Request {
    /// Refuses what no leader is to be asked for.
    pub fn validate(&self) -> Result<(), Failure> {
        RoleName::new(&self.role).map_err(|error| Failure::usage(error.to_string()))?;
        if self.hold_off.is_some_and(|time| time > How::MAX_HOLD_OFF) {
            return Err(Failure::usage(
                "a hold-off is at most a day: to keep an instance out for longer, pause it",
            ));
        }
        if self.force && self.to.is_some() {
            return Err(Failure::usage(
                "a named successor can't be combined with force",
            ));
        }
        Ok(())
    }

    /// Finds the leader and asks it. `tell` hears how far it has come.
    pub async fn carry_out(
        &self,
        admin: &AdminClient,
        config: &ManagerConfig,
        tell: impl Fn(&str),
    ) -> Result<Done, Failure> {
        let (role, patience) = (self.role.as_str(), config.start_timeout);
        tell(&format!("looking for the leader of {role:?}"));
        let leader = match admin.leader(role, patience).await {
            Ok(leader) => leader,
            Err(AdminError::NoLeader(_)) => return Err(self.nobody(admin, config).await),
            Err(error) => return Err(error.into()),
        };
        let from = leader.instance.to_string();
        self.check_term(&leader)?;
        if self.to.as_ref() == Some(&leader.instance.instance_id) {
            return Ok(Done {
                role: role.to_owned(),
                leader,
                stepped: None,
                waited: false,
                held: None,
            });
        }
        if self.to.is_none() && !self.force {
            self.check_standbys(admin, &leader, patience).await?;
        }
        let time = lasted(leader.report.answers_within);
        tell(&format!(
            "asking {from} to step down, which takes {time} at most"
        ));
        let mut how = match &self.to {
            Some(successor) => How::to(successor),
            None => How::any(),
        };
        if let Some(token) = self.expected {
            how = how.expecting(token);
        }
        if let Some(time) = self.hold_off {
            how = how.hold_off(time);
        }
        let ended = admin.step_down_leader(&leader, how).await;
        let ended = ended.map_err(|error| self.refused(error))?;
        let stepped = if self.wait {
            tell("the term has ended; waiting for the next leader");
            Stepped::of(admin, role, ended, Some(&leader.report), patience).await
        } else {
            Stepped {
                role: role.to_owned(),
                ended,
                leader: None,
                runs_out: (!ended.released).then_some(leader.report.ttl),
            }
        };
        let taken = stepped.ended.handoff == Some(Handoff::Accepted);
        let heir = self.to.clone().filter(|_| taken);
        Ok(Done {
            role: role.to_owned(),
            leader,
            stepped: Some(stepped),
            waited: self.wait,
            held: heir.map(|heir| (heir, self.hold_off.unwrap_or(HOUR))),
        })
    }

    /// What to know of the candidates afterwards, if nobody could take the role over now.
    pub async fn warning(
        &self,
        admin: &AdminClient,
        done: &Done,
        patience: Duration,
    ) -> Option<String> {
        let stepped = done.stepped.as_ref().filter(|_| done.waited)?;
        let (role, before) = (&self.role, &done.leader.instance);
        let leads = stepped.leader.as_ref().map(|it| &it.instance);
        if stepped.is_led_again(before) || self.is_any_left(admin, before, leads, patience).await {
            return None;
        }
        Some(format!(
            "no other candidate that answers could take {role:?} over now: see `nats-elect candidates {role}`. \
             `resume` ends a pause; a cool-down or hold-off ends by itself"
        ))
    }

    /// Refuses if no other candidate is seen that could take the role over: the leader would only
    /// lead it again later.
    async fn check_standbys(
        &self,
        admin: &AdminClient,
        leader: &LeaderFound,
        patience: Duration,
    ) -> Result<(), Failure> {
        let role = &self.role;
        let found = asked(admin, Some(role), patience).await?;
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
        patience: Duration,
    ) -> bool {
        let Ok(found) = asked(admin, Some(&self.role), patience).await else {
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

    /// Refuses if the leader is in another term than the one that is to end.
    fn check_term(&self, leader: &LeaderFound) -> Result<(), Failure> {
        let Some(expected) = self.expected.filter(|it| *it != leader.fencing_token) else {
            return Ok(());
        };
        let (role, instance, token) = (&self.role, &leader.instance, leader.fencing_token);
        let what = format!("{instance} leads {role:?} in term {token}, not {expected}");
        Err(Failure::new(Code::Refused, what).advice(OTHER_TERM))
    }

    /// Why there is nobody to ask.
    async fn nobody(&self, admin: &AdminClient, config: &ManagerConfig) -> Failure {
        #[derive(Deserialize)]
        struct Record {
            id: String,
        }
        let role = &self.role;
        // Those who stand for it, or do not report whether they do.
        let found = asked(admin, Some(role), config.start_timeout).await;
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
            let bucket = bucket_of(client, &name, config.start_timeout).await?;
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
        let read = tokio::time::timeout(RECORD, reading(config, record)).await;
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
        let failure = Failure::from(error);
        match advice {
            Some(advice) => failure.advice(advice),
            None => failure,
        }
    }
}

impl Done {
    /// Why it is no success, if it is none.
    pub fn shortfall(&self) -> Option<Code> {
        let stepped = self.stepped.as_ref()?;
        if stepped.is_led_again(&self.leader.instance) {
            return Some(Code::Refused);
        }
        let is_done = !self.waited || stepped.is_done();
        (!is_done).then_some(Code::Unreachable)
    }

    pub fn words(&self) -> String {
        let from = &self.leader.instance;
        match (&self.stepped, &self.held) {
            (Some(stepped), Some((heir, time))) => format!(
                "{}\n{heir} keeps it against higher priorities for {}, or until `nats-elect resume {heir}`, \
                 another order, or the end of its term",
                stepped.words(&from.to_string()),
                lasted(*time)
            ),
            (Some(stepped), None) => stepped.words(&from.to_string()),
            (None, _) => format!("{}: {from} leads already, nothing was done", self.role),
        }
    }

    pub fn json(&self) -> Value {
        let Some(stepped) = &self.stepped else {
            return json!({
                "role": self.role, "from": null, "released": false, "handoff": null,
                "leader": leader_json(&self.leader), "holds_seconds": null,
            });
        };
        let mut json = stepped.json();
        json["role"] = json!(self.role);
        json["from"] = leader_json(&self.leader);
        json["holds_seconds"] = json!(self.held.as_ref().map(|(_, time)| Seconds(*time)));
        json
    }
}
