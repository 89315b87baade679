//! What handles are told of a group.

use std::sync::Arc;

use super::GroupState;
use crate::role::GroupView;
use nats_elect_core::assignment::Map;
use nats_elect_core::member::UnitId;

impl GroupState {
    /// Shows what is known now, before handlers begin by it.
    pub(super) fn show(&mut self) {
        let own = self.member.epoch();
        let map = self.member.map().cloned();
        let can_own = own.is_some() && self.stopping.is_none();
        let joined = can_own && map.is_some() && !self.member.is_strange();
        let takes_units = joined && !self.member.waits() && !self.profile.cordoned;
        let before = std::mem::replace(&mut self.shown, map.clone());
        let sequence = |map: &Option<Arc<Map>>| map.as_ref().map(|it| it.sequence());
        let is_new = sequence(&before) != sequence(&map);
        let mut board = self.scope.known();
        if !is_new && (board.own, board.joined, board.takes_units) == (own, joined, takes_units) {
            return;
        }
        (board.own, board.joined, board.takes_units) = (own, joined, takes_units);
        if !is_new {
            self.scope.show(board, false);
            return;
        }
        let generation = map.as_ref().map(|it| it.generation());
        let before = before.filter(|it| Some(it.generation()) == generation);
        // Earlier events were of another generation, of another bucket, or of before a crash.
        let resets = before.is_none() && board.map.is_some();
        let members = self.member.instances();
        let members = members.map(|(epoch, id)| (epoch, id.clone()));
        board.members = Arc::new(members.collect());
        board.map.clone_from(&map);
        self.scope.show(board, resets);
        if resets {
            self.acting.clear();
        }
        let Some(map) = map else {
            return;
        };
        let moved = (0..map.units().count()).filter(|place| {
            let former = before.as_ref().map(|it| it.owner(*place));
            former != Some(map.owner(*place))
        });
        (self.moved).extend(moved.filter_map(|place| UnitId::at(&map, place)));
    }

    /// Tells of units that have another owner, and of handlers that have begun or end.
    pub(super) fn tell_owners(&mut self) {
        let moved = std::mem::take(&mut self.moved);
        let mut units = std::mem::take(&mut self.stirred);
        let Some(map) = self.shown.clone() else {
            return;
        };
        units.extend(moved.iter().cloned());
        let mut has_told = false;
        for unit in units {
            let Some(place) = unit.place_in(&map) else {
                continue;
            };
            let running = self.running.get(&unit).filter(|it| it.acts());
            let token = running.map(|it| it.term.id());
            let told = match token {
                Some(token) => self.acting.insert(unit.clone(), token),
                None => self.acting.remove(&unit),
            };
            if told != token || moved.contains(&unit) {
                self.scope.tell(&unit.unit().name(), map.owner(place));
                has_told = true;
            }
        }
        if has_told {
            self.scope.board.send_modify(|_| {});
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
