//! Asks running instances.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_nats::Client;
use futures::future::join_all;
use uuid::Uuid;

use super::discovery::{self, Asking};
use super::{AdminError, Instance, InstanceReport};
use crate::manager::StepDown;
use crate::model::admin::{
    AdminReply, AdminRequest, AdminSubjects, Done, Ended, Problem, ProblemCode, Verb, parse,
};
use crate::model::config::{DEFAULT_SUBJECT_PREFIX, check_prefix};
use crate::role::SteppedDown;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::token::FencingToken;

/// How long an answer may be on its way, beside what the instance needs for it.
const ON_THE_WAY: Duration = Duration::from_secs(2);
/// A status takes an instance up to a second: its handlers are asked whether they are well.
const STATUS: Duration = Duration::from_secs(3);
/// Whether it stands is noted by an instance at once.
const ORDER: Duration = Duration::from_secs(5);
/// How long is waited for roles to be handed over by an instance that can't say how long it may take.
const UNKNOWN: Duration = Duration::from_secs(5 * 60);
/// The longest that is waited for a role to be handed over, whatever an instance says of how long it may take.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Asks the instances of one bucket. Cheap to clone.
///
/// It needs a connection that others may use as well, and nothing else: no JetStream, no bucket. Each call sends one request, or one
/// per instance, and subscribes to the answers to it for as long.
#[derive(Clone)]
pub struct AdminClient {
    client: Client,
    bucket: BucketName,
    prefix: String,
    subjects: AdminSubjects,
}

/// An instance, and what it says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Member {
    /// The instance.
    pub instance: Instance,
    /// Its status, or why there is none: then it has gone meanwhile, or does not answer.
    pub report: Result<InstanceReport, AdminError>,
}

/// The instance that leads a role, and in which term.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderFound {
    /// The instance.
    pub instance: Instance,
    /// Its term, for [`StepDown::expecting`].
    pub fencing_token: FencingToken,
}

impl AdminClient {
    /// Asks instances of this bucket that have the default subject prefix.
    ///
    /// # Errors
    /// [`AdminError::Name`], if no bucket can be called so.
    pub fn new(client: Client, bucket: &str) -> Result<Self, AdminError> {
        Self::under(client, bucket, DEFAULT_SUBJECT_PREFIX)
    }

    /// Asks instances of this bucket that have this subject prefix, as their [`AdminConfig`](crate::AdminConfig) says.
    ///
    /// # Errors
    /// [`AdminError::Name`] and [`AdminError::Config`], if a name or the prefix breaks a rule.
    pub fn under(client: Client, bucket: &str, subject_prefix: &str) -> Result<Self, AdminError> {
        check_prefix(subject_prefix)?;
        let bucket = BucketName::new(bucket)?;
        Ok(Self {
            subjects: AdminSubjects::new(subject_prefix, &bucket),
            prefix: subject_prefix.to_owned(),
            client,
            bucket,
        })
    }

    /// Everyone who is there, in the order of their ids.
    ///
    /// It waits at most `within`, and ends when no further answer has come for 400 ms: an instance that takes longer is not
    /// listed. Nobody at all is told at once.
    ///
    /// # Errors
    /// [`AdminError::Timeout`] if somebody is there but nobody answers within that time; [`AdminError::Unavailable`].
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn instances(&self, within: Duration) -> Result<Vec<Instance>, AdminError> {
        let (subjects, bucket) = (&self.subjects, &self.bucket);
        discovery::instances(&self.client, subjects, bucket, &self.prefix, within).await
    }

    /// The one instance of this id, or of this incarnation. For `within` see [`instances`](Self::instances).
    ///
    /// # Errors
    /// [`AdminError::NoSuchInstance`]; [`AdminError::Ambiguous`] if several processes have the id; and as `instances`.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn instance(&self, name: &str, within: Duration) -> Result<Instance, AdminError> {
        let incarnation = name.parse::<Uuid>().ok();
        let is_it = |it: &Instance| it.instance_id == name || incarnation == Some(it.incarnation);
        let mut found = self.instances(within).await?;
        found.retain(is_it);
        match found.len() {
            0 => Err(AdminError::NoSuchInstance(name.to_owned())),
            1 => Ok(found.remove(0)),
            _ => Err(AdminError::Ambiguous {
                id: name.to_owned(),
                found,
            }),
        }
    }

    /// What an instance says of itself and all its roles. Waits up to 3 s.
    ///
    /// # Errors
    /// [`AdminError::NoSuchInstance`] at once if it has gone; [`AdminError::Timeout`]; [`AdminError::Refused`] with
    /// [`ProblemCode::TooLarge`](super::ProblemCode::TooLarge) if it has so many roles that the answer is too large for one message, and
    /// [`ProblemCode::Busy`](super::ProblemCode::Busy) if it has many and is asked about all of them too often.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn status(&self, instance: &Instance) -> Result<InstanceReport, AdminError> {
        self.ask(
            instance,
            Verb::Status,
            None,
            &AdminRequest::default(),
            STATUS,
        )
        .await
    }

    /// What an instance says of itself and this role; as [`status`](Self::status).
    ///
    /// # Errors
    /// As `status`; [`AdminError::Name`]; [`AdminError::Refused`] with
    /// [`ProblemCode::UnknownRole`](super::ProblemCode::UnknownRole).
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn status_of(
        &self,
        instance: &Instance,
        role: &str,
    ) -> Result<InstanceReport, AdminError> {
        let role = RoleName::new(role)?;
        self.ask(
            instance,
            Verb::Status,
            Some(&role),
            &AdminRequest::default(),
            STATUS,
        )
        .await
    }

    /// Everyone who is there, and what they say: [`instances`](Self::instances), then all their [`status`](Self::status) at once.
    ///
    /// # Errors
    /// As `instances`. That single instances do not answer is told with each of them.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn fleet(&self, within: Duration) -> Result<Vec<Member>, AdminError> {
        let instances = self.instances(within).await?;
        let asked = instances.into_iter().map(|instance| async {
            let report = self.status(&instance).await;
            Member { instance, report }
        });
        Ok(join_all(asked).await)
    }

    /// Who leads the role, as the instances themselves say: not whom others take for the leader.
    ///
    /// # Errors
    /// [`AdminError::NoLeader`] if nobody who answers leads it; [`AdminError::Name`]; and as [`instances`](Self::instances).
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn leader(&self, role: &str, within: Duration) -> Result<LeaderFound, AdminError> {
        RoleName::new(role)?;
        let instances = self.instances(within).await?;
        let asked = instances.into_iter().map(|instance| async {
            let report = self.status_of(&instance, role).await.ok()?;
            let report = report.roles.get(role).filter(|report| report.is_leader)?;
            let fencing_token = report.fencing_token?;
            Some(LeaderFound {
                instance,
                fencing_token,
            })
        });
        let leaders = join_all(asked).await.into_iter().flatten();
        // The one that was asked last may have just taken over from the one that was asked first.
        leaders
            .max_by_key(|leader| leader.fencing_token)
            .ok_or_else(|| AdminError::NoLeader(role.to_owned()))
    }

    /// Has an instance end its term, and waits until it has: its handler is wound down, then the role is freed, or handed to the
    /// successor that was named.
    ///
    /// The instance is first asked for its status, to know how long it may take: its stop budget, three heartbeats and two
    /// requests at most, by its own settings.
    ///
    /// # Errors
    /// [`AdminError::Refused`], and nothing was done, with the codes `NotLeader`, `UnexpectedTerm`, `SuccessorAbsent`, `SuccessorRefused`
    /// and `UnknownRole`; with `Unfinished` it goes on. [`AdminError::Timeout`]: it may have been done or not, ask for the status.
    /// [`AdminError::NoSuchInstance`]; [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// The term ends all the same if the future is dropped after the request was sent.
    pub async fn step_down(
        &self,
        instance: &Instance,
        role: &str,
        how: StepDown,
    ) -> Result<SteppedDown, AdminError> {
        let name = RoleName::new(role)?;
        let within = self.time_to_end(instance, Some(&name)).await?;
        let request = AdminRequest {
            to: how.to,
            hold_off: how.hold_off,
            expected_fencing_token: how.expected,
            revision: None,
        };
        let asked = self.ask::<Done>(instance, Verb::StepDown, Some(&name), &request, within);
        let not_understood = || AdminError::NotUnderstood {
            instance: Box::new(instance.clone()),
        };
        let ended = asked.await?.ended.remove(role);
        ended.map(stepped_down).ok_or_else(not_understood)
    }

    /// Has an instance stand for no new term of the role, or of any role that it has or is given later; it leads on where it leads.
    /// Waits until it is so, up to 5 s.
    ///
    /// # Errors
    /// [`AdminError::Refused`] with the codes `UnknownRole` and `Stopped`; [`AdminError::NoSuchInstance`]; [`AdminError::Timeout`];
    /// [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// The instance is paused all the same if the future is dropped after the request was sent.
    pub async fn pause(&self, instance: &Instance, role: Option<&str>) -> Result<(), AdminError> {
        self.order(instance, Verb::Pause, role, ORDER).await?;
        Ok(())
    }

    /// Has an instance stand again, for the role or for all of them.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// The instance is resumed all the same if the future is dropped after the request was sent.
    pub async fn resume(&self, instance: &Instance, role: Option<&str>) -> Result<(), AdminError> {
        self.order(instance, Verb::Resume, role, ORDER).await?;
        Ok(())
    }

    /// As [`pause`](Self::pause), and ends the terms that the instance has: for maintenance. Each handler is wound down, then its role
    /// is freed, for an instance that is ready to take it if there is one. Waits until that is done, and returns what became of
    /// each role that it led.
    ///
    /// # Errors
    /// As `pause`; with the code `Unfinished` it goes on: ask for the status.
    ///
    /// # Cancel safety
    /// The instance is cordoned all the same if the future is dropped after the request was sent.
    pub async fn cordon(
        &self,
        instance: &Instance,
        role: Option<&str>,
    ) -> Result<BTreeMap<String, SteppedDown>, AdminError> {
        let name = role.map(RoleName::new).transpose()?;
        let within = self.time_to_end(instance, name.as_ref()).await?;
        let ended = self.order(instance, Verb::Cordon, role, within).await?;
        let ended = ended.into_iter();
        Ok(ended.map(|(role, it)| (role, stepped_down(it))).collect())
    }

    /// Has an instance treat the message at this revision of the role's key (0 if it is missing) as over, and not wait for its lease any longer: for a
    /// leader that is known to be gone for good, which only who operates it can know.
    ///
    /// **If whoever wrote that message still leads, there are two leaders**, until that one's next heartbeat is refused. Ask every
    /// instance: one that was not asked waits on, but whichever of the others claims the role then leads it.
    ///
    /// # Errors
    /// [`AdminError::Refused`], and nothing was done, with the codes `Changed`, if the instance does not wait for the
    /// role or sees another message there, and `UnknownRole`; [`AdminError::NoSuchInstance`], also if it is of a version that does not know this; [`AdminError::Timeout`];
    /// [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// The lease ends all the same if the future is dropped after the request was sent.
    pub async fn end_lease(
        &self,
        instance: &Instance,
        role: &str,
        revision: u64,
    ) -> Result<(), AdminError> {
        let role = RoleName::new(role)?;
        let request = AdminRequest::end_of(revision);
        let asked = self.ask::<Done>(instance, Verb::EndLease, Some(&role), &request, ORDER);
        asked.await.map(drop)
    }

    async fn order(
        &self,
        instance: &Instance,
        verb: Verb,
        role: Option<&str>,
        within: Duration,
    ) -> Result<BTreeMap<String, Ended>, AdminError> {
        let role = role.map(RoleName::new).transpose()?;
        let request = AdminRequest::default();
        let asked = self.ask::<Done>(instance, verb, role.as_ref(), &request, within);
        Ok(asked.await?.ended)
    }

    /// How long an instance may take to end the terms that it has, by its own settings.
    async fn time_to_end(
        &self,
        instance: &Instance,
        role: Option<&RoleName>,
    ) -> Result<Duration, AdminError> {
        let request = AdminRequest::default();
        let asked = self.ask::<InstanceReport>(instance, Verb::Status, role, &request, STATUS);
        let roles = match asked.await {
            Ok(report) => report.roles,
            // It has more roles than it can tell of at once, or just now.
            Err(error) => match error.refusal() {
                Some(ProblemCode::TooLarge | ProblemCode::Busy) => return Ok(UNKNOWN),
                _ => return Err(error),
            },
        };
        let takes = roles.values().map(|role| role.answers_within).max();
        Ok(takes.unwrap_or_default().min(LONGEST) + ON_THE_WAY)
    }

    async fn ask<T: AdminReply>(
        &self,
        instance: &Instance,
        verb: Verb,
        role: Option<&RoleName>,
        request: &AdminRequest,
        within: Duration,
    ) -> Result<T, AdminError> {
        let subject = self.subjects.request(verb, instance.incarnation, role);
        let body = serde_json::json!(request).to_string().into_bytes();
        let mut asking = Asking::begin(&self.client, &self.subjects, subject, body).await?;
        let Ok(answer) = tokio::time::timeout(within, asking.next()).await else {
            return Err(asking.timed_out(within));
        };
        let Some(message) = answer? else {
            return Err(AdminError::NoSuchInstance(instance.to_string()));
        };
        if let Some(problem) = parse::<Problem>(&message.payload) {
            return Err(AdminError::Refused {
                instance: Box::new(instance.clone()),
                code: problem.code,
                reason: problem.reason,
            });
        }
        parse(&message.payload).ok_or_else(|| AdminError::NotUnderstood {
            instance: Box::new(instance.clone()),
        })
    }
}

fn stepped_down(ended: Ended) -> SteppedDown {
    let Ended { released, handoff } = ended;
    SteppedDown { released, handoff }
}

impl fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminClient")
            .field("bucket", &self.bucket)
            .field("subject_prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
