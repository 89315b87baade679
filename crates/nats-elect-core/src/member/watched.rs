//! The map and the values of members, as the watch and reads show them.

use std::time::Duration;

use super::machine::Member;
use super::peers::{News, Peers};
use crate::assignment::{Epoch, Value};

/// Loads that change within so much time go into one plan.
const LOADS: Duration = Duration::from_secs(5);

impl Member {
    pub(super) fn caught_up(&mut self) {
        self.is_caught_up = true;
        if self.following.shown == 0 {
            self.following.miss(self.now);
        }
        self.miss_unknown();
    }

    /// Notes the epochs that the map names, and that were not shown.
    fn miss_unknown(&mut self) {
        let Some(map) = self.following.map().filter(|_| self.is_caught_up) else {
            return;
        };
        for epoch in map.epochs() {
            if !self.peers.is_known(*epoch) {
                self.peers.miss(self.now, *epoch);
            }
        }
    }

    pub(super) fn show_map(&mut self, sequence: u64, value: Value) {
        self.doubt_map(sequence, &value);
        let is_map = self
            .following
            .show(self.now, sequence, value, &self.settings.units);
        self.map_shown();
        if !is_map {
            return;
        }
        self.follow();
        self.tells |= self.is_waited_for();
        self.miss_unknown();
        self.coordinate_anew();
        self.retire_at = self.now;
    }

    /// Ends what the followed map does not allow.
    pub(super) fn follow(&mut self) {
        if let Some((epoch, until)) = self.keeping.lease() {
            let map = self.following.acting().map(AsRef::as_ref);
            let ends = self.acting.follow(map, epoch, until);
            self.emit_all(ends);
        }
        self.is_stirred = true;
    }

    pub(super) fn show_member(&mut self, epoch: Epoch, sequence: u64, value: Value) {
        let is_own = self.keeping.epoch() == Some(epoch);
        let own = is_own.then(|| value.clone());
        let tells_version = |peers: &Peers| {
            let record = peers.record(epoch);
            record.is_some_and(|it| it.profile.version.is_some())
        };
        let was_there = tells_version(&self.peers);
        let news = self.peers.show(self.now, epoch, sequence, value);
        if was_there != tells_version(&self.peers) {
            self.coordinator.rolled = Some(self.now);
        }
        if news == News::Over {
            self.lost.remove(&epoch);
            self.lose(epoch);
        }
        match news {
            News::Nothing => {}
            News::Loads => self.coordinator.stir(self.now + LOADS),
            News::Told | News::Over => {
                self.is_stirred = true;
                self.coordinator.stir(self.now);
            }
        }
        if let Some(value) = own {
            self.own_shown(epoch, sequence, &value);
        }
    }

    /// Whether others wait for what this member tells, or it could own units and has none.
    pub(super) fn is_waited_for(&self) -> bool {
        let map = self.following.acting();
        map.zip(self.epoch())
            .is_none_or(|(map, epoch)| map.waits_on(epoch) || map.owned_by(epoch).next().is_none())
    }
}
