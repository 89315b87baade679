//! The amount of data that a role keeps by fenced writes, and the limit on it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::{Mutex, MutexGuard};

use super::data_bucket::DataBucket;
use super::error::FencedError;
use super::unread;
use crate::store::{DataOwner, DataWrite};

/// The bytes that a key counts beside its name and its value. For names of ordinary length this is
/// more than the server stores with them, headers included.
pub(super) const BESIDE: u64 = 512;

/// A limit, and what a term knows about the data that counts against it. Writes that count go one
/// after another.
#[derive(Debug)]
pub(in crate::role) struct Allowance {
    limit: u64,
    /// The most that each key may take. Read before the term's first write. From then on no write
    /// of an earlier term lands, so all new data is the term's own.
    usage: Mutex<Option<HashMap<String, Held>>>,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    /// A write of the key may still land.
    unclear: bool,
}

/// Room for a call's writes. They keep it if the result of the call never comes.
#[must_use]
#[derive(Debug)]
pub(super) struct Reserved<'a> {
    usage: MutexGuard<'a, Option<HashMap<String, Held>>>,
    /// Each key as it was before, and the bytes that it takes once it is written.
    writes: Vec<(String, Option<Held>, u64)>,
}

impl Allowance {
    pub fn new(limit: u64) -> Self {
        Self {
            limit,
            usage: Mutex::default(),
        }
    }

    /// Makes room for these changes. Changes that take no more than before are let through, even
    /// beyond the limit.
    pub(super) async fn reserve(
        &self,
        bucket: &DataBucket,
        owner: &DataOwner,
        changes: &[DataWrite],
        timeout: Duration,
    ) -> Result<Reserved<'_>, FencedError> {
        let usage = tokio::time::timeout(timeout, self.usage.lock()).await;
        let mut usage = usage.map_err(|_| FencedError::Unavailable {
            reason: "other writes of this term are under way".into(),
        })?;
        if usage.is_none() {
            let stored = bucket.data_sizes(owner, timeout).await;
            let stored = stored.map_err(|error| unread(&error))?;
            let held = stored.into_iter().map(|(key, bytes)| {
                let bytes = counted(&key, bytes);
                let unclear = false;
                (key, Held { bytes, unclear })
            });
            *usage = Some(held.collect());
        }
        let all = usage.get_or_insert_default();
        let before: u64 = all.values().map(|held| held.bytes).sum();
        let mut total = before;
        let mut writes = Vec::with_capacity(changes.len());
        for change in changes {
            let key = change.key.to_string();
            let bytes = change.value.as_ref().map_or(0, Vec::len) as u64;
            let (held, after) = (all.get(&key).copied(), counted(&key, bytes));
            total += after.saturating_sub(held.map_or(0, |held| held.bytes));
            writes.push((key, held, after));
        }
        if total > self.limit && total > before {
            let limit = self.limit;
            return Err(FencedError::OverLimit {
                bytes: total,
                limit,
            });
        }
        for (key, held, after) in &writes {
            let bytes = held.map_or(0, |held| held.bytes).max(*after);
            let unclear = true;
            all.insert(key.clone(), Held { bytes, unclear });
        }
        Ok(Reserved { usage, writes })
    }
}

impl Reserved<'_> {
    /// Takes the result of the call. A write that may still land keeps its room.
    pub(super) fn settle<T>(mut self, ended: &Result<T, FencedError>) {
        let all = self.usage.get_or_insert_default();
        for (key, before, bytes) in self.writes {
            let unclear = false;
            let held = match ended {
                Err(FencedError::Superseded { .. } | FencedError::Unconfirmed { .. }) => continue,
                Ok(_) if before.is_some_and(|held| held.unclear) => continue,
                Ok(_) => Some(Held { bytes, unclear }),
                Err(_) => before,
            };
            match held {
                Some(held) => all.insert(key, held),
                None => all.remove(&key),
            };
        }
    }
}

fn counted(key: &str, value: u64) -> u64 {
    BESIDE + key.len() as u64 + value
}
