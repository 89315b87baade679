//! What a driver shows of a member.

use std::sync::Arc;

use super::machine::Member;
use super::planning::PlanRequest;
use crate::assignment::{Epoch, Map, MemberRecord};
use crate::moment::Moment;
use crate::name::InstanceId;

impl Member {
    /// The newest map that it could follow.
    pub const fn map(&self) -> Option<&Arc<Map>> {
        self.following.map()
    }

    /// The ids of the instances of all epochs that tell one and are not over.
    pub fn instances(&self) -> impl Iterator<Item = (Epoch, &InstanceId)> {
        let living = self.peers.living();
        living.filter_map(|it| Some((it, &self.peers.record(it)?.id)))
    }

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

    /// Whether the newest map is of another kind of units, or of a later version: it acts by none.
    pub fn is_strange(&self) -> bool {
        self.following.is_strange()
    }

    /// Whether it is the one that plans, as far as it knows.
    pub fn plans(&self) -> bool {
        self.epoch().is_some_and(|own| self.turn(own) == 0)
    }

    /// The one that plans, as far as it knows.
    pub fn coordinator(&self) -> Option<Epoch> {
        let mut living = self.peers.living();
        living.find(|it| {
            let leaves = self.peers.record(*it).is_none_or(|it| it.leaves);
            !leaves && !self.peers.is_quiet(*it, self.now) && self.turn(*it) == 0
        })
    }

    /// What a plan of all units would be made from now. `None` while it follows no map.
    pub fn plan_request(&self) -> Option<PlanRequest> {
        let map = self.following.current()?;
        Some(self.request(map, self.candidates(map), false))
    }

    /// The epochs whose acknowledgements the unit at a place of the map waits for.
    pub fn waits_for(&self, place: u32) -> Vec<Epoch> {
        let map = self.following.current();
        map.map_or_else(Vec::new, |map| self.awaited(map, place))
    }
}
