//! A watch over the keys of one filter. It shows them in the stream's order, and tells when it has
//! caught up.

use std::time::Duration;

use async_nats::Message;
use futures::FutureExt;

use super::bucket::{Bucket, Standing};
use super::error::StoreError;
use super::feed::broken;
use super::watch::Watch;
use crate::clock;

/// A watch over the keys of one filter.
pub(super) struct OrderedWatch {
    watch: Watch,
    /// The bucket after the watch had begun.
    pub standing: Standing,
    is_caught_up: bool,
}

/// What the watch tells.
pub(super) enum Next {
    /// A message, with its sequence.
    Stored(u64, Message),
    /// All that was stored when the watch began was shown. The stream's last sequence was this one.
    CaughtUp(u64),
    /// Nothing new.
    Nothing,
}

impl Bucket {
    /// Watches keys in the stream's order: first the last message of each key, then every message as
    /// it comes.
    ///
    /// The watch ends with its first error, silence included. Begin another one then.
    pub(super) async fn watch_in_order(
        &self,
        keys: &str,
        timeout: Duration,
    ) -> Result<OrderedWatch, StoreError> {
        let keys = self.subject(keys);
        let mut watch = self
            .watch_keys(std::slice::from_ref(&keys), timeout)
            .await?;
        // Requested after the watch has begun, so later sequences are new messages. The keys come
        // last: so the watch has shown all that stood there up to the stream's last sequence.
        let standing = self.standing_since(clock::now(), timeout).await?;
        let last = self.last(keys, timeout).await?;
        watch
            .feed
            .catches_up_at([last.map(|message| message.sequence)]);
        Ok(OrderedWatch {
            watch,
            standing,
            is_caught_up: false,
        })
    }
}

impl OrderedWatch {
    /// Returns what the watch tells next, and with it all that has arrived already, up to so many,
    /// less what `read` leaves out.
    pub async fn next_batch<T>(
        &mut self,
        most: usize,
        read: impl Fn(Next) -> Option<T>,
    ) -> Result<Vec<T>, StoreError> {
        let mut told: Vec<T> = read(self.next().await?).into_iter().collect();
        for _ in 1..most {
            let Some(next) = self.next().now_or_never() else {
                break;
            };
            told.extend(read(next?));
        }
        Ok(told)
    }

    /// Returns what the watch tells next. The watch is over with the first error.
    async fn next(&mut self) -> Result<Next, StoreError> {
        if !self.is_caught_up && self.watch.has_caught_up() {
            self.is_caught_up = true;
            return Ok(Next::CaughtUp(self.standing.last_sequence));
        }
        match self.watch.next_stored().await? {
            Some((sequence, message)) => Ok(Next::Stored(sequence, message)),
            None if self.is_caught_up => Ok(Next::Nothing),
            // Its server lags, or the last of the keys was removed at this moment.
            None => Err(broken("it was idle before it had caught up")),
        }
    }
}
