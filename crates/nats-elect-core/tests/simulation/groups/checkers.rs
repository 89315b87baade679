//! What is promised of groups, checked by the true time.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use nats_elect_core::group::{GroupKey, GroupWrite, UnitKey, UnitRecord};

use super::world::World;

/// A promise about groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// At no true instant do two terms of a unit count as valid.
    OneOwner,
    /// The tokens of a unit's terms strictly increase.
    RisingTokens,
    /// No unit of a generation acts beside one of a later generation.
    OneGeneration,
    /// Once faults stop, each unit has an owner within a stated bound.
    EachOwned,
    /// Once faults stop, each member that is dead, and whose record told its lease, has a tombstone within
    /// a stated bound.
    EachDeposed,
    /// Writes are bounded by what happens, and end.
    FewWrites,
    /// The machine keeps to its rules of conduct.
    GoodConduct,
    /// Nothing panics.
    NoPanic,
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    pub promise: Promise,
    pub at: Duration,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            promise,
            at,
            detail,
        } = self;
        write!(f, "{promise:?} broken at {at:?}: {detail}")
    }
}

/// What they remember.
#[derive(Debug, Default)]
pub struct Checkers {
    tokens: BTreeMap<UnitKey, u64>,
    /// How many writes over one sequence of a key each process has sent, and when the first.
    pub sent: BTreeMap<(usize, u64, GroupKey, u64), (u32, Duration)>,
    /// All writes but heartbeats.
    pub writes: u64,
}

impl World {
    fn broken(&self, promise: Promise, detail: String) -> Violation {
        let at = self.now;
        Violation {
            promise,
            at,
            detail,
        }
    }

    pub fn broken_conduct(&self, detail: String) -> Violation {
        self.broken(Promise::GoodConduct, detail)
    }
}

impl Checkers {
    /// Looks at the truth.
    pub fn look(world: &World) -> Result<(), Violation> {
        if world.history_lost {
            return Ok(());
        }
        let mut valid: Vec<(usize, &UnitKey, u64)> = Vec::new();
        for (node, at) in world.nodes.iter().enumerate() {
            let process = at.process.as_ref();
            if process.is_some_and(|process| process.group.regressed_until().is_some()) {
                let detail = format!("node-{node} says that the stream lost messages");
                return Err(world.broken_conduct(detail));
            }
            let terms = at.valid_terms(world.now);
            valid.extend(terms.map(|(unit, sequence)| (node, unit, sequence)));
        }
        for (i, (node, unit, sequence)) in valid.iter().enumerate() {
            for (other, another, second) in &valid[i + 1..] {
                let who = || {
                    format!(
                        "{unit} at {sequence} by node-{node} and {another} at {second} by node-{other}"
                    )
                };
                if unit == another {
                    return Err(world.broken(Promise::OneOwner, who()));
                }
                if unit.group == another.group && unit.generation != another.generation {
                    return Err(world.broken(Promise::OneGeneration, who()));
                }
            }
        }
        Ok(())
    }

    /// A term begins.
    pub fn started(
        world: &mut World,
        node: usize,
        unit: &UnitKey,
        sequence: u64,
    ) -> Result<(), Violation> {
        let process = world.nodes[node].process.as_ref();
        let mut terms = process.into_iter().flat_map(|process| &process.terms);
        let old = terms.find(|((key, _), term)| key == unit && term.running);
        if let Some(((_, old), _)) = old {
            let detail = format!("node-{node}: the handler of {unit} at {old} still runs");
            return Err(world.broken_conduct(detail));
        }
        let last = world.checkers.tokens.entry(unit.clone()).or_insert(0);
        let before = std::mem::replace(last, sequence.max(*last));
        if sequence <= before && !world.history_lost {
            let detail = format!("{unit}: {sequence} after {before}, node-{node}");
            return Err(world.broken(Promise::RisingTokens, detail));
        }
        Ok(())
    }

    /// A write that is no heartbeat is sent.
    pub fn writes(world: &mut World, node: usize, write: &GroupWrite) -> Result<(), Violation> {
        world.tally.writes += 1;
        world.checkers.writes += 1;
        let (key, over) = match write {
            GroupWrite::Unit { key, over, .. } => (GroupKey::Unit(key.clone()), *over),
            GroupWrite::Depose { epoch, over, .. } => (GroupKey::Member(*epoch), *over),
            GroupWrite::Group { group, over, .. } => (GroupKey::Group(group.clone()), *over),
        };
        if let GroupWrite::Unit {
            key,
            over,
            record,
            sign,
        } = write
        {
            let stands = world.stream.get(&GroupKey::Unit(key.clone()));
            let closed = stands.is_some_and(|stands| {
                stands.sequence == *over
                    && matches!(
                        stands.body,
                        super::stream::Body::Unit(Some(UnitRecord::Closed), _)
                    )
            });
            // In the present generation a stranger closed it, and so before the group's record.
            let group_key = GroupKey::Group(key.group.clone());
            let group = world.group_record(&group_key);
            let grown_at = world.stream.get(&group_key).map(|it| it.sequence);
            let is_over = group.is_some_and(|group| key.generation < group.generation)
                && grown_at.is_some_and(|grown_at| grown_at < *over);
            if closed && is_over && *record != UnitRecord::Closed {
                let detail = format!("node-{node} writes over {key}, which is closed");
                return Err(world.broken_conduct(detail));
            }
            // An owner ends its handler before it gives the unit away, or has it revoked.
            let valid = world.nodes[node]
                .valid_terms(world.now)
                .any(|(unit, _)| unit == key);
            if valid {
                let detail = format!("node-{node} writes over {key}, on which it acts");
                return Err(world.broken_conduct(detail));
            }
            let own = world.nodes[node].process.as_ref();
            if let Some(epoch) = sign
                && own.is_none_or(|process| !process.own.contains(epoch))
            {
                let detail = format!("node-{node} signs for {epoch}");
                return Err(world.broken_conduct(detail));
            }
        }
        let (life, now) = (world.nodes[node].life, world.now);
        let heartbeat = world.nodes[node].settings.heartbeat;
        let key = (node, life, key, over);
        let (count, since) = world.checkers.sent.entry(key).or_insert((0, now));
        *count += 1;
        // One at once and one for each heartbeat. While a group is new, its units are looked at four
        // times a heartbeat: one that exists and was not shown is created in vain each time. A few
        // more may follow from watches that begin anew.
        let looks = (now - *since).as_nanos() * 4 / heartbeat.as_nanos() + 1;
        if u128::from(*count) > looks * 102 / 100 + 6 {
            let detail = format!("node-{node} sent {count} writes since {since:?}: {write:?}");
            return Err(world.broken(Promise::FewWrites, detail));
        }
        Ok(())
    }
}
