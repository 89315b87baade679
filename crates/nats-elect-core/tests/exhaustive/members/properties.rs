//! What must always hold among members, and what must be possible.

use stateright::Property;

use super::Members;
use super::configuration::Configuration;
use super::state::State;
use crate::witness::witnesses;

/// A promise that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// Handlers of one unit, or of two generations, act at one true instant.
    TwoAct,
    /// A term's token is not above those of all terms of the unit before.
    TokenOrder,
    /// A member does what is against its own rules.
    Conduct(Misconduct),
    /// Nothing has gone wrong for long enough, and a unit is not run.
    Unserved,
}

/// What a member must not do, whatever comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misconduct {
    StartedASecondHandler,
    StartedWithoutALease,
    StartedWhatIsOver,
    ToldOverWhatActs,
    WroteAForeignMap,
    /// A timer is due again at once.
    WantedToWakeInThePast,
    /// Answers that take no time made it ask again and again.
    AsksWithoutEnd,
    /// The stream has lost nothing, and is no other one.
    ForgotWhatStands,
    /// Assertions of the machine failed.
    Panicked,
}

/// What a configuration must be able to bring about, or its faults do not bite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// A term begins.
    Begun,
    /// A living member acts where another one did.
    Moved,
    /// A map is refused.
    Refused,
    /// A map is written over a foreign value.
    Collected,
    /// An epoch is ended by others.
    Ended,
    /// A member loses its lease.
    LeaseLost,
    /// A write that was given up takes effect.
    GhostLanded,
    /// A handler goes on beyond its deadline.
    Overrun,
    /// A member has left.
    Left,
    /// A term of the second generation begins.
    Grown,
}

/// All properties of a configuration.
pub fn of(configuration: &Configuration) -> Vec<Property<Members>> {
    let mut properties = vec![
        Property::always("no two handlers of a unit act", |_, state: &State| {
            state.broken != Some(Broken::TwoAct)
        }),
        Property::always("the tokens of a unit grow", |_, state: &State| {
            state.broken != Some(Broken::TokenOrder)
        }),
        Property::always("members keep to their rules", |_, state: &State| {
            !matches!(state.broken, Some(Broken::Conduct(_)))
        }),
        Property::always(
            "without faults each unit is run in time",
            |_, state: &State| state.broken != Some(Broken::Unserved),
        ),
    ];
    properties.extend(configuration.witnesses.iter().map(|it| possible(*it)));
    properties
}

witnesses! {
    Members;
    Begun: "a term begins"
    Moved: "a unit is moved"
    Refused: "a map is refused"
    Collected: "a map is written over a foreign value"
    Ended: "an epoch is ended by others"
    LeaseLost: "a member loses its lease"
    GhostLanded: "a write that was given up takes effect"
    Overrun: "a handler goes on beyond its deadline"
    Left: "a member leaves"
    Grown: "a unit of the second generation is run"
}

/// The most ticks without a fault after which each unit is run: a foreign value under a member's key is
/// watched for the longest lease, a purge of it is noticed by a read and its blank watched once more,
/// then come an own lease, and a few ticks for maps and what waits for them.
const PATIENCE: u8 = 18;

impl State {
    /// Whether each unit of the newest map that anybody knows is run.
    fn is_served(&self) -> bool {
        let maps = self.living().filter_map(|(_, it)| it.member.map());
        let Some(map) = maps.max_by_key(|it| it.sequence()) else {
            return false;
        };
        let handlers = self.living().flat_map(|(_, it)| it.acting(self.now));
        let runs = handlers.filter(|(unit, it)| !it.is_told && unit.place_in(map).is_some());
        runs.count() == map.units().count() as usize
    }

    /// Counts a tick in which nothing went wrong and not each unit was run.
    pub fn count_idle(&mut self) {
        let some_stay = self.living().next().is_some();
        let is_troubled = self.living().any(|(_, it)| it.is_troubled());
        if is_troubled || !some_stay || self.is_served() {
            self.idle = 0;
            return;
        }
        self.idle += 1;
        if self.idle > PATIENCE {
            self.broken.get_or_insert(Broken::Unserved);
        }
    }
}
