//! Rules 4 and 6: own epochs that end, the member that leaves, and keys that nobody needs any more.

use std::time::Duration;

use super::effect::{Effect, Over};
use super::machine::{Member, Purpose};
use super::peers::AGAIN;
use crate::WriteOutcome;
use crate::assignment::{Epoch, LONGEST_LEASE, Map, Value, ended};
use crate::moment::Moment;
use crate::mutation::mutated;

/// So long a member that leaves waits for a map that takes its units.
const RELIEF: Duration = Duration::from_millis(250);

/// So long *ended* stays once no map names its epoch. Safety asks for no such time. Who is behind saves
/// the longest lease if it is still shown *ended*.
pub(super) const KEPT: Duration = Duration::from_secs(3600);

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
        self.doubt_anew();
    }

    /// Whether a map has taken all units, or none came in time: then all handlers end.
    pub(super) fn leave(&mut self) {
        let Some(left_at) = self.left_at else {
            return;
        };
        let is_done = self.acting.is_done(None) || mutated!(LeavesBeforeHandlersEnd);
        let Some((epoch, until)) = self.keeping.lease() else {
            self.lose_any();
            // Without a link others end its epochs, whose leases are over.
            if is_done && (self.lost.is_empty() || !self.keeping.is_up()) {
                self.emit(Effect::Left);
            }
            return;
        };
        let owns = |map: &Map| map.owned_by(epoch).next().is_some();
        if self.now < left_at + RELIEF && self.following.map().is_some_and(|it| owns(it)) {
            return;
        }
        self.end_handlers(None, until);
        if is_done {
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

    /// The first member gives *ended* a time to live, one epoch after the other, if the map does not
    /// name the epoch.
    pub(super) fn retire_ended(&mut self, delay: Duration) {
        if self.retire_due(delay).is_none_or(|at| at > self.now) {
            return;
        }
        let Some(map) = self.following.current() else {
            return;
        };
        let mut all = self.peers.ended.iter();
        let next = all.find(|(it, _)| mutated!(RetiresNamed) || !map.epochs().contains(it));
        let Some((epoch, sequence)) = next.map(|(epoch, sequence)| (*epoch, *sequence)) else {
            self.retire_at = self.now + LONGEST_LEASE;
            return;
        };
        self.retire_at = self.now + AGAIN;
        let (key, over) = (self.member_key(epoch), Over::Sequence(sequence));
        self.write(Purpose::Retirement(epoch), key, over, ended(epoch));
    }

    pub(super) fn retire_due(&self, delay: Duration) -> Option<Moment> {
        let is_first = delay.is_zero() && self.following.current().is_some();
        (is_first && !self.peers.ended.is_empty()).then_some(self.retire_at)
    }

    /// The write of a time to live ended. Many servers and buckets have none.
    pub(super) fn retired(&mut self, epoch: Epoch, outcome: &WriteOutcome) {
        match outcome {
            WriteOutcome::Acked { revision } => {
                self.show_member(epoch, *revision, Value::Expiring);
            }
            WriteOutcome::Conflict { .. } => self.emit(Effect::Read(self.member_key(epoch))),
            WriteOutcome::Failed(_) => self.retire_at = self.now + LONGEST_LEASE,
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
