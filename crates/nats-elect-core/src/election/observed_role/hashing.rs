//! Feeds a hasher with the observed role, for model checkers.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::ObservedRole;
use super::trust::Trust;
use crate::config::RoleSettings;
use crate::heirs::Heirs;
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
        // In the place of a moment that decides nothing.
        let whenever = Moment::default();
        // A role that has been free for longer is free, and any check that still counts came after.
        let long_free = now - settings.heartbeat - settings.claim_delay;
        let mut it = Self {
            own_ttl: Duration::ZERO,
            max_age: None,
            handoff_hold: Duration::ZERO,
            // It tells a read from what the watch showed after it was sent.
            fence_since: whenever,
            fenced_lease: self.fenced_lease.map(|(_, lease)| (0, lease)),
            ended: None,
            known_sequence: self.known_sequence.map(|_| (0, whenever)),
            quarantined_until: self.quarantined_until.max(long_free),
            // When an answer is sent is not explored.
            last_line: Heirs::NONE,
            ..self.clone()
        };
        self.has_ended().hash(hasher);
        if let Some((known, latest)) = self.latest.as_ref().zip(it.latest.as_mut()) {
            // The age matters no more than this, for the longest possible wait.
            let longest = self.longest().max(self.wait_for(known));
            latest.received = if known.own || self.trust(known) == Some(Trust::Fence) {
                whenever
            } else {
                known.received.max(long_free - longest)
            };
            latest.held_until = known.held_until.max(long_free);
            latest.others_until = known.others_until.max(long_free);
            latest.told = None;
            let free_at = self.free_at().unwrap_or(now).max(long_free);
            (known.received >= read_sent, free_at).hash(hasher);
        }
        it.hash(hasher);
    }
}
