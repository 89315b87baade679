//! The amount of data that a role keeps by fenced writes, and the limit on it.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::OnceCell;

use super::batch::Change;
use super::data_bucket::DataBucket;
use super::error::FencedError;
use super::unread;
use crate::lock::lock;
use crate::store::DataOwner;

/// The bytes that a key counts beside its name and its value. For names of ordinary length this is
/// more than the server stores with them, headers included.
pub(super) const BESIDE: u64 = 512;

/// A limit, and what a term knows about the data that counts against it.
#[derive(Debug)]
pub(super) struct Allowance {
    limit: u64,
    /// Read before the term's first write. From then on no write of an earlier term lands, so all
    /// new data is the term's own.
    usage: OnceCell<Mutex<Usage>>,
}

#[derive(Debug, Default)]
struct Usage {
    total: u64,
    keys: HashMap<String, Held>,
}

/// The most that a key may take.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bytes: u64,
    /// The writes of the key that are under way.
    under_way: u32,
    /// The stored value is not known to be one of these alone.
    unclear: bool,
}

/// Room for a call's writes, until the result of the call is known.
#[must_use]
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    usage: &'a Mutex<Usage>,
    /// Each key with the bytes that it took before, and the bytes that it takes once it is written.
    writes: Vec<(String, u64, u64)>,
    written: Option<bool>,
}

impl Allowance {
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            usage: OnceCell::new(),
        }
    }

    /// Makes room for these changes. Changes that take no more than before are let through, even
    /// beyond the limit.
    pub async fn reserve(
        &self,
        bucket: &DataBucket,
        owner: &DataOwner,
        changes: &[Change],
        timeout: Duration,
    ) -> Result<Reserved<'_>, FencedError> {
        let reading = self.usage.get_or_try_init(async || {
            let stored = bucket.data_sizes(owner, timeout).await;
            let stored = stored.map_err(|error| unread(&error))?;
            let mut usage = Usage::default();
            for (key, bytes) in stored {
                let bytes = counted(&key, bytes);
                usage.total += bytes;
                let held = Held {
                    bytes,
                    ..Held::default()
                };
                usage.keys.insert(key, held);
            }
            Ok::<_, FencedError>(Mutex::new(usage))
        });
        let usage = reading.await?;
        let mut all = lock(usage);
        let mut total = all.total;
        let mut writes = Vec::with_capacity(changes.len());
        for change in changes {
            let key = change.key.to_string();
            let bytes = change.value.as_ref().map_or(0, Vec::len) as u64;
            let (before, after) = (
                all.keys.get(&key).map_or(0, |held| held.bytes),
                counted(&key, bytes),
            );
            total += after.saturating_sub(before);
            writes.push((key, before, after));
        }
        if total > self.limit && total > all.total {
            let limit = self.limit;
            return Err(FencedError::OverLimit {
                bytes: total,
                limit,
            });
        }
        all.total = total;
        for (key, _, after) in &writes {
            let held = all.keys.entry(key.clone()).or_default();
            held.unclear |= held.under_way > 0;
            held.under_way += 1;
            held.bytes = held.bytes.max(*after);
        }
        drop(all);
        Ok(Reserved {
            usage,
            writes,
            written: None,
        })
    }
}

impl Reserved<'_> {
    /// Takes the result of the call. A write that may still land keeps its room.
    pub fn settle<T>(mut self, ended: &Result<T, FencedError>) {
        self.written = match ended {
            Ok(_) => Some(true),
            Err(FencedError::Superseded { .. } | FencedError::Unconfirmed { .. }) => None,
            Err(_) => Some(false),
        };
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut all = lock(self.usage);
        for (key, before, after) in self.writes.drain(..) {
            let Some(held) = all.keys.get_mut(&key) else {
                continue;
            };
            held.under_way -= 1;
            if held.unclear || held.under_way > 0 || self.written.is_none() {
                held.unclear = true;
                continue;
            }
            let settled = if self.written == Some(true) {
                after
            } else {
                before
            };
            let freed = held.bytes - settled;
            held.bytes = settled;
            if settled == 0 {
                all.keys.remove(&key);
            }
            all.total -= freed;
        }
    }
}

fn counted(key: &str, value: u64) -> u64 {
    BESIDE + key.len() as u64 + value
}
