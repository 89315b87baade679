//! The log of an outage of the connection: one warning when it begins, one a minute while it lasts,
//! and its length when it is over.

use crate::repeated::REMINDER;
use nats_elect_core::Moment;
use nats_elect_core::duration::rounded;

/// An outage that lasts.
#[derive(Debug)]
pub(super) struct Outage {
    since: Moment,
    reminded_at: Moment,
    /// The number of attempts to reconnect that failed.
    attempts: u64,
    last_error: Option<String>,
}

impl Outage {
    /// Begins, with a warning that names the server.
    pub fn began(server: &str, now: Moment) -> Self {
        tracing::warn!(
            server,
            "connection to NATS lost: reconnecting; leaders go on until their leases end"
        );
        Self {
            since: now,
            reminded_at: now,
            attempts: 0,
            last_error: None,
        }
    }

    /// Counts a failed attempt to reconnect.
    pub fn failed(&mut self, error: String) {
        self.attempts += 1;
        self.last_error = Some(error);
    }

    /// Warns again if the last warning is long ago.
    pub fn lasts(&mut self, now: Moment) {
        if now < self.reminded_at + REMINDER {
            return;
        }
        self.reminded_at = now;
        tracing::warn!(
            lasted = %rounded(now.since(self.since)),
            attempts = self.attempts,
            last_error = self.last_error,
            "still no connection to NATS: trying on"
        );
    }

    /// Ends.
    pub fn ended(self, server: &str, now: Moment) {
        tracing::info!(
            server,
            outage = %rounded(now.since(self.since)),
            failed_attempts = self.attempts,
            last_error = self.last_error,
            "connected to NATS again"
        );
    }
}
