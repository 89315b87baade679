//! The instances of a bucket, and what each says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::Client;
use futures::{StreamExt, stream};
use nats_elect::admin::{
    AdminClient, AdminError, Instance, InstanceReport, LeaderFound, ProblemCode, RoleReport,
};
use nats_elect::{Denied, ManagerConfig};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::connect::review;
use crate::exit::{Code, Failure};
use crate::line::Line;
use crate::options::Shared;

/// So many instances are asked at a time.
const AT_A_TIME: usize = 32;

/// An instance, and what it says.
pub struct Candidate {
    pub instance: Instance,
    pub report: Result<InstanceReport, AdminError>,
    /// How many of those who answered have its id.
    pub namesakes: usize,
}

impl Candidate {
    /// What it says of the role, if it stands for it.
    pub fn role(&self, role: &str) -> Option<&RoleReport> {
        self.report.as_ref().ok()?.roles.get(role)
    }

    /// Its term of the role, if it says that it leads.
    pub fn term(&self, role: &str) -> Option<LeaderFound> {
        LeaderFound::of(&self.instance, role, self.report.as_ref().ok()?)
    }
}

/// Whose instances are asked, where two buckets have one name.
#[derive(Clone, Copy)]
pub enum Whose<'a> {
    /// Those of the domain that was named. If none was, two buckets are a reason to refuse.
    Named(Option<&'a str>),
    /// Those of the bucket that this user reads.
    Read,
}

impl Shared {
    /// Whose instances a command asks that does not read the bucket.
    pub fn whose(&self) -> Whose<'_> {
        Whose::Named(self.connection.domain.as_deref())
    }

    /// Asks or operates instances. If what was looked for is not there, JetStream may be off.
    pub async fn operate<T>(
        &self,
        act: impl AsyncFnOnce(AdminClient) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match operating(&self.config()?, self.whose(), act).await {
            Err(failure) if failure.code == Code::NotFound => {
                Err(self.jetstream_off().await.unwrap_or(failure))
            }
            done => done,
        }
    }
}

impl Whose<'_> {
    /// Returns the client that asks them.
    pub async fn asked_by(
        self,
        client: &Client,
        config: &ManagerConfig,
    ) -> Result<AdminClient, Failure> {
        let prefix = &config.admin.subject_prefix;
        let admin = AdminClient::under(client.clone(), &config.bucket, prefix)?;
        Ok(match self {
            Self::Named(None) => admin,
            Self::Named(Some(domain)) => admin.in_domain(domain),
            Self::Read => {
                let read = review(client, &config.bucket, config.start_timeout).await;
                match read.flatten().and_then(|it| it.id) {
                    Some(bucket) => admin.of_bucket(&bucket),
                    None => admin,
                }
            }
        })
    }
}

/// Asks or operates instances, and ends as soon as the server forbids one of the requests: nothing
/// else would tell before the time is over.
pub async fn operating<T>(
    config: &ManagerConfig,
    whose: Whose<'_>,
    act: impl AsyncFnOnce(AdminClient) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let line = Line::connect(config, None).await?;
    let admin = whose.asked_by(&line.client, config).await?;
    let ours = format!("{}.{}.", config.admin.subject_prefix, config.bucket);
    let forbids = |denied: &Denied| denied.subject.starts_with(&ours);
    tokio::select! {
        biased;
        denied = line.hears(&forbids) => {
            Err(Failure::refused(denied.to_string()).advice(
                "deploy/nats/operator.conf has what it takes; `nats-elect doctor --as operator` tries it. \
                 What else was asked may have been done",
            ))
        }
        done = act(admin) => done,
    }
}

/// Returns the instances that answer one of two searches. An instance that is late among many in
/// the first one may not be late in the second.
pub async fn everyone(admin: &AdminClient, within: Duration) -> Result<Vec<Instance>, AdminError> {
    let mut found = admin.instances(within).await?;
    found.extend(admin.instances(within).await?);
    found.sort();
    found.dedup();
    Ok(found)
}

/// Asks these instances. With a role, those who do not stand for it are left out.
pub async fn asked(
    admin: &AdminClient,
    role: Option<&str>,
    instances: Vec<Instance>,
) -> Vec<Candidate> {
    let mut ids = BTreeMap::new();
    for instance in &instances {
        *ids.entry(instance.instance_id.clone()).or_default() += 1;
    }
    let asked = stream::iter(instances).map(async |instance: Instance| {
        let report = match role {
            Some(role) => admin.status_of(&instance, role).await,
            None => admin.status(&instance).await,
        };
        let namesakes = ids[&instance.instance_id];
        Candidate {
            instance,
            report,
            namesakes,
        }
    });
    let mut found: Vec<_> = asked.buffered(AT_A_TIME).collect().await;
    found.retain(|one| {
        let refusal = one.report.as_ref().err().and_then(AdminError::refusal);
        refusal != Some(ProblemCode::UnknownRole)
    });
    found
}

/// Returns the instances that take part in the election of the role, or do not report whether they
/// do.
pub async fn members(
    admin: &AdminClient,
    role: &str,
    within: Duration,
) -> Result<Vec<Candidate>, AdminError> {
    let mut members = asked(admin, Some(role), everyone(admin, within).await?).await;
    members.retain(|it| !matches!(it.report, Err(AdminError::NoSuchInstance(_))));
    Ok(members)
}

/// What tells an instance from all others, for programs.
pub fn named<S: Serializer>(instance: &Instance, to: S) -> Result<S::Ok, S::Error> {
    let (id, incarnation) = (&instance.instance_id, instance.incarnation);
    json!({ "instance_id": id, "incarnation": incarnation }).serialize(to)
}

/// What went wrong, for programs.
#[expect(clippy::ref_option, reason = "serde hands it over so")]
pub fn in_words<S: Serializer>(error: &Option<AdminError>, to: S) -> Result<S::Ok, S::Error> {
    error.as_ref().map(ToString::to_string).serialize(to)
}
