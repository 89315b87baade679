//! Feeds a hasher with the observed role, for model checkers.

use std::hash::{Hash, Hasher};

use super::ObservedRole;
use super::trust::Trust;
use crate::config::RoleSettings;
use crate::election::observed_record::ObservedRecord;
use crate::moment::Moment;

impl ObservedRole {
    /// Feeds a hasher with the state that still matters at `now`.
    ///
    /// `read_sent` is when the read under way was sent, or else `now`. Sequences must not outrun
    /// [`is_known_sequence`](Self::is_known_sequence).
    pub fn hash_state(
        &self,
        now: Moment,
        read_sent: Moment,
        settings: &RoleSettings,
        hasher: &mut impl Hasher,
    ) {
        let Self {
            own_incarnation,
            own_ttl: _,
            max_age: _,
            handoff_hold: _,
            latest,
            fence,
            // It tells a read from what the watch showed after it was sent.
            fence_since: _,
            fenced_lease,
            ended: _,
            led,
            role_highest,
            highest,
            was_read,
            own_fence,
            known_sequence,
            not_before,
            // When an answer is sent is not explored.
            last_line: _,
        } = self;
        let fenced_lease = fenced_lease.map(|(_, lease)| lease);
        let ended = self.has_ended();
        (own_incarnation, fence, fenced_lease, ended, led).hash(hasher);
        (role_highest, highest, was_read).hash(hasher);
        (own_fence, known_sequence.is_some()).hash(hasher);
        // A role that has been free for longer is free, and any check that still counts came after.
        let long_free = now - settings.heartbeat - settings.claim_delay;
        (*not_before).max(long_free).hash(hasher);
        let latest = latest.as_ref().map(|latest| {
            let ObservedRecord {
                entry,
                received,
                held_until,
                own,
                untouched,
                told: _,
                before,
                others_until,
                ended,
                released,
            } = latest;
            // The age matters no more than this, for the longest possible wait.
            let longest = self.longest().max(self.wait_for(latest));
            let age = (*received).max(long_free - longest);
            let late = *received >= read_sent;
            let age = (self.trust(latest) != Some(Trust::Fence) && !own).then_some(age);
            let held_until = (*held_until).max(long_free);
            let others_until = (*others_until).max(long_free);
            let free_at = self.free_at().unwrap_or(now).max(long_free);
            let ends = (held_until, others_until, free_at);
            (
                entry,
                late,
                age,
                ends,
                own,
                untouched,
                before,
                (ended, released),
            )
        });
        latest.hash(hasher);
    }
}
