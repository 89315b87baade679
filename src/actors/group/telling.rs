//! What this member tells of the loads of its units.

use ractor::ActorRef;

use super::GroupState;
use crate::actors::loads;
use crate::actors::messages::GroupMsg;
use crate::clock;
use nats_elect_core::assignment::{MOST_HEAVY, Profile};
use nats_elect_core::member::Input;

impl GroupState {
    /// Has the next heartbeat tell how much work the units here make.
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
        let told = Profile {
            load,
            heavy: heavy.collect(),
            ..self.profile.clone()
        };
        if told != self.profile {
            self.profile = told;
            self.step(myself, Input::Tell(self.profile.clone().into()));
        }
    }
}
