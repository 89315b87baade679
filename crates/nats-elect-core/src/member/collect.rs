//! Maps for which all epochs of the group have to be found: those over foreign values, and those with
//! new names.

use std::collections::BTreeSet;
use std::time::Duration;

use super::effect::Effect;
use super::input::Found;
use super::machine::Member;
use crate::OpId;
use crate::assignment::{Map, MapError, MemberRecord, Units, Value};
use crate::moment::Moment;
use crate::mutation::mutated;

/// The pause after reads that led to no map.
const PAUSE: Duration = Duration::from_millis(250);

/// The way to such a map.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Collecting {
    step: Step,
    /// When the next attempt may begin.
    not_before: Moment,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Step {
    #[default]
    None,
    /// A heartbeat of this number or a later one has to be confirmed.
    Heartbeat { over: u64, beat: u64 },
    /// The reads have to show the own record, at this sequence or a later one.
    Reads { over: u64, op: OpId, own: u64 },
}

impl Collecting {
    /// The sequence of the value over which the map is to be written.
    const fn over(&self) -> Option<u64> {
        match self.step {
            Step::None => None,
            Step::Heartbeat { over, .. } | Step::Reads { over, .. } => Some(over),
        }
    }

    /// Begins anew, as the lease is another one.
    pub fn reset(&mut self) {
        self.step = Step::None;
    }
}

impl Member {
    /// Begins to collect if that is due, and drops what became pointless.
    pub(super) fn collect(&mut self, delay: Duration) {
        let due = self.collect_due(delay);
        let over = due.map(|(_, over)| over);
        if self.collecting.over().is_some_and(|it| Some(it) != over) {
            self.collecting.step = Step::None;
        }
        if let Some((at, over)) = due
            && at <= self.now
            && self.collecting.step == Step::None
            && !self.coordinator.is_writing()
        {
            let beat = self.keeping.next_beat();
            self.collecting.step = Step::Heartbeat { over, beat };
            self.tells = true;
        }
    }

    /// When to collect, and over which value: a foreign one, or the map that lacks names.
    pub(super) fn collect_due(&self, delay: Duration) -> Option<(Moment, u64)> {
        if self.left_at.is_some() {
            return None;
        }
        let (over, since) = match self.following.foreign() {
            Some(foreign) => foreign,
            None => (self.lacks_names()?, Moment::default()),
        };
        Some(((since + delay).max(self.collecting.not_before), over))
    }

    /// The sequence of the map, if it is current and lacks names that this member knows.
    fn lacks_names(&self) -> Option<u64> {
        let map = self.following.current()?;
        let lacks = match (map.units(), &self.settings.units) {
            (Units::Names(known), Units::Names(all)) => all.iter().any(|it| !known.contains(it)),
            _ => false,
        };
        lacks.then(|| map.sequence())
    }

    /// When something is to be done for a map that is collected.
    pub(super) fn collect_wakeup(&self, delay: Duration) -> Option<Moment> {
        let is_idle = self.collecting.step == Step::None && !self.coordinator.is_writing();
        let due = self.collect_due(delay).filter(|_| is_idle);
        due.map(|(at, _)| at)
    }

    /// A heartbeat is confirmed. Reads that begin now prove what they find, if it was sent after the
    /// foreign value was shown.
    pub(super) fn collect_confirmed(&mut self, confirmed: u64, own: u64) {
        if let Step::Heartbeat { over, beat } = self.collecting.step
            && (confirmed >= beat || mutated!(ReadsBeforeHeartbeat))
        {
            let op = self.next_op();
            self.collecting.step = Step::Reads { over, op, own };
            self.emit(Effect::Collect { op, since: own });
        }
    }

    /// The reads ended.
    pub(super) fn collected(&mut self, op: OpId, found: Option<Vec<Found>>) {
        let (over, own) = match self.collecting.step {
            Step::Reads { over, op: it, own } if it == op => (over, own),
            _ => return,
        };
        self.collecting.step = Step::None;
        self.collecting.not_before = self.now + PAUSE;
        let (Some(found), Some(epoch)) = (found, self.epoch()) else {
            return;
        };
        for it in &found {
            self.show_member(it.epoch, it.sequence, it.value.clone());
        }
        let shows_own = |it: &Found| {
            it.epoch == epoch && (it.sequence >= own || mutated!(ReadsBeforeHeartbeat))
        };
        let is_due = self
            .collect_due(Duration::ZERO)
            .is_some_and(|it| it.1 == over);
        if !is_due
            || !found.iter().any(shows_own)
            || (self.must_not_collect(&found) && !mutated!(CollectsBehind))
        {
            return;
        }
        if let Ok(map) = self.collected_map(over, &found) {
            self.write_map(&map);
        }
    }

    /// Whether an epoch that is not over knows more of the maps than this member.
    fn must_not_collect(&self, found: &[Found]) -> bool {
        let follows = self.following.acknowledged();
        let mut others = found.iter().filter(|it| !self.peers.is_over(it.epoch));
        others.any(|it| match &it.value {
            Value::Member(record) => record.follows > follows,
            _ => follows == 0 && !mutated!(CollectsBesideUnreadable),
        })
    }

    fn collected_map(&self, over: u64, found: &[Found]) -> Result<Map, MapError> {
        let found = found.iter().map(|it| it.epoch).chain(self.peers.living());
        let found: BTreeSet<_> = found.filter(|it| !self.peers.is_over(*it)).collect();
        let found = if mutated!(CollectsKnownAlone) {
            BTreeSet::new()
        } else {
            found
        };
        match (self.following.map(), &self.settings.units) {
            (Some(map), Units::Names(names)) if map.sequence() == over => {
                map.add_names(names.iter().cloned(), &found)
            }
            (Some(map), _) => map.collect(over, found, |epoch| self.peers.is_over(epoch)),
            (None, units) => {
                let joins = |it: &&MemberRecord| !it.leaves;
                let records = found.iter().filter_map(|it| self.peers.record(*it));
                let members = records.map(AsRef::as_ref).filter(joins);
                let members: Vec<_> = members.map(|it| it.epoch).collect();
                Map::first(over, self.bucket, units.clone(), &members, found)
            }
        }
    }
}
