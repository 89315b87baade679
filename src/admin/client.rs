//! The client that sends requests to running instances: finding them, and what they report.

mod groups;
mod orders;

use std::fmt;
use std::time::Duration;

use async_nats::Client;
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::discovery::Discovery;
use super::{AdminError, Instance, InstanceReport, RoleReport};
use crate::model::admin::{
    AdminReply, AdminRequest, AdminSubjects, BucketId, Problem, Search, Verb, parse,
};
use crate::model::config::{DEFAULT_SUBJECT_PREFIX, check_prefix};
use crate::store::Asking;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::token::FencingToken;

/// The timeout for a status. An instance takes up to a second for it, because it asks its handlers
/// for their health.
const STATUS: Duration = Duration::from_secs(3);

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
    pub(super) bucket: BucketName,
    pub(super) prefix: String,
    pub(super) subjects: AdminSubjects,
    /// Which bucket of the name is meant.
    pub(super) search: Search,
}

/// The instance that leads a role, and its term.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaderFound {
    /// The instance.
    pub instance: Instance,
    /// The role.
    pub role: RoleName,
    /// The fencing token of its term, for [`StepDown::expecting`](crate::StepDown::expecting).
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
    /// bucket. While a role changes hands, both instances may answer so for a moment. Then
    /// [`StepDown::expecting`](crate::StepDown::expecting) with the fencing token ends no other term
    /// than the one that was found.
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

    /// Returns the instance's term of the role, if it leads the role.
    async fn leads(&self, instance: Instance, role: &RoleName) -> Option<LeaderFound> {
        let report = self.status_of(&instance, role.as_str()).await.ok()?;
        LeaderFound::of(&instance, role.as_str(), &report)
    }

    /// Sends a request. Its answers come to a subject of this service.
    pub(super) async fn send(&self, subject: String, body: Vec<u8>) -> Result<Asking, AdminError> {
        let answers = self.subjects.answers();
        let asking = Asking::begin(&self.client, &answers, subject, body).await;
        asking.map_err(AdminError::unavailable)
    }

    // What follows is compiled here, and not in each program: see the manager's builder.

    fn discovered(&self, within: Duration) -> BoxFuture<'_, Result<Vec<Instance>, AdminError>> {
        Box::pin(async move { Discovery::begin(self, within).await?.all().await })
    }

    fn led(
        &self,
        role: RoleName,
        within: Duration,
    ) -> BoxFuture<'_, Result<LeaderFound, AdminError>> {
        Box::pin(async move {
            let mut discovery = Discovery::begin(self, within).await?;
            let mut asked = FuturesUnordered::new();
            let mut searching = true;
            let mut leader = None;
            // Each instance is asked when it is found. The first that leads ends a search in one bucket.
            let is_one = !self.search.names_any();
            while searching || (leader.is_none() && !asked.is_empty()) {
                tokio::select! {
                    found = discovery.next(), if searching => match found? {
                        Some(instance) => asked.push(self.leads(instance, &role)),
                        None => searching = false,
                    },
                    Some(leads) = asked.next() => leader = leader.or(leads),
                }
                if is_one && leader.is_some() {
                    break;
                }
            }
            leader.ok_or_else(|| AdminError::NoLeader(role.to_string()))
        })
    }

    fn report<'a>(
        &'a self,
        instance: &'a Instance,
        role: Option<&RoleName>,
    ) -> BoxFuture<'a, Result<InstanceReport, AdminError>> {
        let request = AdminRequest::default();
        self.ask(instance, Verb::Status, role, &request, STATUS)
    }

    fn ask<'a, T: AdminReply + DeserializeOwned>(
        &'a self,
        instance: &'a Instance,
        verb: Verb,
        role: Option<&RoleName>,
        request: &AdminRequest,
        within: Duration,
    ) -> BoxFuture<'a, Result<T, AdminError>> {
        let subject = self.subjects.request(verb, instance.incarnation, role);
        let body = serde_json::json!(request).to_string().into_bytes();
        Box::pin(async move {
            let mut asking = self.send(subject, body).await?;
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
        })
    }
}

impl fmt::Debug for AdminClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminClient")
            .field("bucket", &self.bucket)
            .field("subject_prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
