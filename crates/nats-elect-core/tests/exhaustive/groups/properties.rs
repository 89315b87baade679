//! What must always hold among members, and what must be possible.

use std::sync::Arc;

use nats_elect_core::group::GroupKind;
use stateright::Property;

use super::Members;
use super::configuration::{Configuration, group, unit};
use super::state::State;
use crate::witness::witnesses;

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// Two members hold valid terms of a unit at one true instant.
    TwoOwners,
    /// A unit has a valid term beside one of another generation.
    TwoGenerations,
    /// A term's token is not above those of all terms of the unit before.
    TokenOrder,
    /// A member does what is against its own rules.
    Conduct(Misconduct),
    /// Nothing has gone wrong for long enough, watches have begun anew, and a unit has no owner.
    Unserved,
}

/// What a member must not do, whatever comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misconduct {
    StartedASecondHandler,
    WroteOverAUnitOnWhichItActs,
    WroteOverAClosedUnit,
    SignedForAnother,
    WroteOverWhatItDoesNotKnow,
    /// By what it knows itself.
    TookFromALivingOwner,
    /// In truth.
    DeposedAMemberWithALease,
    WroteAFenceRecord,
    /// A timer is due again at once.
    WantedToWakeInThePast,
    /// The stream has lost nothing.
    TookTheStreamForShortened,
    /// Assertions of the machines failed.
    Panicked,
}

/// What a configuration must be able to bring about, or its faults do not bite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A term begins on a unit that had none before.
    Owned,
    /// A second term of a unit.
    OwnedAgain,
    /// A write of the machine is refused.
    Refused,
    /// A living owner gives its unit to another member.
    Given,
    /// A tombstone is written over another's epoch.
    Deposed,
    /// A member loses its lease.
    LeaseLost,
    /// A write that was given up takes effect.
    GhostLanded,
    /// A term is revoked while its lease lasts.
    Revoked,
    /// A missing unit is created.
    Created,
    /// A member has left in good order.
    Left,
    /// A unit is closed for good.
    Closed,
    /// A term of the second generation begins.
    Grown,
}

/// All properties of a configuration.
pub fn of(configuration: &Configuration) -> Vec<Property<Members>> {
    let mut properties = vec![
        Property::always("no unit has two valid terms", |_, state: &State| {
            state.broken != Some(Broken::TwoOwners)
        }),
        Property::always("no two generations act", |_, state: &State| {
            state.broken != Some(Broken::TwoGenerations)
        }),
        Property::always("the tokens of a unit grow", |_, state: &State| {
            state.broken != Some(Broken::TokenOrder)
        }),
        Property::always("members keep to their rules", |_, state: &State| {
            !matches!(state.broken, Some(Broken::Conduct(_)))
        }),
        Property::always(
            "without faults each unit has an owner in time",
            |_, state: &State| state.broken != Some(Broken::Unserved),
        ),
    ];
    properties.extend(configuration.witnesses.iter().map(|it| possible(*it)));
    properties
}

witnesses! {
    Members;
    Owned: "a unit gets an owner"
    OwnedAgain: "a second term of a unit begins"
    Refused: "a write is refused"
    Given: "a unit is given away"
    Deposed: "an epoch is deposed"
    LeaseLost: "a member loses its lease"
    GhostLanded: "a write that was given up takes effect"
    Revoked: "a term is revoked within its lease"
    Created: "a missing unit is created"
    Left: "a member leaves"
    Closed: "a unit is closed"
    Grown: "a unit of the second generation gets an owner"
}

/// The most ticks without a fault after which each unit has an owner: two longest leases, a lease
/// that runs out, the wait of a member that joins, an overrun; the turns of all members for four
/// writes, and a tick in which each of them is shown.
fn patience(configuration: &Configuration) -> usize {
    15 + 4 * (configuration.members + 1)
}

impl State {
    /// Whether each unit of the group's present generation has an owner.
    pub fn is_served(&self) -> bool {
        // A purge shows when a watch begins anew.
        let known = self.living().find_map(|(_, it)| it.group.record(&group()));
        let record = self.group_record().map(|(_, record)| record).or(known);
        let Some((record, GroupKind::Sharded { shards, .. })) = record.map(|it| (it, it.kind))
        else {
            return false;
        };
        let is_owned = |number| {
            let unit = unit(record.generation, number);
            let mut terms = self.living().flat_map(|(_, it)| it.valid_terms(self.now));
            terms.any(|it| *it == unit)
        };
        (0..shards).all(is_owned)
    }

    /// Something went wrong, or ended to be wrong, or all is well: the time to an owner counts anew.
    pub const fn count_anew(&mut self) {
        (self.unserved, self.watched_anew) = (0, false);
    }

    /// Counts a tick in which nothing went wrong and not each unit had an owner. No watch shows a
    /// purge. So all members begin their watches anew when that has lasted for too long, as their
    /// drivers do every few minutes, and it may last as long again.
    pub fn count_unserved(&mut self, configuration: &Configuration) {
        let some_take_units = self.living().any(|(_, it)| !it.leaves);
        let troubled = self.living().any(|(_, it)| it.is_troubled());
        if troubled || !some_take_units || self.is_served() {
            self.count_anew();
            return;
        }
        self.unserved += 1;
        if usize::from(self.unserved) <= patience(configuration) {
            return;
        }
        if self.watched_anew {
            self.broken.get_or_insert(Broken::Unserved);
            return;
        }
        (self.unserved, self.watched_anew) = (0, true);
        for process in self.members.iter_mut().flatten() {
            Arc::make_mut(process).wants_watch = true;
        }
    }
}
