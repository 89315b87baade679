//! Rules 4 and 6: own epochs that end, and the member that leaves.

use std::time::Duration;

use super::effect::{Effect, Over};
use super::machine::{Member, Purpose};
use super::peers::AGAIN;
use crate::assignment::{Epoch, ended};
use crate::moment::Moment;
use crate::mutation::mutated;

/// So long a member that leaves waits for a map that takes its units.
const RELIEF: Duration = Duration::from_millis(250);

impl Member {
    pub(super) fn lose_any(&mut self) {
        if let Some(epoch) = self.keeping.epoch() {
            self.lose(epoch);
        }
    }

    /// An epoch is lost, or its claim is given up. It is never used again.
    pub(super) fn lose(&mut self, epoch: Epoch) {
        if !self.peers.is_over(epoch) {
            self.lost.entry(epoch).or_insert(self.now);
        }
        self.drop_epoch(epoch);
    }

    /// Gives up an epoch, if it is the present one.
    pub(super) fn drop_epoch(&mut self, epoch: Epoch) {
        if self.keeping.epoch() != Some(epoch) {
            return;
        }
        if let Some((_, until)) = self.keeping.lease() {
            self.end_handlers(Some(epoch), until);
            self.acting.forget_epoch();
            self.collecting.reset();
        }
        self.keeping.drop_epoch();
    }

    /// Whether a map has taken all units, or none came in time: then all handlers end.
    pub(super) fn leave(&mut self) {
        let Some(left_at) = self.left_at else {
            return;
        };
        let Some((epoch, until)) = self.keeping.lease() else {
            self.lose_any();
            if self.lost.is_empty() {
                self.out.push(Effect::Left);
            }
            return;
        };
        let map = self.following.map();
        let owns = map.is_some_and(|map| map.owned_by(epoch).next().is_some());
        if owns && self.now < left_at + RELIEF {
            return;
        }
        self.end_handlers(None, until);
        if self.acting.is_done(None) {
            self.lose(epoch);
        }
    }

    pub(super) fn leave_due(&self) -> Option<Moment> {
        self.keeping.lease()?;
        let due = self.left_at? + RELIEF;
        (self.now < due).then_some(due)
    }

    /// Writes the end of own epochs.
    pub(super) fn end_lost(&mut self) {
        let due = self.lost.iter().filter_map(|(epoch, at)| {
            let is_done = mutated!(EndedEarly) || self.acting.is_done(Some(*epoch));
            (*at <= self.now && is_done).then_some(*epoch)
        });
        for epoch in due.collect::<Vec<_>>() {
            self.lost.insert(epoch, self.now + AGAIN);
            let key = self.member_key(epoch);
            self.write(Purpose::Lost(epoch), key, Over::Anything, ended(epoch));
        }
    }

    pub(super) fn lost_due(&self) -> Option<Moment> {
        let done = self
            .lost
            .iter()
            .filter(|(epoch, _)| self.acting.is_done(Some(**epoch)));
        done.map(|(_, at)| *at).min()
    }
}
