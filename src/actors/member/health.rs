//! The health checks of units' handlers.
//!
//! A unit with a handler of its own is checked by itself. Shards have one handler, so it is asked
//! once for all of a group. Handlers without a check cost nothing.

use std::collections::{BTreeMap, VecDeque};

use ractor::ActorRef;

use super::{MemberState, Step};
use crate::actors::health_checks::HealthChecks;
use crate::actors::messages::MemberMsg;
use crate::clock;
use crate::metrics::UnitTermEnd;
use nats_elect_core::Moment;
use nats_elect_core::group::{GroupInput, UnitKey};
use nats_elect_core::name::{GroupName, UnitName};

/// A handler that is checked: of one unit, or of all shards of a group.
type Checked = (GroupName, Option<UnitName>);

/// The checks of all groups.
pub(super) type Health = HealthChecks<Checked>;

impl MemberState {
    /// When handlers are to be checked next.
    pub(super) fn next_health_check(&self) -> Option<Moment> {
        self.health.next().filter(|_| !self.running.is_empty())
    }

    /// A unit's handler has ended. The next one begins with none of its failures.
    pub(super) fn forget_health(&mut self, unit: &UnitKey) {
        let of = (unit.group.clone(), Some(unit.unit.clone()));
        self.health.forget(&of);
    }

    /// Asks all handlers at work that have a check, if it is time.
    pub(super) fn check_health(&mut self, myself: &ActorRef<MemberMsg>) {
        let interval = self.settings.health.interval;
        let has_handlers = !self.running.is_empty();
        if !self.health.is_due(clock::now(), interval, has_handlers) {
            return;
        }
        for (of, unit) in self.checked() {
            let scope = self.groups.get(&of.0);
            let running = self.running.get(&unit).map(|it| it.term.clone());
            // Shards share their check. None of them is to blame for a runtime that stands still.
            let term = running.filter(|_| of.1.is_some());
            let myself = myself.clone();
            self.health.ask(
                of,
                || scope.and_then(|it| it.is_well(&unit.unit, term)),
                move |of, healthy| {
                    let _ = myself.send_message(MemberMsg::HealthChecked { of, healthy });
                },
            );
        }
    }

    /// The handlers at work, each with a unit of it. One that was told to end is asked no more.
    fn checked(&self) -> BTreeMap<Checked, UnitKey> {
        let running = self.running.iter().filter(|(_, it)| it.acts());
        let checked = running.filter_map(|(unit, _)| {
            let scope = self.groups.get(&unit.group)?;
            let own = scope.has_own_handlers().then(|| unit.unit.clone());
            Some(((unit.group.clone(), own), unit.clone()))
        });
        checked.collect()
    }

    pub(super) fn health_checked(
        &mut self,
        of: &Checked,
        healthy: bool,
        steps: &mut VecDeque<Step>,
    ) {
        let is_of = |unit: &UnitKey| {
            unit.group == of.0 && of.1.as_ref().is_none_or(|name| *name == unit.unit)
        };
        let mut running = self.running.iter();
        // One that is told to end while it is asked is not ill.
        let is_well = healthy || !running.any(|(unit, it)| is_of(unit) && it.acts());
        let most = self.settings.health.max_consecutive_failures;
        if !self.health.answered(of.clone(), is_well, most) {
            return;
        }
        for (unit, running) in &mut self.running {
            if running.lives && is_of(unit) {
                tracing::warn!(
                    group = %unit.group,
                    unit = %unit.unit,
                    "the handler fails its health checks: its term ends, and the unit moves if another instance may take it"
                );
                running.cause.get_or_insert(UnitTermEnd::Unhealthy);
                steps.push_back(Step::Group(GroupInput::Unhealthy {
                    unit: unit.clone(),
                    sequence: running.sequence,
                }));
            }
        }
    }
}
