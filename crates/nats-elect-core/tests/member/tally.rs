//! What happened in a seed: a world in which a fault or a rule hardly occurs proves nothing of it.

use std::collections::{BTreeMap, BTreeSet};

use nats_elect_core::assignment::{Epoch, Map, MemberRecord, Value};

use crate::event::Sent;
use crate::faults::Fault;
use crate::node::Node;
use crate::stream::{Entry, Stream};
use crate::world::World;

/// What happened, by its name.
pub type Happened = BTreeSet<&'static str>;

/// What follows from faults and rules.
const WHAT: &[&str] = &[
    "a message is lost",
    "a message is slow",
    "a watch lags",
    "a handler ends by itself",
    "a handler fails",
    "a handler ends late",
    "a handler ends after its deadline",
    "leases are sixteen times apart",
    "units have names",
    "a name is new",
    "a process is paused amid its write of a map",
    "a last will is carried out",
    "a unit waits for its former owner",
    "a unit moves between living members",
    "a handler goes on over a newer map",
    "a handler that was told to end is an exception",
    "an exception is of another generation",
    "a member can't run a unit",
    "a map is refused",
    "two members plan",
    "an epoch is ended by its member",
    "an epoch is ended by another",
    "an epoch with a foreign value is ended",
    "an end gets a time to live",
    "a missing map is noticed",
    "a missing member is noticed",
    "a first map is written",
    "a map is collected",
    "a collect names owners",
    "a member leaves",
    "a generation begins",
    "a member waits for another bucket's leases",
    "lost writes are noticed",
    "a member of a later version is there",
    "a map of a later version is there",
];

/// How often each of all that may happen did.
pub fn count<'a>(seeds: impl Iterator<Item = &'a Happened>) -> BTreeMap<&'static str, usize> {
    let names = Fault::ALL
        .iter()
        .map(|it| it.name())
        .chain(WHAT.iter().copied());
    let mut all: BTreeMap<_, _> = names.map(|name| (name, 0)).collect();
    for name in seeds.flatten() {
        *all.entry(name).or_default() += 1;
    }
    all
}

impl World {
    /// Something happened.
    pub fn saw(&mut self, what: &'static str) {
        debug_assert!(
            WHAT.contains(&what) || Fault::ALL.iter().any(|it| it.name() == what),
            "{what}"
        );
        self.happened.insert(what);
    }

    pub fn saw_if(&mut self, what: &'static str, is_so: bool) {
        if is_so {
            self.saw(what);
        }
    }

    /// A record is sent.
    pub fn saw_record(&mut self, node: usize, record: &MemberRecord) {
        let node = &self.nodes[node];
        let excepted = |is_told: bool| {
            let mut all = node.handlers.iter().filter(|(_, it)| it.is_told == is_told);
            all.any(|(unit, _)| record.excepts.contains(unit.generation, unit.unit()))
        };
        let generation = self.stream.map_at(record.follows).map(Map::generation);
        let others = generation.is_some_and(|it| record.excepts.has_other_generation(it));
        let (told, goes_on) = (excepted(true), excepted(false));
        self.saw_if("a handler goes on over a newer map", goes_on);
        self.saw_if("a handler that was told to end is an exception", told);
        self.saw_if("an exception is of another generation", others);
        self.saw_if("a member can't run a unit", !record.unable.is_empty());
        self.saw_if("a member waits for another bucket's leases", record.waits);
    }

    /// A value is stored over another one.
    pub fn saw_stored(&mut self, write: &Sent, former: Option<&Entry>, value: &Value) {
        let former_value = former.map(|it| &it.value);
        let is_own = |node: &Node, epoch: Epoch| node.past.claimed.contains(&epoch);
        match (&write.key, value) {
            (nats_elect_core::assignment::Key::Map(_), Value::Map(map)) => {
                self.saw_map(former_value, map);
                let planners = self.nodes.iter().filter_map(|it| it.member.as_ref());
                let planners = planners.filter(|it| it.plans()).count();
                self.saw_if("two members plan", planners > 1);
            }
            (nats_elect_core::assignment::Key::Map(_), _) => self.saw("a missing map is noticed"),
            (nats_elect_core::assignment::Key::Member(_, epoch), Value::Ended) => {
                let is_own = is_own(&self.nodes[write.node], *epoch);
                let is_foreign = former_value == Some(&Value::Foreign);
                self.saw(if is_own {
                    "an epoch is ended by its member"
                } else if is_foreign {
                    "an epoch with a foreign value is ended"
                } else {
                    "an epoch is ended by another"
                });
            }
            (_, Value::Expiring) => self.saw("an end gets a time to live"),
            (_, Value::Foreign) => self.saw("a missing member is noticed"),
            _ => {}
        }
    }

    fn saw_map(&mut self, former: Option<&Value>, map: &Map) {
        match former {
            Some(Value::Map(before)) => {
                let is_next = before.generation() == map.generation();
                let has_more = is_next && before.units().count() < map.units().count();
                let is_over = |epoch| self.stream.was_over(&Self::member_key(epoch));
                let moves = (0..before.units().count()).any(|unit| {
                    let (from, to) = (before.owner(unit), map.owner(unit));
                    is_next && to.is_some() && to != from && from.is_some_and(|it| !is_over(it))
                });
                self.saw_if("a generation begins", !is_next);
                self.saw_if("a name is new", has_more);
                self.saw_if("a unit moves between living members", moves);
            }
            _ if map.has_owners() => {
                self.saw("a map is collected");
                self.saw("a collect names owners");
            }
            _ if self.maps > 0 => self.saw("a map is collected"),
            _ => self.saw("a first map is written"),
        }
    }
}

/// Whether the owner of a unit waits for somebody by a map.
pub fn waits(stream: &Stream, sequence: u64, unit: &nats_elect_core::member::UnitId) -> bool {
    let map = stream.map_at(sequence);
    let place = map.and_then(|map| unit.place_in(map));
    map.zip(place)
        .is_some_and(|(map, place)| map.waits_for(place).next().is_some())
}
