//! The units that this member owns, each from the beginning of a term to the write that ends it.

use std::cmp::Reverse;
use std::time::Duration;

use super::agenda::Subject;
use super::effect::{GroupEffect, GroupWrite};
use super::epoch::Epoch;
use super::key::{GroupKey, UnitKey};
use super::machine::Group;
use super::record::UnitRecord;
use super::view::KnownUnit;
use crate::lease::HandlerEnd;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::{GroupName, UnitName};

/// The most units that a member that leaves gives away at a time,
const MOST_LEAVING: usize = 16;
/// without those whose handlers take longer than this to end, or whose records to be written.
const LEAVING_PATIENCE: Duration = Duration::from_millis(20);
/// How often it looks whether the next ones can follow.
const LEAVING_STEP: Duration = Duration::from_millis(2);

/// A unit whose record named this member when its term began, or whose handler still runs.
#[derive(Clone, Debug, Hash)]
pub(super) struct Tenure {
    pub epoch: Epoch,
    /// The sequence of the record. It is the term's fencing token.
    pub sequence: u64,
    pub phase: Phase,
    /// Whether the handler runs.
    pub runs: bool,
    /// Whether it had its time to end, and runs on.
    pub is_late: bool,
    /// What is written over the record at the end of the term.
    pub next: UnitRecord,
}

impl Tenure {
    /// The member to which the unit is on its way.
    pub fn heir(&self) -> Option<Epoch> {
        let leaves = matches!(
            self.phase,
            Phase::Ending { .. } | Phase::Overrun { .. } | Phase::Giving { .. }
        );
        let heir = self.next.owner().filter(|_| leaves)?;
        (heir != self.epoch).then_some(heir)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Acting,
    /// The handler was told to end.
    Ending {
        revoke_at: Moment,
    },
    /// The handler did not end in time. The term is revoked, and the unit held back for a lease.
    Overrun {
        give_at: Moment,
    },
    /// The handler ended by itself. This member begins again, unless the unit is wanted elsewhere
    /// meanwhile.
    Resting {
        until: Moment,
    },
    /// The term is over. Its end is written, again and again with the same content, until its
    /// outcome is known.
    Giving {
        send_at: Moment,
    },
    /// The record is not this member's any more.
    Displaced,
}

impl Group {
    /// Begins a term on the record at this sequence.
    pub(super) fn begin(&mut self, unit: &UnitKey, epoch: Epoch, sequence: u64, until: Moment) {
        let tenure = Tenure {
            epoch,
            sequence,
            phase: Phase::Acting,
            runs: true,
            is_late: false,
            next: UnitRecord::Owned(epoch),
        };
        self.tenures.insert(unit.clone(), tenure);
        self.out.push(GroupEffect::Start {
            unit: unit.clone(),
            sequence,
            until,
        });
        // Above the unit's record in the stream: who loses that one loses this heartbeat.
        self.heartbeat_now();
    }

    /// Gives up a unit whose record names this member, although no term has begun on it.
    pub(super) fn decline(&mut self, unit: &UnitKey, epoch: Epoch, sequence: u64, to: UnitRecord) {
        let tenure = Tenure {
            epoch,
            sequence,
            phase: Phase::Giving { send_at: self.now },
            runs: false,
            is_late: false,
            next: to,
        };
        self.tenures.insert(unit.clone(), tenure);
        self.agenda.note(Subject::Unit(unit.clone()), self.now);
    }

    /// Ends the term, if it still acts, and then writes this record.
    pub(super) fn end_term(&mut self, unit: &UnitKey, next: UnitRecord) {
        let revoke_at = self.now + self.settings.stop_budget;
        let Some(tenure) = self.tenures.get_mut(unit) else {
            return;
        };
        if tenure.phase != Phase::Acting {
            return;
        }
        (tenure.phase, tenure.next) = (Phase::Ending { revoke_at }, next);
        mutated!(GiveBeforeEnd => tenure.phase = Phase::Giving { send_at: self.now });
        self.out.push(GroupEffect::Cancel {
            unit: unit.clone(),
            sequence: tenure.sequence,
        });
        self.agenda.note(Subject::Unit(unit.clone()), revoke_at);
    }

    /// The handler fails its health checks: its term ends, and the unit goes elsewhere if it can.
    pub(super) fn unhealthy(&mut self, unit: &UnitKey, sequence: u64) {
        let acts = |it: &&Tenure| it.sequence == sequence && it.phase == Phase::Acting;
        if let Some(epoch) = self.tenures.get(unit).filter(acts).map(|it| it.epoch) {
            self.failures.give_up(unit, self.now);
            let next = self.after_failure(unit, epoch);
            self.end_term(unit, next);
        }
    }

    /// What is written over a unit that failed here: another owner if it keeps failing and somebody
    /// may take it.
    fn after_failure(&mut self, unit: &UnitKey, epoch: Epoch) -> UnitRecord {
        if !self.failures.keeps_failing(unit, self.now) {
            return UnitRecord::Owned(epoch);
        }
        // A unit that a recent plan does not know to fail begins here again, and the planner moves it.
        UnitRecord::Owned(self.heir(unit).unwrap_or(epoch))
    }

    pub(super) fn handler_ended(&mut self, unit: &UnitKey, sequence: u64, end: HandlerEnd) {
        let Some(tenure) = self.tenures.get_mut(unit) else {
            return;
        };
        if tenure.sequence != sequence || !tenure.runs {
            return;
        }
        tenure.runs = false;
        let (epoch, phase) = (tenure.epoch, tenure.phase);
        let phase = match phase {
            // The next term of this member begins with a record of its own, after a pause: a
            // handler that fails at once would write without end.
            Phase::Acting => {
                let failed = matches!(end, HandlerEnd::Failed | HandlerEnd::Panicked);
                let longer = if failed {
                    self.failures.count(unit, self.now)
                } else {
                    1
                };
                let next = self.after_failure(unit, epoch);
                if let Some(tenure) = self.tenures.get_mut(unit) {
                    tenure.next = next;
                }
                if next == UnitRecord::Owned(epoch) {
                    let until = self.now + self.settings.heartbeat * longer;
                    Phase::Resting { until }
                } else {
                    Phase::Giving { send_at: self.now }
                }
            }
            Phase::Ending { .. } | Phase::Overrun { .. } => {
                self.look_at_heir(unit, epoch);
                Phase::Giving { send_at: self.now }
            }
            Phase::Giving { .. } | Phase::Resting { .. } => phase,
            Phase::Displaced => {
                self.tenures.remove(unit);
                self.agenda.note(Subject::Unit(unit.clone()), self.now);
                self.retire_if_idle(epoch);
                return;
            }
        };
        self.set_phase(unit, phase);
        mutated!(BeginAgain => { self.tenures.remove(unit); self.agenda.note(Subject::Unit(unit.clone()), self.now); return; });
        self.raise_ended(unit, sequence);
        self.agenda.note(Subject::Unit(unit.clone()), self.now);
    }

    /// The term is over, and its end is not written yet. The heir may have been told to take no units
    /// while the handler ended.
    fn look_at_heir(&mut self, unit: &UnitKey, epoch: Epoch) {
        let next = self.tenures.get(unit).map(|it| it.next);
        let heir = next.and_then(UnitRecord::owner).filter(|it| *it != epoch);
        if heir.is_none_or(|heir| self.is_candidate(unit, heir)) {
            return;
        }
        let next = self.parting(unit);
        if let Some(tenure) = self.tenures.get_mut(unit) {
            tenure.next = next;
        }
    }

    /// The unit's record is another one now, or the epoch is over: the term has ended, whatever its
    /// handler does.
    pub(super) fn displace(&mut self, unit: &UnitKey) {
        let Some(tenure) = self.tenures.get_mut(unit) else {
            return;
        };
        let (sequence, is_valid) = (
            tenure.sequence,
            matches!(tenure.phase, Phase::Acting | Phase::Ending { .. }),
        );
        tenure.phase = Phase::Displaced;
        let runs = tenure.runs;
        if runs && is_valid {
            self.out.push(GroupEffect::Revoke {
                unit: unit.clone(),
                sequence,
            });
        }
        if !runs {
            self.tenures.remove(unit);
        }
        self.raise_ended(unit, sequence);
        self.agenda.note(Subject::Unit(unit.clone()), self.now);
    }

    /// No term begins any more on a record of the unit up to this sequence.
    fn raise_ended(&mut self, unit: &UnitKey, sequence: u64) {
        let ended = self.ended.entry(unit.clone()).or_insert(0);
        *ended = sequence.max(*ended);
    }

    /// Does what is due of a tenure. Returns when to look again.
    pub(super) fn tend_tenure(&mut self, unit: &UnitKey) -> Option<Moment> {
        let tenure = self.tenures.get(unit)?;
        let (epoch, sequence, next) = (tenure.epoch, tenure.sequence, tenure.next);
        let stands = self.view.unit(unit).is_some_and(|it| {
            it.sequence == sequence && it.known == KnownUnit::Record(UnitRecord::Owned(epoch))
        });
        let is_minded = !mutated!(IgnoreForeignRecord);
        if !stands && tenure.phase != Phase::Displaced && is_minded {
            self.displace(unit);
            return None;
        }
        match tenure.phase {
            Phase::Displaced => None,
            // It has its turn while this member leaves.
            Phase::Acting if self.draining => None,
            Phase::Acting => {
                let to = self.wanted(unit, epoch)?;
                self.end_term(unit, to);
                None
            }
            Phase::Ending { revoke_at } if self.now < revoke_at => Some(revoke_at),
            Phase::Ending { .. } => {
                let give_at = self.now + self.settings.ttl;
                self.set_phase(unit, Phase::Overrun { give_at });
                self.mark_late(unit);
                mutated!(NeverRevoke => return Some(give_at));
                self.out.push(GroupEffect::Revoke {
                    unit: unit.clone(),
                    sequence,
                });
                Some(give_at)
            }
            Phase::Overrun { give_at } if self.now < give_at => Some(give_at),
            Phase::Overrun { .. } => {
                self.look_at_heir(unit, epoch);
                self.raise_ended(unit, sequence);
                self.set_phase(unit, Phase::Giving { send_at: self.now });
                Some(self.now)
            }
            Phase::Resting { until } => {
                if let Some(to) = self.wanted(unit, epoch) {
                    self.tenures.get_mut(unit)?.next = to;
                } else if self.now < until {
                    return Some(until);
                }
                self.set_phase(unit, Phase::Giving { send_at: self.now });
                Some(self.now)
            }
            Phase::Giving { send_at } if self.now < send_at => Some(send_at),
            Phase::Giving { .. } => {
                if self.is_busy(unit) || self.lease_of(epoch).is_none() {
                    return None;
                }
                self.raise_ended(unit, sequence);
                let again = self.now + self.settings.heartbeat;
                self.set_phase(unit, Phase::Giving { send_at: again });
                self.write(GroupWrite::Unit {
                    key: unit.clone(),
                    over: sequence,
                    record: next,
                    sign: Some(epoch),
                });
                None
            }
        }
    }

    /// A unit has come back to this member, whose old handler of it still runs. If that does not end
    /// in its time, the unit goes on to somebody else: here it would have no term. Returns when to
    /// look again.
    pub(super) fn pass_on(
        &mut self,
        unit: &UnitKey,
        epoch: Epoch,
        sequence: u64,
    ) -> Option<Moment> {
        mutated!(KeepBlocked => return None);
        let since = self.free_since(GroupKey::Unit(unit.clone()), sequence);
        let at = since + self.settings.stop_budget;
        if self.now < at {
            return Some(at);
        }
        self.mark_late(unit);
        let record = self.wanted(unit, epoch);
        let record = record.unwrap_or_else(|| self.parting(unit));
        // No term begins on it, even if the handler ends before this is written.
        self.raise_ended(unit, sequence);
        self.write(GroupWrite::Unit {
            key: unit.clone(),
            over: sequence,
            record,
            sign: Some(epoch),
        });
        None
    }

    /// Ends terms because this member leaves. Few at a time: a unit has no handler until its turn to
    /// be written has come. The unit that came last leaves first: when this member is back, the policy
    /// returns those that left last, and one that stays away is one that was here for a short time.
    /// Returns when to look again.
    pub(super) fn tend_leaving(&mut self) -> Option<Moment> {
        if !self.draining {
            return None;
        }
        let recent = self.now - LEAVING_PATIENCE;
        let (end, repeat) = (self.settings.stop_budget, self.settings.heartbeat);
        let is_under_way = |it: &&Tenure| match it.phase {
            Phase::Ending { revoke_at } => recent + end < revoke_at,
            Phase::Giving { send_at } => recent + repeat < send_at,
            _ => false,
        };
        let under_way = self.tenures.values().filter(is_under_way).count();
        let acting = self
            .tenures
            .iter()
            .filter(|(_, it)| it.phase == Phase::Acting);
        let mut acting: Vec<_> = acting.collect();
        acting.sort_unstable_by_key(|(_, it)| Reverse(it.sequence));
        let room = MOST_LEAVING.saturating_sub(under_way);
        let again = (acting.len() > room).then(|| self.now + LEAVING_STEP);
        let units = acting.into_iter().take(room);
        let units: Vec<_> = units.map(|(unit, it)| (unit.clone(), it.epoch)).collect();
        for (unit, epoch) in units {
            if let Some(next) = self.wanted(&unit, epoch) {
                self.end_term(&unit, next);
            }
        }
        again
    }

    /// Others are told not to give it the unit.
    fn mark_late(&mut self, unit: &UnitKey) {
        if let Some(tenure) = self.tenures.get_mut(unit) {
            tenure.is_late = true;
        }
    }

    /// The units of a group whose old handlers do not end.
    pub(super) fn blocked<'a>(
        &'a self,
        group: &'a GroupName,
    ) -> impl Iterator<Item = &'a UnitName> {
        let known = self.tenures.range(UnitKey::first_shard(group, 0)..);
        let of_group = known.take_while(move |(unit, _)| unit.group == *group);
        let blocked = of_group.filter(|(_, it)| it.runs && it.is_late);
        blocked.map(|(unit, _)| &unit.unit)
    }

    fn set_phase(&mut self, unit: &UnitKey, phase: Phase) {
        if let Some(tenure) = self.tenures.get_mut(unit) {
            tenure.phase = phase;
        }
    }

    /// A lost epoch is freed when none of its handlers runs any more.
    pub(super) fn retire_if_idle(&mut self, epoch: Epoch) {
        let runs = self.tenures.values().any(|it| it.epoch == epoch && it.runs);
        if !runs && self.lost.remove(&epoch) {
            self.out.push(GroupEffect::Retire { epoch });
        }
    }
}
