//! Who writes the next map, and when.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::effect::{Effect, Over};
use super::failures::Failed;
use super::input::Order;
use super::machine::{Member, Purpose};
use super::peers::AGAIN;
use super::planning::{Candidate, can_run};
use super::unit::UnitId;
use crate::assignment::{Changes, Epoch, Map, MapError, MemberRecord};
use crate::event::FailureKind;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::plan::Standing;
use crate::{RequestId, WriteOutcome};

/// A member leaves so much time to each that is before it in the order of joining.
pub(super) const TURN: Duration = Duration::from_millis(250);

/// Changes of so much time go into one map, and a millisecond more for each thousand units.
const GATHER: Duration = Duration::from_millis(5);

/// So long a map names epochs that are clear or over, if no other map is written.
const TIDY: Duration = Duration::from_secs(30);

/// After a member came or went so long the plan leaves units where they are while members tell several
/// versions of their application: a rolling restart goes on.
const ROLL: Duration = Duration::from_secs(120);

/// How far the next map is.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Coordinator {
    /// Since when something may have to change.
    cause: Option<Moment>,
    work: Work,
    pub orders: VecDeque<(RequestId, Order)>,
    /// When the first order may be carried out. It waits for no turn.
    pub order_at: Moment,
    was_first: bool,
    /// Writes of maps that failed.
    failed: Failed,
    tidy_at: Moment,
    /// When a member that tells a version came or went last.
    pub rolled: Option<Moment>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
enum Work {
    #[default]
    None,
    /// A plan of the map of this sequence is asked for.
    Plans { base: u64, is_repair: bool },
    /// A map is sent.
    Writes,
    /// A map is stored at this sequence. It is read if the watch does not show it by then.
    Stored { sequence: u64, read_at: Moment },
}

impl Coordinator {
    /// Something may have to change at this moment.
    pub fn stir(&mut self, at: Moment) {
        self.cause = Some(self.cause.map_or(at, |cause| cause.min(at)));
    }

    /// Until when a rolling restart goes on.
    pub fn rolls_until(&self, now: Moment, candidates: &[Candidate]) -> Option<Moment> {
        let version = |it: &Candidate| it.record.as_ref()?.profile.version.clone();
        let until = self.rolled? + ROLL;
        let versions: BTreeSet<_> = candidates.iter().map(version).collect();
        (until > now && versions.len() > 1).then_some(until)
    }

    /// Whether a map is under way.
    pub const fn is_writing(&self) -> bool {
        matches!(self.work, Work::Writes | Work::Stored { .. })
    }
}

impl Member {
    /// Whether its writes of maps keep failing, so that others plan who can.
    pub fn is_aside(&self) -> bool {
        self.coordinator.failed.is_failing(self.now)
    }

    /// How many living members are before this one in the order of joining. Who stands aside is last.
    pub(super) fn turn(&self, own: Epoch) -> u32 {
        let is_there = |epoch: Epoch| {
            let record = self.peers.record(epoch);
            record.is_some_and(|it| !it.leaves) && !self.peers.is_quiet(epoch, self.now)
        };
        let is_aside = |epoch| self.peers.record(epoch).is_some_and(|it| it.aside);
        let members = self.following.map().map_or(&[][..], |map| map.members());
        let order = |aside| {
            let joins = self.peers.living().filter(|it| !members.contains(it));
            let all = members.iter().copied().chain(joins);
            all.filter(move |it| is_aside(*it) == aside)
        };
        let before = order(false).chain(order(true)).take_while(|it| *it != own);
        u32::try_from(before.filter(|it| is_there(*it)).count()).unwrap_or(u32::MAX)
    }

    /// The time that this member leaves to those before it.
    pub(super) fn delay(&self, own: Epoch) -> Duration {
        TURN.saturating_mul(self.turn(own))
    }

    /// A new map is followed.
    pub(super) fn coordinate_anew(&mut self) {
        if let Work::Plans { .. } = self.coordinator.work {
            self.coordinator.work = Work::None;
        }
        self.coordinator.cause = Some(self.now);
        self.coordinator.order_at = self.now;
        self.coordinator.tidy_at = self.now + TIDY;
    }

    /// A newer value of the map's key was shown.
    pub(super) fn map_shown(&mut self) {
        if let Work::Stored { sequence, .. } = self.coordinator.work
            && sequence <= self.following.shown
        {
            self.coordinator.work = Work::None;
        }
    }

    /// Writes or plans the next map if that is due.
    pub(super) fn coordinate(&mut self, delay: Duration) {
        let is_first = delay.is_zero();
        if is_first && !self.coordinator.was_first {
            self.coordinator.stir(self.now);
        }
        self.coordinator.was_first = is_first;
        if let Work::Stored { read_at, .. } = &mut self.coordinator.work
            && *read_at <= self.now
        {
            *read_at = self.now + AGAIN;
            self.read_map();
        }
        let Some(map) = self.following.current().cloned() else {
            return;
        };
        if !self.is_due(delay) {
            return;
        }
        let is_ordered = self.order_due(&map).is_some_and(|at| at <= self.now);
        if is_ordered && (self.obey(&map) || !self.is_due(delay)) {
            return;
        }
        if self.cause_due(&map, delay).is_some_and(|at| at <= self.now) {
            self.coordinator.cause = None;
            return self.write_next(&map, is_first);
        }
        self.coordinator.tidy_at = self.now + TIDY;
        let is_idle = self.acting.failures.ask_map(self.now);
        let changes = Changes {
            gone: self.gone(&map),
            ..Changes::default()
        };
        let says = |it: &Map| it.waits() + it.members().len();
        if let Ok(next) = self.next(&map, &changes)
            && (is_idle || (is_first && says(&next) < says(&map)))
        {
            self.write_map(&next);
        }
    }

    /// When the next map is due.
    pub(super) fn coordinate_due(&self, delay: Duration) -> Option<Moment> {
        match self.coordinator.work {
            Work::Stored { read_at, .. } => return Some(read_at),
            Work::Writes | Work::Plans { .. } => return None,
            Work::None => {}
        }
        let map = self.following.current()?;
        if self.left_at.is_some() {
            return None;
        }
        let cause = self.cause_due(map, delay);
        let order = self.order_due(map);
        let idle = self.acting.failures.asks();
        let is_untidy = || map.waits() > 0 || !self.gone(map).is_empty();
        let tidy = (delay.is_zero() && is_untidy()).then_some(self.coordinator.tidy_at);
        [cause, order, idle, tidy].into_iter().flatten().min()
    }

    fn is_due(&self, delay: Duration) -> bool {
        let due = self.coordinate_due(delay);
        due.is_some_and(|due| due <= self.now)
    }

    fn cause_due(&self, map: &Map, delay: Duration) -> Option<Moment> {
        Some(self.coordinator.cause? + gather(map) + delay)
    }

    fn write_next(&mut self, map: &Arc<Map>, is_first: bool) {
        if self.owners_have_to_wait() {
            return self.try_later();
        }
        let has_loose = (0..map.units().count()).any(|place| self.is_loose(map, place));
        if has_loose {
            // Whoever can have it may come without a word that stirs.
            self.try_later();
        }
        let candidates = self.candidates(map);
        // A plan for the others alone would move units that then move back.
        let is_behind = |it: &Candidate| {
            let told = it.record.as_ref().filter(|it| !it.waits && !it.leaves);
            told.is_some_and(|told| told.follows < map.sequence())
                && !self.peers.is_quiet(it.epoch, self.now)
        };
        let waits_for_words = is_first && candidates.iter().any(is_behind);
        if waits_for_words {
            self.try_later();
        }
        let is_repair = !is_first || waits_for_words;
        if is_repair && !has_loose {
            return;
        }
        let request = self.request(map, candidates, is_repair);
        if let Some(until) = request.rolls_until {
            self.coordinator.stir(until);
        }
        self.coordinator.work = Work::Plans {
            base: map.sequence(),
            is_repair,
        };
        self.emit(Effect::Plan(request.into()));
    }

    fn try_later(&mut self) {
        self.coordinator.cause = Some(self.now + AGAIN);
    }

    /// Whether no unit may get its first owner in this bucket: a living member waits for those of another.
    pub fn owners_have_to_wait(&self) -> bool {
        let any_waits = self.waits() || self.peers.any_waits();
        any_waits && !self.following.has_owned && !mutated!(FirstOwnersDespiteWaiting)
    }

    /// A plan is made.
    pub(super) fn planned(&mut self, base: u64, mut owners: BTreeMap<u32, Option<Epoch>>) {
        let is_repair = match self.coordinator.work {
            Work::Plans {
                base: it,
                is_repair,
            } if it == base => is_repair,
            _ => return,
        };
        self.coordinator.work = Work::None;
        let map = self.following.current().cloned();
        let Some(map) = map.filter(|map| map.sequence() == base) else {
            return;
        };
        if self.left_at.is_some() || self.epoch().is_none() {
            return;
        }
        if self.owners_have_to_wait() {
            return self.try_later();
        }
        let candidates = self.candidates(&map);
        let able = candidates
            .iter()
            .filter(|it| it.standing == Standing::Takes);
        let takers: BTreeSet<_> = able.map(|it| it.epoch).collect();
        owners.retain(|place, to| {
            let is_meant = !is_repair || self.is_loose(&map, *place);
            let unit = UnitId::at(&map, *place);
            // The plan knew of nobody who can run it. It is as well off there as without an owner.
            let is_alone = !self.has_owner(&map, *place);
            let may = |to| is_alone || self.can_run(to, unit.as_ref());
            is_meant
                && map.owner(*place) != *to
                && to.is_none_or(|to| takers.contains(&to) && may(to))
        });
        let mut changes = Changes {
            joined: Vec::new(),
            gone: self.gone(&map),
            owners,
        };
        let is_new = |epoch: &Epoch| !map.members().contains(epoch);
        if is_repair {
            let owners = changes.owners.values().flatten().copied();
            changes.joined = owners.collect::<BTreeSet<_>>().into_iter().collect();
            changes.joined.retain(is_new);
        } else {
            changes.joined = takers.into_iter().filter(is_new).collect();
        }
        if !changes.owners.is_empty() || !changes.joined.is_empty() {
            let _ = self.write_changes(&map, changes);
        }
    }

    /// Writes the next map with changes, less those of units that wait for too many.
    pub(super) fn write_changes(
        &mut self,
        map: &Map,
        mut changes: Changes,
    ) -> Result<(), MapError> {
        let next = match self.next(map, &changes) {
            Err(MapError::Full(units)) => {
                changes.owners.retain(|unit, _| !units.contains(unit));
                if changes.owners.is_empty() {
                    return Err(MapError::Full(units));
                }
                self.next(map, &changes)
            }
            other => other,
        };
        self.write_map(&next?);
        Ok(())
    }

    fn next(&self, map: &Map, changes: &Changes) -> Result<Map, MapError> {
        map.next(changes, self.clear_in(map))
    }

    /// Whether an epoch is clear of the unit at a place. It is asked for many units in a row.
    pub(super) fn clear_in<'a>(&'a self, map: &'a Map) -> impl Fn(Epoch, u32, u64) -> bool + 'a {
        let last = Cell::new(None);
        move |epoch, place, number| {
            let asked = (epoch, number);
            let known = last
                .get()
                .filter(|(it, _)| *it == asked)
                .map(|(_, all)| all);
            let is_clear_of_all = known.unwrap_or_else(|| {
                let all = number != u64::MAX && self.peers.is_clear_of_all(epoch, number);
                last.set(Some((asked, all)));
                all
            });
            let is_clear = || {
                let unit = UnitId::at(map, place);
                unit.is_some_and(|unit| self.is_clear(epoch, &unit, number))
            };
            is_clear_of_all || is_clear()
        }
    }

    /// Whether an epoch is clear of a unit. No record is for the sequence `u64::MAX`.
    pub(super) fn is_clear(&self, epoch: Epoch, unit: &UnitId, number: u64) -> bool {
        let (generation, unit) = (unit.generation, unit.unit());
        match number {
            u64::MAX => mutated!(FormerOwnerForgotten) || self.peers.is_over(epoch),
            _ => self.peers.is_clear(epoch, generation, unit, number),
        }
    }

    /// Members that are over.
    pub(super) fn gone(&self, map: &Map) -> BTreeSet<Epoch> {
        let members = map.members().iter().copied();
        members.filter(|it| self.peers.is_over(*it)).collect()
    }

    /// Whether a unit has an owner that lives and stays.
    fn has_owner(&self, map: &Map, place: u32) -> bool {
        map.owner(place).is_some_and(|owner| {
            let leaves = |it: &Arc<MemberRecord>| it.leaves;
            !self.peers.is_over(owner) && !self.peers.record(owner).is_some_and(leaves)
        })
    }

    /// Whether a unit has no owner that lives and stays, or one that can't run it where another could.
    pub(super) fn is_loose(&self, map: &Map, place: u32) -> bool {
        let is_able = |owner| {
            let unit = UnitId::at(map, place);
            let can_run = |it| self.can_run(it, unit.as_ref());
            let stays = |it: &Epoch| self.peers.record(*it).is_some_and(|it| !it.leaves);
            can_run(owner) || !self.peers.living().any(|it| stays(&it) && can_run(it))
        };
        !self.has_owner(map, place) || !map.owner(place).is_none_or(is_able)
    }

    pub(super) fn can_run(&self, epoch: Epoch, unit: Option<&UnitId>) -> bool {
        let record = self
            .peers
            .record(epoch)
            .filter(|_| !mutated!(GivesToUnable));
        record
            .zip(unit)
            .is_none_or(|(record, unit)| can_run(record, unit))
    }

    /// Writes a map over the one that it is made from.
    pub(super) fn write_map(&mut self, map: &Map) {
        let over = if mutated!(MapOverAnything) {
            Over::Anything
        } else {
            Over::Sequence(map.over())
        };
        self.coordinator.work = Work::Writes;
        self.write(Purpose::Map, self.map_key(), over, map.to_json());
    }

    /// The write of a map ended.
    pub(super) fn map_written(&mut self, outcome: &WriteOutcome) {
        if self.coordinator.work != Work::Writes {
            return;
        }
        self.coordinator.work = Work::None;
        if let WriteOutcome::Failed(failure) = outcome {
            self.coordinator.failed.again(self.now);
            if failure.kind == FailureKind::BucketUnfit {
                self.give_up_resize();
            }
        } else {
            self.coordinator.failed = Failed::default();
        }
        let WriteOutcome::Acked { revision } = *outcome else {
            self.coordinator.cause = Some(self.now + TURN);
            self.coordinator.order_at = self.now + TURN;
            return self.read_map();
        };
        if revision > self.following.shown {
            self.following.written(revision);
            self.coordinator.work = Work::Stored {
                sequence: revision,
                read_at: self.now + AGAIN,
            };
        }
    }
}

/// For so long changes go into one map.
pub(super) fn gather(map: &Map) -> Duration {
    GATHER + Duration::from_millis(u64::from(map.units().count() / 1000))
}
