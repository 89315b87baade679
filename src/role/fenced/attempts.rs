//! The attempts of one call: how long they go on, and the pauses between them.

use std::time::Duration;

use super::FencedStore;
use super::error::FencedError;
use crate::backoff::Backoff;
use crate::clock;
use nats_elect_core::Moment;

/// The pauses between two attempts. They double from the first value to the second.
const PAUSE: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(200));

pub(super) struct Attempts<'a> {
    store: &'a FencedStore,
    pub until: Moment,
    /// The number of pauses so far.
    pauses: u32,
}

impl<'a> Attempts<'a> {
    pub const fn new(store: &'a FencedStore, until: Moment) -> Self {
        Self {
            store,
            until,
            pauses: 0,
        }
    }

    /// Returns the time left of the call and of the lease, whichever is shorter.
    pub fn left(&self) -> Duration {
        let left = self.until.since(clock::now());
        if self.store.unchecked {
            left
        } else {
            left.min(self.store.term.remaining())
        }
    }

    /// Returns the time for a read that examines a refusal: as long as the call may take, and a
    /// moment more.
    pub fn reading(&self) -> Duration {
        self.until.since(clock::now()).max(PAUSE.longest())
    }

    pub async fn pause(&mut self, reason: &str) -> Result<(), FencedError> {
        let pause = PAUSE.spread_after(self.pauses);
        self.pauses += 1;
        if self.left() <= pause {
            self.store.may_send()?;
            let reason = reason.to_owned();
            return Err(FencedError::Unavailable { reason });
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
