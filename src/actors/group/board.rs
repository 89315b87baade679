//! What handles are told of a group.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::GroupState;
use crate::clock;
use crate::role::{Board, GroupView, UnitOnBoard};
use nats_elect_core::assignment::Map;
use nats_elect_core::member::UnitId;

impl GroupState {
    /// Enters what has changed on the board.
    pub(super) fn show(&mut self) {
        let can_own = self.member.epoch().is_some() && self.stopping.is_none();
        let map = self.member.map().cloned();
        let follows = map.is_some() && !self.member.is_strange();
        self.scope.set_joined(can_own && follows);
        let takes = can_own && follows && !self.member.waits() && !self.profile.cordoned;
        if self.scope.read(|board| board.takes_units) != takes {
            self.scope.write(|board| board.takes_units = takes);
        }
        let Some(map) = map else {
            // What was known is of another bucket.
            if self.shown.take().is_some() {
                self.scope.reset(|board| {
                    *board = Board {
                        bucket_epoch: board.bucket_epoch,
                        ..Board::default()
                    };
                });
            }
            return;
        };
        let mut stirred = std::mem::take(&mut self.stirred);
        let before = self.shown.replace(Arc::clone(&map));
        let before = before.filter(|it| it.generation() == map.generation());
        if before
            .as_ref()
            .is_none_or(|it| it.sequence() != map.sequence())
        {
            self.show_map(&map, before.is_none());
            let places = 0..map.units().count();
            let changed = places.filter(|place| {
                before.as_ref().is_none_or(|it| {
                    *place >= it.units().count() || it.owner(*place) != map.owner(*place)
                })
            });
            stirred.extend(changed.filter_map(|place| UnitId::at(&map, place)));
        }
        self.show_units(&map, stirred);
    }

    fn show_map(&self, map: &Map, is_another: bool) {
        let enter = |board: &mut Board| {
            if is_another {
                board.units.clear();
            }
            board.own = self.member.epoch();
            board.generation = map.generation();
            board.shards = map.units().shards();
            let members = self.member.instances();
            let members = members.map(|(epoch, id)| (epoch, id.as_str().into()));
            board.members = members.collect();
        };
        if is_another && self.scope.read(|board| board.generation > 0) {
            self.scope.reset(enter);
        } else {
            self.scope.write(enter);
        }
    }

    fn show_units(&self, map: &Map, units: BTreeSet<UnitId>) {
        let now = clock::now();
        for unit in units {
            let Some(place) = unit.place_in(map) else {
                continue;
            };
            let (name, owner) = (unit.unit().name(), map.owner(place));
            let known = self.scope.read(|board| board.units.get(&name).copied());
            let since = known.filter(|it| it.owner == owner).map(|it| it.sequence);
            let acts = self
                .member
                .acts(&unit, now)
                .filter(|_| !self.is_revoked(&unit));
            let entered = UnitOnBoard {
                sequence: acts.or(since).unwrap_or(map.sequence()),
                owner,
                acts_here: acts.is_some(),
            };
            self.scope.enter(&name, entered);
        }
    }

    /// What a plan would be made from now.
    pub(super) fn view(&self) -> Option<GroupView> {
        let own = self.member.epoch()?;
        let request = self.member.plan_request()?;
        let moving = request.base.moving();
        let awaited = moving.map(|place| (place, self.member.waits_for(place)));
        Some(GroupView {
            awaited: awaited.filter(|(_, epochs)| !epochs.is_empty()).collect(),
            own,
            coordinator: self.member.coordinator(),
            owners_wait: self.member.owners_have_to_wait(),
            request,
        })
    }
}
