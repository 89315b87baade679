//! What a driver shows of a member.

use super::machine::Member;
use crate::assignment::{Epoch, MemberRecord};
use crate::moment::Moment;

impl Member {
    /// The end of the lease, while one is held.
    pub fn lease_until(&self) -> Option<Moment> {
        self.keeping.lease().map(|(_, until)| until)
    }

    /// The records of the epochs that were written within their leases.
    pub fn living(&self, now: Moment) -> impl Iterator<Item = (Epoch, &MemberRecord)> {
        let living = self.peers.living();
        let living = living.filter(move |it| !self.peers.is_silent(*it, now));
        living.filter_map(|it| Some((it, self.peers.record(it)?.as_ref())))
    }

    /// Whether it is the one that plans, as far as it knows.
    pub fn plans(&self) -> bool {
        self.epoch().is_some_and(|own| self.turn(own) == 0)
    }
}
