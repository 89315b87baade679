//! What this member tells of the loads of its units.

use ractor::ActorRef;

use super::GroupState;
use crate::actors::loads;
use crate::actors::messages::GroupMsg;
use crate::clock;
use nats_elect_core::assignment::{MOST_HEAVY, Profile};
use nats_elect_core::member::Input;

/// The bytes by which a record may grow until the next time: of its numbers, and of a few exceptions.
const GROWTH: usize = 128;

impl GroupState {
    /// Has the next heartbeat tell how much work the units here make, as far as the bucket has room for
    /// that.
    pub(super) fn tell_loads(&mut self, myself: &ActorRef<GroupMsg>) {
        let now = clock::now();
        if now < self.loads_at {
            return;
        }
        self.loads_at = now + self.scope.settings.heartbeat / 2;
        let running = self.running.iter();
        let acting = running.filter(|(_, it)| it.acts());
        let loads = acting.map(|(unit, it)| (unit, it.term.load()));
        let (load, heavy) = loads::told(loads, MOST_HEAVY);
        let heavy = heavy.into_iter();
        let heavy = heavy.map(|(unit, load)| (unit.unit().name(), load));
        let mut told = Profile {
            load,
            heavy: heavy.collect(),
            ..self.profile.clone()
        };
        if !self.has_room(&told) {
            told.heavy.clear();
        }
        if !self.has_room(&told) {
            told.load = 0;
        }
        if told != self.profile {
            self.profile = told;
            self.step(myself, Input::Tell(self.profile.clone().into()));
        }
    }

    fn has_room(&self, profile: &Profile) -> bool {
        let record = self.record_bytes + bytes(profile) + GROWTH;
        let up = self.link.up();
        up.is_none_or(|(bucket, _)| bucket.has_room(record))
    }

    /// Notes how long a record is that is sent.
    pub(super) fn measure(&mut self, record: &[u8]) {
        self.record_bytes = record.len().saturating_sub(bytes(&self.profile));
    }
}

fn bytes(profile: &Profile) -> usize {
    serde_json::to_vec(profile).map_or(0, |json| json.len())
}
