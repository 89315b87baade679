//! The search for instances.

use std::collections::BTreeSet;
use std::time::Duration;

use async_nats::Client;

use super::{AdminError, Instance};
use crate::clock;
use crate::model::admin::micro::Info;
use crate::model::admin::{AdminSubjects, parse};
use crate::store::Asking;
use nats_elect_core::Moment;
use nats_elect_core::name::BucketName;

/// After this time without a further answer, all instances count as having answered.
const QUIET: Duration = Duration::from_millis(400);
/// The most instances that are listed. No real fleet has as many, and a client that may answer
/// could invent more.
const MOST_INSTANCES: usize = 10_000;

/// The search for instances: each is found when its answer comes.
pub(super) struct Discovery<'a> {
    asking: Asking,
    bucket: &'a BucketName,
    prefix: &'a str,
    within: Duration,
    end: Moment,
    /// At least one instance answered.
    heard: bool,
    found: BTreeSet<Instance>,
}

impl<'a> Discovery<'a> {
    pub async fn begin(
        client: &Client,
        subjects: &AdminSubjects,
        bucket: &'a BucketName,
        prefix: &'a str,
        within: Duration,
    ) -> Result<Self, AdminError> {
        let asking = Asking::begin(client, &subjects.answers(), subjects.search(), Vec::new())
            .await
            .map_err(AdminError::unavailable)?;
        Ok(Self {
            asking,
            bucket,
            prefix,
            within,
            end: clock::now() + within,
            heard: false,
            found: BTreeSet::new(),
        })
    }

    /// Returns the next instance that answers, each once. Returns `None` if all have answered.
    ///
    /// Nothing is lost if the future is dropped, except the time that it waited.
    pub async fn next(&mut self) -> Result<Option<Instance>, AdminError> {
        while self.found.len() < MOST_INSTANCES {
            let left = self.end.since(clock::now());
            let wait = if self.heard { QUIET.min(left) } else { left };
            match tokio::time::timeout(wait, self.asking.next()).await {
                Ok(Ok(Some(message))) => {
                    self.heard = true;
                    let info: Option<Info> = parse(&message.payload);
                    let found = info.and_then(|it| Instance::of(&it, self.bucket, self.prefix));
                    if let Some(found) = found.filter(|it| self.found.insert(it.clone())) {
                        return Ok(Some(found));
                    }
                }
                Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(AdminError::unavailable(error)),
                Err(_) if self.heard => return Ok(None),
                // An instance is subscribed there. Otherwise the server would have reported that
                // there is none.
                Err(_) => return Err(AdminError::timed_out(&self.asking, self.within)),
            }
        }
        Ok(None)
    }

    /// Returns all instances that answer, in the order of their ids.
    pub async fn all(mut self) -> Result<Vec<Instance>, AdminError> {
        while self.next().await?.is_some() {}
        Ok(self.found.into_iter().collect())
    }
}
