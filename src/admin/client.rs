//! The client that sends requests to running instances.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use async_nats::Client;
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use uuid::Uuid;

use super::discovery::Discovery;
use super::{AdminError, Instance, InstanceReport, RoleReport};
use crate::manager::StepDown;
use crate::model::admin::{
    AdminReply, AdminRequest, AdminSubjects, BucketId, Done, Ended, ExplanationReply, PlanReply,
    Problem, ProblemCode, Search, Taken, Verb, parse,
};
use crate::model::config::{DEFAULT_SUBJECT_PREFIX, check_prefix};
use crate::model::group_plan::GroupPlan;
use crate::model::unit_explanation::UnitExplanation;
use crate::role::SteppedDown;
use crate::store::Asking;
use nats_elect_core::name::{BucketName, GroupName, RoleName};
use nats_elect_core::token::FencingToken;

/// How long an answer may be on its way, beside the time that the instance needs for it.
const ON_THE_WAY: Duration = Duration::from_secs(2);
/// The timeout for a status. An instance takes up to a second for it, because it asks its handlers
/// for their health.
const STATUS: Duration = Duration::from_secs(3);
/// The timeout for an order. An instance records at once whether it takes part in elections.
const ORDER: Duration = Duration::from_secs(5);
/// How long to wait for roles to be handed over by an instance that can't report how long it may
/// take.
const UNKNOWN: Duration = Duration::from_secs(5 * 60);
/// The longest wait for roles to be handed over, whatever an instance reports about its time.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Sends requests to the instances of one bucket. A client is cheap to clone.
///
/// It needs only a connection, which other code may use as well. It needs no JetStream and no
/// bucket. Each call sends one request, or one request per instance, and subscribes to the answers
/// while it waits for them.
///
/// A hub and a leaf node can each have a bucket of one name in their `JetStream` domains, and the
/// requests of one account reach the instances of both. Instances tell of which bucket they are. So
/// the client finds those of one bucket: that of [`of_bucket`](Self::of_bucket) or
/// [`in_domain`](Self::in_domain). Without either it refuses if two buckets answer.
#[derive(Clone)]
pub struct AdminClient {
    client: Client,
    bucket: BucketName,
    prefix: String,
    subjects: AdminSubjects,
    /// Which bucket of the name is meant.
    search: Search,
}

/// The instance that leads a role, and its term.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderFound {
    /// The instance.
    pub instance: Instance,
    /// The role.
    pub role: RoleName,
    /// The fencing token of its term, for [`StepDown::expecting`].
    pub fencing_token: FencingToken,
    /// The instance's report about the role.
    pub report: RoleReport,
}

impl LeaderFound {
    /// Returns the instance's term of the role, if it reports that it leads the role.
    #[doc(hidden)]
    #[must_use]
    pub fn of(instance: &Instance, role: &str, report: &InstanceReport) -> Option<Self> {
        let report = report.roles.get(role).filter(|report| report.is_leader)?;
        Some(Self {
            instance: instance.clone(),
            role: RoleName::new(role).ok()?,
            fencing_token: report.fencing_token?,
            report: report.clone(),
        })
    }
}

impl AdminClient {
    /// Makes a client for the instances of this bucket that have the default subject prefix.
    ///
    /// # Errors
    /// Returns [`AdminError::Name`] if no bucket can have this name.
    pub fn new(client: Client, bucket: &str) -> Result<Self, AdminError> {
        Self::under(client, bucket, DEFAULT_SUBJECT_PREFIX)
    }

    /// Makes a client for the instances of this bucket that have this subject prefix, as their
    /// [`AdminConfig`](crate::AdminConfig) sets it.
    ///
    /// # Errors
    /// Returns [`AdminError::Name`] or [`AdminError::Config`] if a name or the prefix breaks a
    /// rule.
    pub fn under(client: Client, bucket: &str, subject_prefix: &str) -> Result<Self, AdminError> {
        check_prefix(subject_prefix)?;
        let bucket = BucketName::new(bucket)?;
        Ok(Self {
            subjects: AdminSubjects::new(subject_prefix, &bucket),
            prefix: subject_prefix.to_owned(),
            client,
            bucket,
            search: Search::default(),
        })
    }

    /// Finds the instances of this bucket alone, as
    /// [`Observer::bucket_id`](crate::Observer::bucket_id) or
    /// [`BucketReview::id`](field@crate::BucketReview::id) has it. An instance that does not tell its
    /// bucket counts as one of them: it has none just now, or is of an older version.
    #[must_use]
    pub fn of_bucket(mut self, bucket: &BucketId) -> Self {
        self.search = Search::for_bucket(bucket);
        self
    }

    /// Finds the instances of the bucket in this `JetStream` domain alone. An empty text is the
    /// domain without a name. An instance that does not tell its bucket is not found.
    #[must_use]
    pub fn in_domain(mut self, domain: impl Into<String>) -> Self {
        self.search = Search {
            domain: Some(domain.into()),
            bucket_epoch: None,
        };
        self
    }

    /// Returns all instances that answer, in the order of their ids.
    ///
    /// The method waits at most `within`. It ends early when no further answer has come for 400 ms.
    /// An instance that takes longer is not listed. If there is no instance at all, the method
    /// returns at once.
    ///
    /// # Errors
    /// Returns [`AdminError::Timeout`] if an instance is there but none answers within that time.
    /// Returns [`AdminError::Unavailable`] if the connection does not take requests. Returns
    /// [`AdminError::TwoBuckets`] if the client was not told which of two buckets is meant.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn instances(&self, within: Duration) -> Result<Vec<Instance>, AdminError> {
        self.discovered(within).await
    }

    /// Returns the one instance with this id, or with this incarnation. For `within` see
    /// [`instances`](Self::instances).
    ///
    /// # Errors
    /// Returns [`AdminError::NoSuchInstance`] if there is none. Returns [`AdminError::Ambiguous`]
    /// if several processes have the id. Also returns the errors of `instances`.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
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

    /// Returns an instance's report about itself and all its roles. Waits up to 3 s.
    ///
    /// # Errors
    /// Returns [`AdminError::NoSuchInstance`] at once if the instance has gone. Returns
    /// [`AdminError::Timeout`] if it does not answer in time.
    ///
    /// Returns [`AdminError::Refused`] with [`ProblemCode::TooLarge`](super::ProblemCode::TooLarge)
    /// if the instance has so many roles that the answer is too large for one message. Returns it
    /// with [`ProblemCode::Busy`](super::ProblemCode::Busy) if the instance has many roles and is
    /// asked about all of them too often.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn status(&self, instance: &Instance) -> Result<InstanceReport, AdminError> {
        self.report(instance, None).await
    }

    /// Returns an instance's report about itself and this role. Otherwise the same as
    /// [`status`](Self::status).
    ///
    /// # Errors
    /// The same as `status`. Also returns [`AdminError::Name`], and [`AdminError::Refused`] with
    /// [`ProblemCode::UnknownRole`](super::ProblemCode::UnknownRole).
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn status_of(
        &self,
        instance: &Instance,
        role: &str,
    ) -> Result<InstanceReport, AdminError> {
        self.report(instance, Some(&RoleName::new(role)?)).await
    }

    /// Returns all instances and their reports. It calls [`instances`](Self::instances), and then
    /// [`status`](Self::status) for all of them at once.
    ///
    /// # Errors
    /// The same as `instances`. Where there is no report, the instance has gone meanwhile, or does
    /// not answer.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn fleet(
        &self,
        within: Duration,
    ) -> Result<Vec<(Instance, Result<InstanceReport, AdminError>)>, AdminError> {
        let instances = self.instances(within).await?;
        let asked = instances.into_iter().map(|instance| async {
            let report = self.status(&instance).await;
            (instance, report)
        });
        Ok(join_all(asked).await)
    }

    /// Returns the leader of the role, according to the leader itself. The opinion of other
    /// instances does not count.
    ///
    /// If the client was told which bucket is meant, the method returns as soon as an instance
    /// answers that it leads. Otherwise it waits for the others, because they may be of another
    /// bucket. While a role changes hands, both instances may answer so for a moment;
    /// [`StepDown::expecting`] with the fencing token ends no other term than the one that was
    /// found.
    ///
    /// # Errors
    /// Returns [`AdminError::NoLeader`] if no instance that answers leads the role. Returns
    /// [`AdminError::Name`] if the name breaks a rule. Also returns the errors of
    /// [`instances`](Self::instances).
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn leader(&self, role: &str, within: Duration) -> Result<LeaderFound, AdminError> {
        self.led(RoleName::new(role)?, within).await
    }

    async fn find_leader(
        &self,
        role: &RoleName,
        within: Duration,
    ) -> Result<LeaderFound, AdminError> {
        let mut discovery = self.discover(within).await?;
        let mut asked = FuturesUnordered::new();
        let mut searching = true;
        let mut leader = None;
        // Each instance is asked when it is found. The first that leads ends a search in one bucket.
        let is_one = !self.search.names_any();
        while searching || (leader.is_none() && !asked.is_empty()) {
            tokio::select! {
                found = discovery.next(), if searching => match found? {
                    Some(instance) => asked.push(self.leads(instance, role)),
                    None => searching = false,
                },
                Some(leads) = asked.next() => leader = leader.or(leads),
            }
            if is_one && leader.is_some() {
                break;
            }
        }
        leader.ok_or_else(|| AdminError::NoLeader(role.to_string()))
    }

    /// Returns the instance's term of the role, if it leads the role.
    async fn leads(&self, instance: Instance, role: &RoleName) -> Option<LeaderFound> {
        let report = self.status_of(&instance, role.as_str()).await.ok()?;
        LeaderFound::of(&instance, role.as_str(), &report)
    }

    async fn discover(&self, within: Duration) -> Result<Discovery<'_>, AdminError> {
        let Self {
            subjects, bucket, ..
        } = self;
        let (prefix, search) = (&self.prefix, &self.search);
        Discovery::begin(&self.client, subjects, bucket, prefix, search, within).await
    }

    /// Has an instance end its term, and waits until it has. The handler is wound down, and then
    /// the role is freed, or handed to the successor that was named.
    ///
    /// The client first asks the instance for its status, to learn how long it may take. By the
    /// instance's own settings this is its stop budget, three heartbeats and two requests at most.
    /// [`step_down_leader`](Self::step_down_leader) does without that question.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `NotLeader`, `UnexpectedTerm`,
    /// `SuccessorAbsent`, `SuccessorRefused` and `UnknownRole`. Nothing was done then. With the
    /// code `Unfinished` the instance goes on.
    ///
    /// Returns [`AdminError::Timeout`] if there is no answer in time. The request may have been
    /// done or not, so ask for the status. Returns [`AdminError::NoSuchInstance`] if the instance
    /// is not there, and [`AdminError::Name`] if the name breaks a rule.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the term ends all the same.
    pub async fn step_down(
        &self,
        instance: &Instance,
        role: &str,
        how: StepDown,
    ) -> Result<SteppedDown, AdminError> {
        let role = RoleName::new(role)?;
        let within = self.time_to_end(instance, Some(&role)).await?;
        self.end_term(instance, &role, how, within).await
    }

    /// Has a leader that [`leader`](Self::leader) found end its term, and waits until it has. The
    /// request names that term, unless `how` expects another one. Otherwise the same as
    /// [`step_down`](Self::step_down).
    ///
    /// # Errors
    /// The same as `step_down`, without [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the term ends all the same.
    pub async fn step_down_leader(
        &self,
        leader: &LeaderFound,
        mut how: StepDown,
    ) -> Result<SteppedDown, AdminError> {
        how.expected.get_or_insert(leader.fencing_token);
        let within = time_for([&leader.report]);
        self.end_term(&leader.instance, &leader.role, how, within)
            .await
    }

    async fn end_term(
        &self,
        instance: &Instance,
        role: &RoleName,
        how: StepDown,
        within: Duration,
    ) -> Result<SteppedDown, AdminError> {
        let request = AdminRequest {
            to: how.to,
            hold_off: how.hold_off,
            expected_fencing_token: how.expected,
            revision: None,
            unit: None,
        };
        let asked = self.have_done(instance, Verb::StepDown, Some(role), request, within);
        let not_understood = || AdminError::NotUnderstood {
            instance: Box::new(instance.clone()),
        };
        let ended = asked.await?.ended.remove(role.as_str());
        ended.map(stepped_down).ok_or_else(not_understood)
    }

    /// Keeps an instance from taking new terms of the role. Without a role this applies to every
    /// role that it has or is given later. Where the instance leads, it still leads.
    ///
    /// The method waits until the order is in force, up to 5 s.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownRole` and `Stopped`. Returns
    /// [`AdminError::NoSuchInstance`], [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the instance is paused all the same.
    pub async fn pause(&self, instance: &Instance, role: Option<&str>) -> Result<(), AdminError> {
        self.order(instance, Verb::Pause, role, ORDER).await?;
        Ok(())
    }

    /// Lets an instance take part in elections again, for the role or for all its roles.
    ///
    /// # Errors
    /// The same as [`pause`](Self::pause).
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the instance is resumed all the same.
    pub async fn resume(&self, instance: &Instance, role: Option<&str>) -> Result<(), AdminError> {
        self.order(instance, Verb::Resume, role, ORDER).await?;
        Ok(())
    }

    /// Does the same as [`pause`](Self::pause), and ends the terms that the instance has. Use it
    /// for maintenance.
    ///
    /// Each handler is wound down. Then its role is freed, for an instance that is ready to take it
    /// if there is one. The method waits until that is done, and returns the result for each role
    /// that the instance led.
    ///
    /// # Errors
    /// The same as `pause`. With the code `Unfinished` the instance goes on, so ask for the status.
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the instance is cordoned all the same.
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

    /// Has an instance treat the message at this revision of the role's key as over, so that it
    /// does not wait for the lease any longer. The revision is 0 if the message is missing.
    ///
    /// Use it for a leader that is known to be gone for good. Only an operator can know this.
    ///
    /// **If the writer of that message still leads, there are two leaders**, until that writer's
    /// next heartbeat is refused. Send the request to every instance. An instance that was not
    /// asked still waits, but any of the others that claims the role then leads it.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the code `Changed` if the instance does not wait for
    /// the role or sees another message there. Returns it with the code `UnknownRole` if the
    /// instance does not have the role. Nothing was done then.
    ///
    /// Returns [`AdminError::NoSuchInstance`] if the instance is not there, or if its version does
    /// not know this request. Returns [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the lease ends all the same.
    pub async fn end_lease(
        &self,
        instance: &Instance,
        role: &str,
        revision: u64,
    ) -> Result<(), AdminError> {
        let role = RoleName::new(role)?;
        let request = AdminRequest::end_of(revision);
        let asked = self.have_done(instance, Verb::EndLease, Some(&role), request, ORDER);
        asked.await.map(drop)
    }

    /// Returns what the planner of a group wants now, as this instance sees it. The plan of the
    /// planner itself is the best: see [`GroupPlan::is_planners`]. Of long lists the beginning is
    /// told. Waits up to 5 s.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `NotReady` and `Busy`. Returns
    /// [`AdminError::NoSuchInstance`] if the instance is not there, has no groups, or its version
    /// does not know this request. Returns [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn group_plan(
        &self,
        instance: &Instance,
        group: &str,
    ) -> Result<GroupPlan, AdminError> {
        let group = group_name(group)?;
        let request = AdminRequest::default();
        let asked = self.ask::<PlanReply>(instance, Verb::GroupPlan, Some(&group), &request, ORDER);
        Ok(asked.await?.plan)
    }

    /// Returns why a unit of a group is where it is, as this instance sees it. Waits up to 5 s. For
    /// this project's command.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `UnknownUnit`, `NotReady` (also
    /// if the group's policy explains nothing) and `Busy`; with `BadRequest` if the instance's
    /// version can't explain units.
    #[doc(hidden)]
    pub async fn explain_unit(
        &self,
        instance: &Instance,
        group: &str,
        unit: &str,
    ) -> Result<UnitExplanation, AdminError> {
        let group = group_name(group)?;
        let request = AdminRequest::for_unit(unit);
        let asked =
            self.ask::<ExplanationReply>(instance, Verb::GroupPlan, Some(&group), &request, ORDER);
        Ok(asked.await?.explanation)
    }

    /// Has a unit of a group given to this instance, and waits until it owns it. Returns the token
    /// of its term. [`GroupHandle::move_unit`](crate::GroupHandle::move_unit) describes the rules.
    ///
    /// The client first asks the instance for its status, to learn how long it may take.
    ///
    /// # Errors
    /// Returns [`AdminError::Refused`] with the codes `UnknownGroup`, `UnknownUnit`, `NotReady`,
    /// `TakesNone`, `AlreadyThere`, `TakenBack` and `Busy`. Nothing was done then. With the code
    /// `Unfinished` the unit may still move. Also returns [`AdminError::NoSuchInstance`],
    /// [`AdminError::Timeout`] and [`AdminError::Name`].
    ///
    /// # Cancel safety
    /// If the future is dropped after the request was sent, the unit may move all the same.
    pub async fn take_unit(
        &self,
        instance: &Instance,
        group: &str,
        unit: &str,
    ) -> Result<FencingToken, AdminError> {
        let name = group_name(group)?;
        let within = match self.status(instance).await {
            Ok(report) => {
                let group = report.groups.get(group);
                group.map_or(ORDER, |it| it.answers_within.min(LONGEST)) + ON_THE_WAY
            }
            Err(error) => match error.refusal() {
                Some(ProblemCode::TooLarge | ProblemCode::Busy) => UNKNOWN,
                _ => return Err(error),
            },
        };
        let request = AdminRequest::for_unit(unit);
        let asked = self.ask::<Taken>(instance, Verb::TakeUnit, Some(&name), &request, within);
        Ok(asked.await?.fencing_token)
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
        let asked = self.have_done(instance, verb, role.as_ref(), request, within);
        Ok(asked.await?.ended)
    }

    /// Returns how long an instance may take to end the terms that it has, by its own settings.
    async fn time_to_end(
        &self,
        instance: &Instance,
        role: Option<&RoleName>,
    ) -> Result<Duration, AdminError> {
        match self.report(instance, role).await {
            Ok(report) => Ok(time_for(report.roles.values())),
            // The instance has more roles than it can report at once, or just now.
            Err(error) => match error.refusal() {
                Some(ProblemCode::TooLarge | ProblemCode::Busy) => Ok(UNKNOWN),
                _ => Err(error),
            },
        }
    }

    // What follows is compiled here, and not in each program: see the manager's builder.

    fn discovered(&self, within: Duration) -> BoxFuture<'_, Result<Vec<Instance>, AdminError>> {
        Box::pin(async move { self.discover(within).await?.all().await })
    }

    fn led(
        &self,
        role: RoleName,
        within: Duration,
    ) -> BoxFuture<'_, Result<LeaderFound, AdminError>> {
        Box::pin(async move { self.find_leader(&role, within).await })
    }

    fn report<'a>(
        &'a self,
        instance: &'a Instance,
        role: Option<&'a RoleName>,
    ) -> BoxFuture<'a, Result<InstanceReport, AdminError>> {
        let request = AdminRequest::default();
        Box::pin(async move {
            self.ask(instance, Verb::Status, role, &request, STATUS)
                .await
        })
    }

    fn have_done<'a>(
        &'a self,
        instance: &'a Instance,
        verb: Verb,
        role: Option<&'a RoleName>,
        request: AdminRequest,
        within: Duration,
    ) -> BoxFuture<'a, Result<Done, AdminError>> {
        Box::pin(async move { self.ask(instance, verb, role, &request, within).await })
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
        let answers = self.subjects.answers();
        let asking = Asking::begin(&self.client, &answers, subject, body).await;
        let mut asking = asking.map_err(AdminError::unavailable)?;
        let Ok(answer) = tokio::time::timeout(within, asking.next()).await else {
            return Err(AdminError::timed_out(&asking, within));
        };
        let Some(message) = answer.map_err(AdminError::unavailable)? else {
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

/// Returns how long an instance may take to end its terms of these roles, by its own settings.
fn time_for<'a>(roles: impl IntoIterator<Item = &'a RoleReport>) -> Duration {
    let takes = roles.into_iter().map(|role| role.answers_within).max();
    takes.unwrap_or_default().min(LONGEST) + ON_THE_WAY
}

/// Returns a group's name as it stands in a subject. It has the rule of a role's name.
fn group_name(group: &str) -> Result<RoleName, AdminError> {
    let group = GroupName::new(group)?;
    Ok(RoleName::new(group.as_str())?)
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
