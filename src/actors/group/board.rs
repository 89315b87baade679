//! What handles are told of a group.

use std::collections::BTreeMap;

use super::GroupState;
use crate::clock;
use crate::role::UnitOnBoard;
use nats_elect_core::assignment::Units;
use nats_elect_core::member::UnitId;

impl GroupState {
    /// Enters what has changed on the board.
    pub(super) fn show(&mut self) {
        let can_own = self.member.epoch().is_some() && self.stopping.is_none();
        self.scope
            .set_joined(can_own && self.member.map().is_some());
        let Some(map) = self.member.map() else {
            return;
        };
        let shards = match map.units() {
            Units::Shards(count) => Some(*count),
            Units::Names(_) => None,
        };
        let generation = map.generation();
        let own = self.member.epoch();
        let is_same = std::mem::replace(&mut self.shown, map.sequence()) == map.sequence();
        if is_same && !std::mem::take(&mut self.is_stirred) {
            return;
        }
        self.scope.write(|board| {
            if board.generation != generation {
                board.units.clear();
            }
            (board.shards, board.generation, board.own) = (shards, generation, own);
            for (epoch, id) in self.member.instances() {
                board.members.insert(epoch, id.as_str().into());
            }
        });
        let acting = self.member.acts_on(clock::now()).into_iter();
        let acting: BTreeMap<_, _> = acting.collect();
        for place in 0..map.units().count() {
            let Some(unit) = UnitId::at(map, place) else {
                continue;
            };
            let (name, owner) = (unit.unit().name(), map.owner(place));
            let known = self.scope.read(|board| board.units.get(&name).copied());
            let since = known.filter(|it| it.owner == owner).map(|it| it.sequence);
            let acts = acting.get(&unit).copied();
            let acts = acts.filter(|_| !self.is_revoked(&unit));
            let entered = UnitOnBoard {
                sequence: acts.or(since).unwrap_or(map.sequence()),
                owner,
                acts_here: acts.is_some(),
            };
            self.scope.enter(&name, entered);
        }
    }
}
