//! The units whose handlers fail on this member.

use std::collections::BTreeMap;
use std::time::Duration;

use super::key::UnitKey;
use super::member_info::MOST_TOLD;
use crate::moment::Moment;
use crate::name::{GroupName, UnitName};

/// A unit keeps failing here after so many failures in a row.
const MOST_IN_A_ROW: u32 = 3;
/// A failure counts for so long.
const COUNTS_FOR: Duration = Duration::from_secs(300);
/// The pause after a failure doubles so often at most: 32 heartbeats.
const MOST_DOUBLED: u32 = 5;

/// The failures of handlers that still count.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(BTreeMap<UnitKey, Failed>);

#[derive(Clone, Copy, Debug)]
struct Failed {
    in_a_row: u32,
    last: Moment,
}

impl Failures {
    /// Counts a failure. Returns by how much the pause after it is longer than the shortest.
    pub fn count(&mut self, unit: &UnitKey, now: Moment) -> u32 {
        self.0.retain(|_, it| it.counts(now));
        let failed = self.0.entry(unit.clone()).or_insert(Failed {
            in_a_row: 0,
            last: now,
        });
        failed.in_a_row = failed.in_a_row.saturating_add(1);
        failed.last = now;
        1 << (failed.in_a_row - 1).min(MOST_DOUBLED)
    }

    /// Counts enough failures at once for the unit to move.
    pub fn give_up(&mut self, unit: &UnitKey, now: Moment) {
        let in_a_row = MOST_IN_A_ROW;
        self.0.insert(
            unit.clone(),
            Failed {
                in_a_row,
                last: now,
            },
        );
    }

    /// By unit: how many failures in a row count, and until when. More of them make no difference.
    pub fn counting(&self, now: Moment) -> impl Iterator<Item = (&UnitKey, u32, Moment)> {
        let counting = self.0.iter().filter(move |(_, it)| it.counts(now));
        counting.map(|(unit, failed)| {
            let Failed { in_a_row, last } = failed;
            let most = MOST_IN_A_ROW.max(MOST_DOUBLED + 1);
            (unit, (*in_a_row).min(most), *last + COUNTS_FOR)
        })
    }

    /// Whether the unit is to go elsewhere, if it can.
    pub fn keeps_failing(&self, unit: &UnitKey, now: Moment) -> bool {
        self.0.get(unit).is_some_and(|it| it.keeps_failing(now))
    }

    /// The units of a group that keep failing: the latest ones, as many as a member tells.
    pub fn of(&self, group: &GroupName, now: Moment) -> impl Iterator<Item = &UnitName> {
        let of_group = self.0.iter().filter(|(unit, _)| unit.group == *group);
        let mut failing: Vec<_> = of_group.filter(|(_, it)| it.keeps_failing(now)).collect();
        failing.sort_by_key(|(_, it)| std::cmp::Reverse(it.last));
        failing
            .into_iter()
            .take(MOST_TOLD)
            .map(|(unit, _)| &unit.unit)
    }
}

impl Failed {
    fn counts(self, now: Moment) -> bool {
        now < self.last + COUNTS_FOR
    }

    fn keeps_failing(self, now: Moment) -> bool {
        self.in_a_row >= MOST_IN_A_ROW && self.counts(now)
    }
}
