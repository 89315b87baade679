//! The keys of groups, of which one map says who owns what: their watch, writes under them, and reads
//! from the stream's leader.
//!
//! Whoever watches or reads names the bucket by its creation time. A map of another bucket means
//! nothing, so that all of these end with an error where the bucket was replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use async_nats::header::NATS_MESSAGE_TTL;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::stream::RawMessage;
use async_nats::{HeaderMap, Request};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use super::bucket::{Bucket, Standing};
use super::data::LOOKS;
use super::entry::{is_marker, pairs};
use super::error::StoreError;
use super::feed::broken;
use super::watch::Watch;
use super::write::expecting;
use crate::clock;
use nats_elect_core::assignment::{Epoch, Key, Value};
use nats_elect_core::member::{Found, Look, Over};
use nats_elect_core::name::GroupName;

/// A watch over keys of groups.
pub struct AssignmentWatch {
    watch: Watch,
    /// The bucket after the watch had begun.
    standing: Standing,
    is_caught_up: bool,
}

/// What the watch tells.
#[derive(Debug, PartialEq, Eq)]
pub enum AssignmentDelivery {
    /// A value, and its sequence.
    Shown(Key, u64, Value),
    /// All that was stored when the watch began was shown. The stream's last sequence was this one.
    CaughtUp(u64),
}

impl Bucket {
    /// Watches keys of groups, in the stream's order: first the last value of each key, then every
    /// value as it comes. `keys` is [`Key::all_of`] a group, or [`Key::ALL`].
    ///
    /// The watch ends with its first error, silence included. Begin another one then.
    pub async fn watch_assignment(
        &self,
        keys: &str,
        epoch: u64,
        timeout: Duration,
    ) -> Result<AssignmentWatch, StoreError> {
        let keys = self.subject(keys);
        let mut watch = self
            .watch_keys(std::slice::from_ref(&keys), timeout)
            .await?;
        // Requested after the watch has begun, so later sequences are new messages. The keys come
        // last: so the watch has shown all that stood there up to the stream's last sequence.
        let standing = self.standing_since(clock::now(), timeout).await?;
        require_same(standing.epoch, epoch)?;
        let last = self.last(keys, timeout).await?;
        watch
            .feed
            .catches_up_at([last.map(|message| message.sequence)]);
        Ok(AssignmentWatch {
            watch,
            standing,
            is_caught_up: false,
        })
    }

    /// Writes a value. Returns its sequence.
    ///
    /// [`Over::Anything`] makes the write unconditional. That is for *ended* under a member's own key.
    /// After `ttl` the server removes the value. A bucket without times to live refuses that.
    pub fn write_assignment(
        &self,
        key: &Key,
        over: Over,
        value: Vec<u8>,
        ttl: Option<Duration>,
        timeout: Duration,
    ) -> impl Future<Output = Result<u64, StoreError>> + Send + use<'_> {
        let mut headers = match over {
            Over::Sequence(over) => expecting(over),
            Over::Anything => HeaderMap::new(),
        };
        if let Some(ttl) = ttl {
            headers.insert(NATS_MESSAGE_TTL, format!("{}s", ttl.as_secs()));
        }
        let request = Request::new().headers(headers).payload(value.into());
        self.publish(self.subject(key), request, timeout)
    }

    /// Reads a key from the stream's leader, and then the bucket's creation time, as
    /// [`snapshot`](Self::snapshot) does for a role.
    pub async fn read_assignment(
        &self,
        key: &Key,
        epoch: u64,
        timeout: Duration,
    ) -> Result<Option<(u64, Value)>, StoreError> {
        let left = clock::countdown(timeout);
        let message = self.last(self.subject(key), left()).await?;
        let standing = self.standing_since(clock::now(), left()).await?;
        require_same(standing.epoch, epoch)?;
        Ok(message.map(|message| (message.sequence, stored(key, message, epoch))))
    }

    /// Reads a member's key and then the map's from the stream's leader, and then the bucket's creation
    /// time. If that is not `epoch`, what was read means nothing and is left out.
    pub async fn look(
        &self,
        own: &Key,
        map: &Key,
        epoch: u64,
        timeout: Duration,
    ) -> Result<Look, StoreError> {
        let left = clock::countdown(timeout);
        let own_read = self.last(self.subject(own), left()).await?;
        let map_read = self.last(self.subject(map), left()).await?;
        let standing = self.standing_since(clock::now(), left()).await?;
        let value = |key, message: Option<RawMessage>| {
            let message = message.filter(|_| standing.epoch == epoch)?;
            Some((message.sequence, stored(key, message, epoch)))
        };
        Ok(Look {
            bucket: Some(standing.epoch),
            own: value(own, own_read),
            map: value(map, map_read),
        })
    }

    /// Reads the keys of all members of a group from the stream's leader, which must have come to the
    /// sequence `since`. Returns the last value that was found under each.
    ///
    /// No key is missed that was there at that sequence, unless it was emptied since. The keys are
    /// read in the order of their sequences, up to the last one that was there at first. A value that
    /// is written meanwhile moves ahead. So the keys are listed then, and those that were not read yet
    /// are read one by one. Members that write all the time can't hold that up.
    ///
    /// n keys take n + 3 requests, one after the other, and many at a time those that were written
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`StoreError::Unavailable`] also if the answers do not fit together, as those of a server that
    /// is not the leader any more. [`StoreError::Rejected`] if there are more than
    /// [`MOST_KEYS`](super::data::MOST_KEYS).
    pub async fn read_members(
        &self,
        group: &GroupName,
        epoch: u64,
        since: u64,
        timeout: Duration,
    ) -> Result<Vec<Found>, StoreError> {
        let filter = self.subject(Key::members_of(group));
        let reading = async {
            let last = self.last(filter.clone(), timeout).await?;
            let last = last.map_or(0, |message| message.sequence);
            let (mut at, mut found) = (0, BTreeMap::new());
            while at < last {
                let next = self.next_after(at, &filter, timeout).await?;
                let message = next.ok_or_else(behind)?;
                at = message.sequence;
                found.extend(self.found(message, epoch));
            }
            let (subjects, stands) = self.subjects(&filter, timeout).await?;
            if last < since || stands < at {
                return Err(behind());
            }
            let is_unread = |subject: &String| {
                let key = self.assignment_key(subject);
                matches!(key, Some(Key::Member(_, member)) if !found.contains_key(&member))
            };
            let unread = subjects.into_iter().filter(is_unread);
            let reads = unread.map(|subject| self.last(subject, timeout));
            let reads = stream::iter(reads).buffer_unordered(LOOKS);
            let written: Vec<_> = reads.try_collect().await?;
            for message in written.into_iter().flatten() {
                // An earlier one would have been read in its turn.
                if message.sequence <= last {
                    return Err(behind());
                }
                found.extend(self.found(message, epoch));
            }
            let standing = self.standing_since(clock::now(), timeout).await?;
            require_same(standing.epoch, epoch)?;
            Ok(found.into_values().collect())
        };
        let read = tokio::time::timeout(timeout, reading).await;
        read.unwrap_or_else(|_| {
            let subject = format!("$JS.API.STREAM.MSG.GET.{}", self.stream());
            Err(StoreError::Timeout { subject })
        })
    }

    fn found(&self, message: RawMessage, epoch: u64) -> Option<(Epoch, Found)> {
        let key = self.assignment_key(&message.subject)?;
        let Key::Member(_, member) = key else {
            return None;
        };
        let found = Found {
            epoch: member,
            sequence: message.sequence,
            value: stored(&key, message, epoch),
        };
        Some((member, found))
    }

    fn assignment_key(&self, subject: &str) -> Option<Key> {
        Key::parse(subject.strip_prefix(self.prefix())?)
    }
}

impl AssignmentWatch {
    /// Returns what the watch tells next, and with it all that has arrived already, up to so many. If
    /// the server has nothing to tell, that is nothing, about once a second.
    ///
    /// Keys that are neither a map's nor a member's are left out.
    pub async fn next_batch(&mut self, most: usize) -> Result<Vec<AssignmentDelivery>, StoreError> {
        let mut told: Vec<_> = self.next().await?.into_iter().collect();
        for _ in 1..most {
            let Some(next) = self.next().now_or_never() else {
                break;
            };
            told.extend(next?);
        }
        Ok(told)
    }

    /// Returns what the watch tells next. The watch is over with the first error.
    async fn next(&mut self) -> Result<Option<AssignmentDelivery>, StoreError> {
        if !self.is_caught_up && self.watch.has_caught_up() {
            self.is_caught_up = true;
            return Ok(Some(AssignmentDelivery::CaughtUp(
                self.standing.last_sequence,
            )));
        }
        let Some((sequence, message)) = self.watch.next_stored().await? else {
            if self.is_caught_up {
                return Ok(None);
            }
            // Its server lags, or the last of the keys was removed at this moment.
            return Err(broken("it was idle before it had caught up"));
        };
        let key = self.watch.bucket.assignment_key(&message.subject);
        Ok(key.map(|key| {
            let headers = message.headers.as_ref();
            let epoch = self.standing.epoch;
            let value = value(&key, sequence, headers, &message.payload, epoch);
            AssignmentDelivery::Shown(key, sequence, value)
        }))
    }
}

/// Interprets a message that was read. Headers that can't be read don't hide that there is a value.
fn stored(key: &Key, message: RawMessage, epoch: u64) -> Value {
    let read = StreamMessage::try_from(message);
    read.map_or(Value::Foreign, |it| {
        value(key, it.sequence, Some(&it.headers), &it.payload, epoch)
    })
}

fn value(
    key: &Key,
    sequence: u64,
    headers: Option<&HeaderMap>,
    payload: &[u8],
    epoch: u64,
) -> Value {
    if headers.is_some_and(is_marker) {
        return Value::Foreign;
    }
    let headers = headers.into_iter().flat_map(pairs);
    Value::read(key, sequence, payload, headers, epoch)
}

fn behind() -> StoreError {
    StoreError::Unavailable("the stream's leader is behind".into())
}

pub(super) fn require_same(found: u64, epoch: u64) -> Result<(), StoreError> {
    if found == epoch {
        Ok(())
    } else {
        Err(StoreError::another_bucket())
    }
}
