//! The handler of a shard: it counts, in a store that only the shard's owner can write to.

use std::sync::Arc;
use std::time::Duration;

use drill::journal::{Journal, Page, What};
use nats_elect::{BoxError, FencedError, FencedStore, RoleHandler, Term};
use tokio::time::sleep;

/// The key of the counter, in the shard's own part of the bucket.
const KEY: &str = "count";

/// One handler serves all shards. Each shard has a term of its own.
pub struct Counter {
    /// The wait between two counts.
    pub pace: Duration,
    /// What the verdict is made from. A real service has none.
    pub journal: Arc<Journal>,
}

impl RoleHandler for Counter {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let shard = term.shard().ok_or("not of a shard")?;
        let page = self.journal.begin(shard, &term); // Its drop writes the end down.
        self.count(&page, &term).await
    }
}

impl Counter {
    /// Counts until the term is cancelled.
    pub async fn count(&self, page: &Page<'_>, term: &Term) -> Result<(), BoxError> {
        let store = term.store();
        let mut last = Last::read(&store).await?;
        while term.run_until_cancelled(sleep(self.pace)).await.is_some() {
            let next = last.count + 1;
            page.write(What::Sending(next));
            match last.add(&store).await {
                Ok(stored) => {
                    page.write(What::Counted(next));
                    last = stored;
                }
                Err(error) => {
                    page.failed(next, &error);
                    match error {
                        // The shard has another owner by now.
                        FencedError::NotLeader | FencedError::Superseded { .. } => break,
                        // This count or the one before may have been stored all the same.
                        _ => last = Last::read(&store).await?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// The counter as it was last seen.
struct Last {
    count: u64,
    /// `None` before the first count.
    revision: Option<u64>,
}

impl Last {
    async fn read(store: &FencedStore) -> Result<Self, BoxError> {
        Ok(match store.get(KEY).await? {
            Some(entry) => Self {
                count: String::from_utf8(entry.value)?.parse()?,
                revision: Some(entry.revision),
            },
            None => Self {
                count: 0,
                revision: None,
            },
        })
    }

    /// Adds one, if nothing was written since this was read.
    async fn add(&self, store: &FencedStore) -> Result<Self, FencedError> {
        let count = self.count + 1;
        let value = count.to_string();
        let revision = match self.revision {
            Some(revision) => store.update(KEY, value, revision).await?,
            None => store.create(KEY, value).await?,
        };
        Ok(Self {
            count,
            revision: Some(revision),
        })
    }
}
