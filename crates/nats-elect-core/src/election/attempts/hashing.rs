//! Feeds a hasher with the attempts, for model checkers.

use std::hash::{Hash, Hasher};

use super::{Attempt, Attempts};

impl Attempts {
    pub fn hash_state(&self, hasher: &mut impl Hasher) {
        let Self {
            incarnation,
            first_beat: _,
            // This only needs to be greater than the ones in use.
            next_beat: _,
            kept: attempts,
            older_heartbeats,
        } = self;
        (incarnation, attempts.len(), older_heartbeats.is_some()).hash(hasher);
        for attempt in attempts {
            let Attempt {
                beat,
                purpose,
                term,
                secrets,
                expected,
                sent,
                settled,
            } = attempt;
            // A confirmed write starts no other lease, so its send time no longer matters.
            let sent = settled.is_none().then_some(sent);
            (beat, purpose, term, secrets, expected, sent, settled).hash(hasher);
        }
    }
}
