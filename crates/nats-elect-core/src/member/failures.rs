//! Handlers that end by themselves: how long their units rest, and which units fail here.

use std::collections::BTreeMap;
use std::time::Duration;

use super::peers::AGAIN;
use super::unit::UnitId;
use crate::moment::Moment;

/// A unit fails here after so many failures in a row.
const MOST_IN_A_ROW: u32 = 3;
/// A failure counts for so long.
const COUNTS_FOR: Duration = Duration::from_secs(300);
/// The pause after a failure doubles so often at most: 32 heartbeats.
const MOST_DOUBLED: u32 = 5;

/// What counts of handlers that ended by themselves.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Failures {
    failed: BTreeMap<UnitId, Failed>,
    resting: BTreeMap<UnitId, Rest>,
    /// When a map may be asked for again.
    ask_at: Moment,
}

/// Failures one after the other.
#[derive(Clone, Copy, Debug, Default, Hash)]
pub(super) struct Failed {
    in_a_row: u32,
    last: Moment,
}

/// An owned unit without a handler.
#[derive(Clone, Copy, Debug, Hash)]
struct Rest {
    /// `None` while its handler was told to end, and has not.
    until: Option<Moment>,
    /// Whether the followed map is newer than the handler's end: the next one may begin by it.
    has_map: bool,
}

impl Failures {
    /// A handler ended by itself. Its unit rests for a heartbeat, and for longer the more failures
    /// there were in a row.
    pub fn ended(&mut self, now: Moment, unit: &UnitId, has_failed: bool, heartbeat: Duration) {
        let mut pause = heartbeat;
        if has_failed {
            self.failed.retain(|_, it| it.counts(now));
            let failed = self.failed.entry(unit.clone()).or_default();
            pause *= 1 << failed.in_a_row.min(MOST_DOUBLED);
            failed.again(now);
        }
        self.rest(unit, Some(now + pause));
    }

    /// A handler is told to end because its unit fails here. That counts as enough failures.
    pub fn gave_up(&mut self, now: Moment, unit: &UnitId) {
        let failed = Failed {
            in_a_row: MOST_IN_A_ROW,
            last: now,
        };
        self.failed.insert(unit.clone(), failed);
        self.rest(unit, None);
    }

    fn rest(&mut self, unit: &UnitId, until: Option<Moment>) {
        let has_map = false;
        self.resting.insert(unit.clone(), Rest { until, has_map });
    }

    /// A handler that was told to end has ended.
    pub fn ended_as_told(&mut self, now: Moment, unit: &UnitId) {
        if let Some(rest) = self.resting.get_mut(unit) {
            rest.until.get_or_insert(now);
        }
    }

    /// A newer map is followed, which has this generation. Only what it lets the member own rests on.
    pub fn follow(&mut self, generation: Option<u32>, owns: impl Fn(&UnitId) -> bool) {
        self.resting.retain(|unit, _| owns(unit));
        self.resting.values_mut().for_each(|it| it.has_map = true);
        // A record tells no other generation: nobody could open the next one.
        let is_known = |unit: &UnitId| generation.is_none_or(|it| it == unit.generation);
        self.failed.retain(|unit, _| is_known(unit));
    }

    /// The epoch is no more, and nothing of it begins.
    pub fn forget_epoch(&mut self) {
        self.resting.clear();
    }

    pub fn rests(&self, unit: &UnitId) -> bool {
        self.resting.contains_key(unit)
    }

    /// Ends the rests that are over. Returns whether there are any.
    pub fn wake(&mut self, now: Moment) -> bool {
        let before = self.resting.len();
        let is_over = |it: &Rest| it.has_map && it.until.is_some_and(|until| until <= now);
        self.resting.retain(|_, it| !is_over(it));
        self.resting.len() < before
    }

    /// When the next unit begins that has rested.
    pub fn wakes(&self) -> Option<Moment> {
        self.next(true)
    }

    /// When units that have rested need another map.
    pub fn asks(&self) -> Option<Moment> {
        self.next(false).map(|at| at.max(self.ask_at))
    }

    fn next(&self, has_map: bool) -> Option<Moment> {
        let rests = self.resting.values().filter(|it| it.has_map == has_map);
        rests.filter_map(|it| it.until).min()
    }

    /// The units that need another map, by now or when they have rested.
    pub fn need_map(&self) -> impl Iterator<Item = &UnitId> {
        let rests = self.resting.iter().filter(|(_, it)| !it.has_map);
        rests.map(|(unit, _)| unit)
    }

    /// Whether units need another map by now. If so, they ask again after a while.
    pub fn ask_map(&mut self, now: Moment) -> bool {
        let is_due = self.asks().is_some_and(|at| at <= now);
        if is_due {
            self.ask_at = now + AGAIN;
        }
        is_due
    }

    /// Whether the unit is to go elsewhere, if it can.
    pub fn is_failing(&self, now: Moment, unit: &UnitId) -> bool {
        self.failed.get(unit).is_some_and(|it| it.is_failing(now))
    }

    /// All units that are to go elsewhere.
    pub fn failing(&self, now: Moment) -> impl Iterator<Item = &UnitId> {
        let failing = self.failed.iter().filter(move |(_, it)| it.is_failing(now));
        failing.map(|(unit, _)| unit)
    }
}

impl Failed {
    /// Something failed once more.
    pub fn again(&mut self, now: Moment) {
        let before = if self.counts(now) { self.in_a_row } else { 0 };
        self.in_a_row = before.saturating_add(1);
        self.last = now;
    }

    fn counts(self, now: Moment) -> bool {
        now < self.last + COUNTS_FOR
    }

    pub fn is_failing(self, now: Moment) -> bool {
        self.in_a_row >= MOST_IN_A_ROW && self.counts(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assignment::Unit;

    const HEARTBEAT: Duration = Duration::from_secs(1);

    fn unit(generation: u32, shard: u32) -> UnitId {
        UnitId {
            generation,
            unit: Unit::Shard(shard),
        }
    }

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(1) + Duration::from_secs(secs)
    }

    #[test]
    fn the_pause_doubles_with_each_failure_and_three_in_a_row_make_a_unit_fail() {
        let mut failures = Failures::default();
        let mut now = 1000;
        for (after, has_failed, pause, is_failing) in [
            (0, false, 1, false),
            (0, true, 1, false),
            (1, true, 2, false),
            (2, false, 1, false),
            (290, true, 4, true),
            (4, true, 8, true),
            (8, true, 16, true),
            (16, true, 32, true),
            (32, true, 32, true),
            (300, true, 1, false),
            (301, true, 1, false),
        ] {
            now += after;
            // The end that was no failure is no part of the row.
            failures.ended(at(now), &unit(1, 0), has_failed, HEARTBEAT);
            assert_eq!(failures.asks(), Some(at(now + pause)), "at {now}");
            let fails = failures.is_failing(at(now), &unit(1, 0));
            assert_eq!(fails, is_failing, "at {now}");
            assert!(!failures.is_failing(at(now), &unit(1, 1)));
        }
    }

    #[test]
    fn a_unit_that_was_given_up_fails_for_five_minutes_and_rests_until_its_handler_has_ended() {
        let mut failures = Failures::default();
        failures.gave_up(at(0), &unit(1, 0));
        assert_eq!(failures.asks(), None);
        failures.ended_as_told(at(5), &unit(1, 0));
        assert_eq!(failures.asks(), Some(at(5)));
        let failing = |second| failures.failing(at(second)).count();
        assert_eq!((failing(5), failing(299), failing(300)), (1, 1, 0));
    }

    #[test]
    fn a_newer_map_lets_units_begin_when_they_have_rested() {
        let mut failures = Failures::default();
        let (kept, lost) = (unit(1, 0), unit(1, 1));
        for unit in [&kept, &lost] {
            failures.ended(at(0), unit, true, HEARTBEAT * 4);
        }
        assert!(!failures.ask_map(at(3)) && failures.ask_map(at(4)));
        assert_eq!(failures.asks(), Some(at(4) + AGAIN));
        failures.follow(Some(1), |it| *it == kept);
        assert_eq!((failures.asks(), failures.wakes()), (None, Some(at(4))));
        assert!(failures.rests(&kept) && !failures.rests(&lost));
        assert!(!failures.wake(at(3)) && failures.wake(at(4)));
        assert!(!failures.rests(&kept));
    }

    #[test]
    fn another_generation_begins_without_failures() {
        let mut failures = Failures::default();
        failures.gave_up(at(0), &unit(1, 0));
        failures.follow(None, |_| false);
        assert_eq!(failures.failing(at(1)).count(), 1);
        failures.follow(Some(2), |_| false);
        assert_eq!(failures.failing(at(1)).count(), 0);
    }
}
