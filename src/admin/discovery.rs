//! The search for instances.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{AdminClient, AdminError, Instance};
use crate::clock;
use crate::model::admin::micro::Info;
use crate::model::admin::{BucketId, parse};
use crate::store::Asking;
use nats_elect_core::Moment;

/// After this time without a further answer, all instances count as having answered.
const QUIET: Duration = Duration::from_millis(400);
/// The most instances that are listed. No real fleet has as many, and a client that may answer
/// could invent more.
const MOST_INSTANCES: usize = 10_000;

/// The search for instances: each is found when its answer comes.
pub(super) struct Discovery<'a> {
    client: &'a AdminClient,
    asking: Asking,
    within: Duration,
    end: Moment,
    /// At least one instance answered.
    heard: bool,
    found: BTreeSet<Instance>,
    /// The bucket of those that told theirs.
    told: Option<BucketId>,
}

impl<'a> Discovery<'a> {
    pub async fn begin(client: &'a AdminClient, within: Duration) -> Result<Self, AdminError> {
        let subject = client.subjects.search();
        let body = client.search.to_json();
        Ok(Self {
            client,
            asking: client.send(subject, body).await?,
            within,
            end: clock::now() + within,
            heard: false,
            found: BTreeSet::new(),
            told: None,
        })
    }

    /// Returns the next instance that answers, each once. Returns `None` if all have answered.
    /// Fails at the first answer from another bucket of the name.
    ///
    /// Nothing is lost if the future is dropped, except the time that it waited.
    pub async fn next(&mut self) -> Result<Option<Instance>, AdminError> {
        while self.found.len() < MOST_INSTANCES {
            let left = self.end.since(clock::now());
            let wait = if self.heard { QUIET.min(left) } else { left };
            match tokio::time::timeout(wait, self.asking.next()).await {
                Ok(Ok(Some(message))) => {
                    self.heard = true;
                    let Some(info) = parse::<Info>(&message.payload) else {
                        continue;
                    };
                    let bucket = BucketId::of(&info.identity);
                    let found = Instance::of(&info, &self.client.bucket, &self.client.prefix);
                    let found = found.filter(|_| self.client.search.means(bucket.as_ref()));
                    let Some(found) = found else { continue };
                    self.check(bucket)?;
                    if self.found.insert(found.clone()) {
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

    /// Refuses a second bucket.
    fn check(&mut self, bucket: Option<BucketId>) -> Result<(), AdminError> {
        let Some(bucket) = bucket else { return Ok(()) };
        let first = self.told.get_or_insert_with(|| bucket.clone());
        if *first == bucket {
            return Ok(());
        }
        let mut found = [first.clone(), bucket];
        found.sort();
        Err(AdminError::TwoBuckets {
            name: self.client.bucket.to_string(),
            found: Box::new(found),
        })
    }

    /// Returns all instances that answer, in the order of their ids.
    pub async fn all(mut self) -> Result<Vec<Instance>, AdminError> {
        while self.next().await?.is_some() {}
        Ok(self.found.into_iter().collect())
    }
}
