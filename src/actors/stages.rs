//! How long a failover took, stage by stage, as the winner saw it.
//!
//! It is only for dashboards and decides nothing.

use nats_elect_core::Moment;

use crate::metrics::{Labels, Stage};

/// A claim of this instance, up to the start of its term.
#[derive(Debug, Default)]
pub(super) struct Stages(Option<Claim>);

#[derive(Debug)]
struct Claim {
    /// The last sign of the leader before, if it was seen.
    last_sign: Option<Moment>,
    sent: Moment,
    confirmed: Option<Moment>,
}

impl Stages {
    pub fn claim_began(&mut self, last_sign: Option<Moment>, now: Moment) {
        self.0 = Some(Claim {
            last_sign,
            sent: now,
            confirmed: None,
        });
    }

    pub fn claim_confirmed(&mut self, now: Moment) {
        if let Some(claim) = &mut self.0 {
            claim.confirmed.get_or_insert(now);
        }
    }

    /// Records the stages of the claim that became a term. A claim whose answer came from a read
    /// has no time of its own: its stages are not recorded.
    pub fn term_started(&mut self, labels: &Labels, now: Moment) {
        let Some(claim) = self.0.take() else { return };
        let Some(confirmed) = claim.confirmed else {
            return;
        };
        if let Some(sign) = claim.last_sign {
            labels.stage(Stage::Detection, claim.sent.since(sign));
        }
        labels.stage(Stage::Claim, confirmed.since(claim.sent));
        labels.stage(Stage::Fence, now.since(confirmed));
    }
}
