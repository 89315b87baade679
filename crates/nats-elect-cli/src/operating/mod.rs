//! Operating instances, by a user who may not be allowed to.
//!
//! ```text
//! step_down   a leader hands its role over
//! orders      an instance stands for election, or does not
//! drain       all units leave an instance, and its roles as well
//! unit_move   a unit is given to an instance
//! stepped     what became of a term that was ended on purpose
//! standby     which candidates could take a role over
//! ```

pub mod drain;
pub mod orders;
pub mod standby;
pub mod step_down;
pub mod stepped;
pub mod unit_move;

use std::time::Duration;

use async_nats::Client;
use futures::future::join_all;
use nats_elect::admin::{AdminClient, AdminError, Instance, ProblemCode, RoleReport};
use nats_elect::{Denied, ManagerConfig};

use crate::connect::bucket_id;
use crate::exit::{Code, Failure};
use crate::line::Line;

/// An instance, and its report about a role.
pub struct Member {
    pub instance: Instance,
    pub role: Result<RoleReport, AdminError>,
}

/// Whose instances are asked, where two buckets have one name.
#[derive(Clone, Copy)]
pub enum Whose<'a> {
    /// Those of the domain that was named. If none was, two buckets are a reason to refuse.
    Named(Option<&'a str>),
    /// Those of the bucket that this user reads.
    Read,
}

impl Whose<'_> {
    /// Returns the client that asks them.
    pub async fn asked_by(
        self,
        admin: AdminClient,
        client: &Client,
        config: &ManagerConfig,
    ) -> AdminClient {
        match self {
            Self::Named(None) => admin,
            Self::Named(Some(domain)) => admin.in_domain(domain),
            Self::Read => match bucket_id(client, &config.bucket, config.start_timeout).await {
                Some(bucket) => admin.of_bucket(&bucket),
                None => admin,
            },
        }
    }
}

/// Does it, and ends as soon as the server forbids one of the requests: nothing else would tell
/// before the time is over.
pub async fn operating<T>(
    config: &ManagerConfig,
    whose: Whose<'_>,
    act: impl AsyncFnOnce(AdminClient) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let line = Line::connect(config, None, config.start_timeout).await?;
    let prefix = &config.admin.subject_prefix;
    let admin = AdminClient::under(line.client.clone(), &config.bucket, prefix)?;
    let admin = whose.asked_by(admin, &line.client, config).await;
    let ours = format!("{prefix}.{}.", config.bucket);
    let forbids = |denied: &Denied| denied.subject.starts_with(&ours);
    tokio::select! {
        biased;
        denied = line.hears(&forbids) => {
            Err(Failure::new(Code::Refused, denied.to_string()).advice(
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

/// Returns the instances that take part in the election of the role, or do not report whether they
/// do.
pub async fn members(
    admin: &AdminClient,
    role: &str,
    within: Duration,
) -> Result<Vec<Member>, AdminError> {
    let instances = everyone(admin, within).await?;
    let asked = instances.into_iter().map(async |instance| {
        let report = admin.status_of(&instance, role).await;
        let report = report.and_then(|mut report| {
            let gone = || AdminError::NoSuchInstance(instance.to_string());
            report.roles.remove(role).ok_or_else(gone)
        });
        Member {
            instance,
            role: report,
        }
    });
    let mut members = join_all(asked).await;
    members.retain(|member| match &member.role {
        Err(AdminError::NoSuchInstance(_)) => false,
        Err(error) => error.refusal() != Some(ProblemCode::UnknownRole),
        Ok(_) => true,
    });
    Ok(members)
}
