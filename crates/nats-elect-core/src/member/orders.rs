//! Operators' orders: any member writes the map for one, whatever its place in the order of joining.

use super::coordinator::{TURN, gather};
use super::effect::{Effect, Reply};
use super::input::Order;
use super::machine::Member;
use super::unit::UnitId;
use crate::RequestId;
use crate::assignment::{Changes, Epoch, Map, Units};
use crate::moment::Moment;
use crate::name::UnitName;
use crate::plan::Standing;

impl Member {
    /// Takes an operator's order.
    pub(super) fn order(&mut self, request: RequestId, order: Order) {
        if self.coordinator.orders.is_empty() {
            self.coordinator.order_at = self.now;
        }
        self.coordinator.orders.push_back((request, order));
    }

    /// When the first order is due. Others lose nothing by it, so it waits for no turn.
    pub(super) fn order_due(&self, map: &Map) -> Option<Moment> {
        let is_ordered = !self.coordinator.orders.is_empty();
        is_ordered.then(|| self.coordinator.order_at + gather(map))
    }

    /// Carries out what operators ordered. Returns whether that takes a map.
    pub(super) fn obey(&mut self, map: &Map) -> bool {
        while let Some((request, order)) = self.coordinator.orders.front().cloned() {
            let reply = match &order {
                _ if self.owners_have_to_wait() => Some(Reply::OwnersWait),
                Order::Move(name, to) => self.obey_move(map, name, *to),
                Order::Resize(units) => self.obey_resize(map, units),
            };
            // Until it is carried out it is tried over the next map.
            let Some(reply) = reply else {
                return true;
            };
            self.coordinator.orders.pop_front();
            self.emit(Effect::Reply(request, reply));
        }
        false
    }

    fn obey_move(&mut self, map: &Map, name: &UnitName, to: Epoch) -> Option<Reply> {
        let Some(place) = map.units().place_of(name) else {
            return Some(Reply::NoUnit);
        };
        if map.owner(place) == Some(to) {
            return Some(Reply::Done);
        }
        let unit = UnitId::at(map, place);
        let candidates = self.candidates(map).into_iter();
        let mut able = candidates.filter(|it| self.can_run(it.epoch, unit.as_ref()));
        match able.find(|it| it.epoch == to).map(|it| it.standing) {
            Some(Standing::Takes) => {}
            // Its next heartbeat tells more.
            Some(Standing::Waits) if self.peers.is_behind(to, map.sequence()) => {
                self.coordinator.order_at = self.now + TURN;
                return None;
            }
            _ => return Some(Reply::NoMember),
        }
        let is_new = |it: &Epoch| !map.members().contains(it);
        let changes = Changes {
            joined: [to].into_iter().filter(is_new).collect(),
            gone: self.gone(map),
            owners: [(place, Some(to))].into(),
        };
        self.write_changes(map, changes)
            .err()
            .map(|_| Reply::InChange)
    }

    fn obey_resize(&mut self, map: &Map, units: &Units) -> Option<Reply> {
        if map.units() == units {
            return Some(Reply::Done);
        }
        let Ok(next) = map.resize(units.clone(), self.clear_in(map)) else {
            return Some(Reply::BadUnits);
        };
        self.write_map(&next);
        None
    }

    /// There is no room in the bucket for the map with these units.
    pub(super) fn give_up_resize(&mut self) {
        if let Some((request, Order::Resize(_))) = self.coordinator.orders.front() {
            self.emit(Effect::Reply(*request, Reply::BadUnits));
            self.coordinator.orders.pop_front();
        }
    }
}
