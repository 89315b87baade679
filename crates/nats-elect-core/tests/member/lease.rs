//! The lease of a member, as its driver keeps it.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::assignment::Epoch;

/// A lease that is claimed or held.
#[derive(Clone, Debug)]
pub struct Keeping {
    pub epoch: Epoch,
    pub ttl: Duration,
    /// When the claim was sent.
    pub claimed: Moment,
    /// The last sequence that is known to be the own one. 0: the claim is not confirmed.
    pub sequence: u64,
    /// The sequence that was shown.
    pub shown: u64,
    pub until: Moment,
    /// Beats that may be stored: when they were sent, and their stamps.
    pub sent: BTreeMap<u64, (Moment, u64)>,
    /// The beat that is under way, and when its time is over.
    pub flying: Option<(u64, Moment)>,
    /// Whether another one is wanted.
    pub again: bool,
    pub next_beat: Moment,
}

impl Keeping {
    /// When the lease is over, or the claim is given up.
    pub fn over(&self) -> Moment {
        if self.is_held() {
            self.until
        } else {
            self.claimed + self.ttl * 9 / 10
        }
    }

    pub fn is_held(&self) -> bool {
        self.until > Moment::default()
    }
}
