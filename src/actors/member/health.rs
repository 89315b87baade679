//! The health checks of units' handlers.
//!
//! A unit with a handler of its own is checked by itself. Shards have one handler, so it is asked
//! once for all of a group. Handlers without a check cost nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use ractor::ActorRef;

use super::{MemberState, Step};
use crate::actors::messages::MemberMsg;
use crate::clock;
use crate::metrics::UnitTermEnd;
use nats_elect_core::Moment;
use nats_elect_core::group::{GroupInput, UnitKey};
use nats_elect_core::name::{GroupName, UnitName};

/// A handler that is checked: of one unit, or of all shards of a group.
type Checked = (GroupName, Option<UnitName>);

/// The checks of all groups.
#[derive(Default)]
pub(super) struct Health {
    next: Option<Moment>,
    /// The checks that are not answered yet.
    asked: BTreeSet<Checked>,
    /// How many checks of a handler have failed in a row.
    failed: BTreeMap<Checked, u32>,
}

impl Health {
    /// A unit's handler has ended. The next one begins with none of its failures.
    pub fn forget(&mut self, unit: &UnitKey) {
        let of = (unit.group.clone(), Some(unit.unit.clone()));
        self.failed.remove(&of);
    }
}

impl MemberState {
    /// When handlers are to be checked next.
    pub(super) fn next_health_check(&self) -> Option<Moment> {
        self.health.next.filter(|_| !self.running.is_empty())
    }

    /// Asks all handlers at work that have a check, if it is time.
    pub(super) fn check_health(&mut self, myself: &ActorRef<MemberMsg>) {
        let now = clock::now();
        if self.running.is_empty() {
            self.health.next = None;
            return;
        }
        let interval = self.settings.health.interval;
        let next = *self.health.next.get_or_insert(now + interval);
        if now < next {
            return;
        }
        self.health.next = Some(now + interval);
        for (of, unit) in self.checked() {
            if self.health.asked.contains(&of) {
                continue;
            }
            let scope = self.groups.get(&of.0);
            let running = self.running.get(&unit).map(|it| it.term.clone());
            // Shards share their check. None of them is to blame for a runtime that stands still.
            let term = running.filter(|_| of.1.is_some());
            let Some(asked) = scope.and_then(|it| it.is_well(&unit.unit, term)) else {
                continue;
            };
            self.health.asked.insert(of.clone());
            let myself = myself.clone();
            tokio::spawn(async move {
                let healthy = asked.await;
                let _ = myself.send_message(MemberMsg::HealthChecked { of, healthy });
            });
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
        self.health.asked.remove(of);
        let is_of = |unit: &UnitKey| {
            unit.group == of.0 && of.1.as_ref().is_none_or(|name| *name == unit.unit)
        };
        // One that is told to end while it is asked is not ill.
        if healthy
            || !self
                .running
                .iter()
                .any(|(unit, it)| is_of(unit) && it.acts())
        {
            self.health.failed.remove(of);
            return;
        }
        let failed = self.health.failed.entry(of.clone()).or_default();
        *failed += 1;
        if *failed < self.settings.health.max_consecutive_failures {
            return;
        }
        self.health.failed.remove(of);
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
