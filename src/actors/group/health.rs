//! The health checks of units' handlers.
//!
//! A unit with a handler of its own is checked by itself. Shards have one handler, so it is asked
//! once for all of them. Handlers without a check cost nothing.

use std::collections::BTreeMap;

use ractor::ActorRef;

use super::GroupState;
use crate::actors::messages::GroupMsg;
use crate::clock;
use crate::metrics::UnitTermEnd;
use nats_elect_core::member::{Input, UnitId};

impl GroupState {
    /// Asks all handlers at work that have a check, if it is time.
    pub(super) fn check_health(&mut self, myself: &ActorRef<GroupMsg>) {
        let interval = self.scope.settings.health.interval;
        let has_handlers = !self.running.is_empty();
        if !self.health.is_due(clock::now(), interval, has_handlers) {
            return;
        }
        for (of, unit) in self.checked() {
            // None of the shards is to blame for a runtime that stands still.
            let running = self.running.get(&unit).filter(|_| of.is_some());
            let term = running.map(|it| it.term.clone());
            let (scope, myself) = (&self.scope, myself.clone());
            self.health.ask(
                of,
                || scope.is_well(&unit.unit().name(), term),
                move |of, healthy| {
                    let _ = myself.send_message(GroupMsg::HealthChecked(of, healthy));
                },
            );
        }
    }

    /// The handlers at work, each with a unit of it: `None` is that of all shards. One that was told to
    /// end is asked no more.
    fn checked(&self) -> BTreeMap<Option<UnitId>, UnitId> {
        let is_own = self.scope.has_own_handlers();
        let acting = self.acting(None);
        let checked = acting.map(|unit| (Some(unit.clone()).filter(|_| is_own), unit.clone()));
        checked.collect()
    }

    /// The units that the handler of a check acts on.
    fn acting(&self, of: Option<&UnitId>) -> impl Iterator<Item = &UnitId> {
        let running = self.running.iter();
        let acting = running.filter(move |(unit, it)| {
            let is_of = of.is_none_or(|it| it == *unit);
            is_of && it.acts()
        });
        acting.map(|(unit, _)| unit)
    }

    pub(super) fn health_checked(
        &mut self,
        myself: &ActorRef<GroupMsg>,
        of: Option<UnitId>,
        healthy: bool,
    ) {
        let acting: Vec<_> = self.acting(of.as_ref()).cloned().collect();
        // One that is told to end while it is asked is not ill.
        let is_well = healthy || acting.is_empty();
        let most = self.scope.settings.health.max_consecutive_failures;
        if !self.health.answered(of, is_well, most) {
            return;
        }
        for unit in acting {
            tracing::warn!(
                group = %self.scope.name,
                unit = %unit.unit().name(),
                "the handler fails its health checks: its term ends, and the unit moves if another instance may take it"
            );
            if let Some(running) = self.running.get_mut(&unit) {
                running.cancel(UnitTermEnd::Unhealthy);
            }
            self.step(myself, Input::Unhealthy(unit));
        }
    }
}
