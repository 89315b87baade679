//! Units without an owner: creating them, deposing their owners, taking them.
//!
//! All members see the same units become free at about the same time. So each has its turn, by a
//! hash of its epoch and the unit ([`rendezvous`](super::policy::rendezvous)). A member that does not
//! act in its turn is followed by the next one a heartbeat later. The turns only save writes: a compare-and-set decides.

use std::time::Duration;

use super::agenda::Subject;
use super::effect::GroupWrite;
use super::epoch::Epoch;
use super::input::Units;
use super::key::{GroupKey, UnitKey};
use super::machine::Group;
use super::policy::{rank, unit_hash};
use super::record::{GroupKind, GroupRecord, UnitRecord};
use super::unit::Phase;
use super::view::KnownUnit;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::{GroupName, UnitName};

/// What a unit without a tenure of ours needs.
enum Need {
    Nothing,
    /// Nothing before this moment.
    Later(Moment),
    /// A term of ours begins on its record.
    Begin(u64),
    /// Its record names us, and this one is to follow it: we do not want the unit, or a term has ended on
    /// its record.
    Decline(u64, UnitRecord),
    /// This record, over what stands at this sequence, by a member in its turn.
    Write(u64, UnitRecord),
}

impl Group {
    /// The record that should follow a term of ours: `None` if the term should go on.
    pub(super) fn wanted(&mut self, unit: &UnitKey, epoch: Epoch) -> Option<UnitRecord> {
        // Without a record that is understood it owns on, and takes nothing. It may leave all the same.
        if let Some(record) = self.record_of(&unit.group) {
            if unit.generation < record.generation {
                return Some(UnitRecord::Closed);
            }
            if let Some(to) = self.hinted(unit).filter(|to| *to != epoch) {
                return Some(UnitRecord::Owned(to));
            }
        }
        self.draining.then(|| self.parting(unit))
    }

    /// Does what is due of a unit. Returns when to look again.
    pub(super) fn tend_unit(&mut self, unit: &UnitKey) -> Option<Moment> {
        // An old handler may still run whose record is another one by now. No term begins here before it
        // has ended.
        let phase = self.tenures.get(unit).map(|it| it.phase);
        let is_displaced = phase == Some(Phase::Displaced);
        if phase.is_some() && !is_displaced {
            return self.tend_tenure(unit);
        }
        let (epoch, until) = self.valid_lease()?;
        if !self.view.caught_up || self.is_busy(unit) {
            return None;
        }
        match self.need(unit, epoch) {
            Need::Nothing => {
                self.free_since.remove(&GroupKey::Unit(unit.clone()));
                self.begin_generation(&unit.group);
                None
            }
            Need::Later(at) => Some(at),
            Need::Begin(sequence) | Need::Decline(sequence, _) if is_displaced => {
                self.pass_on(unit, epoch, sequence)
            }
            Need::Write(_, UnitRecord::Owned(_)) if is_displaced => None,
            Need::Begin(sequence) => {
                self.begin(unit, epoch, sequence, until);
                None
            }
            Need::Decline(sequence, to) => {
                self.decline(unit, epoch, sequence, to);
                None
            }
            Need::Write(over, record) => {
                let takes = record.owner().is_some();
                let since = self.free_since(GroupKey::Unit(unit.clone()), over);
                if takes && since == self.now {
                    self.plan_again(&unit.group);
                }
                if !takes || self.hinted(unit) != Some(epoch) {
                    // A free unit waits for a hint first. Turns take long to compute for thousands.
                    let hint = since + self.settings.heartbeat * u32::from(takes);
                    if self.now < hint {
                        return Some(hint);
                    }
                    let turn = hint + self.turn(unit, epoch);
                    if self.now < turn {
                        return Some(turn);
                    }
                    if takes && self.is_withheld(unit) {
                        return Some(self.now + self.settings.heartbeat);
                    }
                }
                self.write(GroupWrite::Unit {
                    key: unit.clone(),
                    over,
                    record,
                    sign: None,
                });
                None
            }
        }
    }

    fn need(&mut self, unit: &UnitKey, epoch: Epoch) -> Need {
        let Some(record) = self.record_of(&unit.group) else {
            return match self.misfit(&unit.group) {
                Some(_) => self.need_elsewhere(unit, epoch),
                None if !self.settings.groups.contains_key(&unit.group)
                    && !mutated!(KeepUnitsOfOthers) =>
                {
                    self.need_elsewhere(unit, epoch)
                }
                // A record that is not understood is respected.
                None => Need::Nothing,
            };
        };
        if unit.generation > record.generation || !self.is_unit(unit, &record) {
            return self.need_elsewhere(unit, epoch);
        }
        let closing = unit.generation < record.generation;
        // This member was not shown that the group has grown.
        if !closing
            && !mutated!(IgnoreLaterOwners)
            && let Some(until) = self.view.later_until(unit)
            && self.now < until
        {
            return Need::Later(until);
        }
        let Some(seen) = self.view.unit(unit).copied() else {
            return Need::Write(0, UnitRecord::Nobody);
        };
        let stands = match seen.known {
            KnownUnit::Missing => return Need::Write(0, UnitRecord::Nobody),
            KnownUnit::Record(stands) => Some(stands),
            KnownUnit::Opaque => None,
        };
        if self.now < seen.quiet_until {
            return Need::Later(seen.quiet_until);
        }
        if closing && self.view.is_closed(&unit.group, &seen) {
            return Need::Nothing;
        }
        let owner = stands.and_then(UnitRecord::owner);
        if owner == Some(epoch) {
            let ended = self.ended.get(unit).copied().unwrap_or(0);
            return match self.wanted(unit, epoch) {
                Some(to) => Need::Decline(seen.sequence, to),
                None if !self.has_begun(&unit.group, &record) => Need::Nothing,
                // The next term begins with a record of its own. So does one on a record whose age
                // is not proved: this write proves it.
                None if seen.sequence <= ended || seen.unproved => {
                    Need::Decline(seen.sequence, UnitRecord::Owned(epoch))
                }
                // Whoever opens a unit of an earlier generation was shown this record before, or this
                // member was shown that it is open.
                None if unit.generation > 1 && !self.view.has_shown(seen.sequence) => Need::Nothing,
                None => Need::Begin(seen.sequence),
            };
        }
        // Who may lead it: nobody's, a deposed epoch's, or unknown. For an unknown owner the record
        // that is written over it has to come of age in its turn.
        let lives = owner.is_some_and(|owner| !self.view.is_deposed(owner, self.now));
        if lives && !mutated!(TakeFromLiving) {
            Need::Nothing
        } else if closing {
            Need::Write(seen.sequence, UnitRecord::Closed)
        } else if self.draining
            || !self.is_candidate(unit, epoch)
            || !self.has_begun(&unit.group, &record)
        {
            Need::Nothing
        } else {
            Need::Write(seen.sequence, UnitRecord::Owned(epoch))
        }
    }

    /// A unit that this member can't have is not to stay with it: one of a generation that the group
    /// does not have, of another kind than its own settings, or for which it has no handler.
    fn need_elsewhere(&self, unit: &UnitKey, epoch: Epoch) -> Need {
        let seen = self.view.unit(unit);
        let is_ours = self.view.owner_of(unit) == Some(epoch);
        match seen.filter(|_| is_ours) {
            Some(seen) if self.now < seen.quiet_until => Need::Later(seen.quiet_until),
            Some(seen) => Need::Decline(seen.sequence, UnitRecord::Nobody),
            None => Need::Nothing,
        }
    }

    /// Does what is due of another member's epoch. Returns when to look again.
    pub(super) fn tend_epoch(&mut self, epoch: Epoch) -> Option<Moment> {
        let (own, _) = self.valid_lease()?;
        let member = self.view.member(epoch)?;
        if epoch == own || !self.view.caught_up {
            return None;
        }
        if self.now < member.over_at && !mutated!(DeposeEarly) {
            return Some(member.over_at);
        }
        // It may have been the planner, and what it owns may be free now.
        self.look_at_plans();
        let member = self.view.member(epoch)?;
        let owned: Vec<UnitKey> = self.view.units_of(epoch).cloned().collect();
        if member.is_deposed() {
            for unit in owned {
                self.agenda.note(Subject::Unit(unit), self.now);
            }
            return None;
        }
        let over = self.view.deposable(epoch, self.now)?;
        let key = GroupKey::Member(epoch);
        let identity = self.view.identity_of(epoch);
        let turn_at = match owned.first() {
            Some(unit) => unit.clone(),
            // No unit waits for it. But it would count as a member for ever. Any key would do for the
            // turns.
            None if over > 0 && identity.is_some() && !mutated!(KeepIdleDead) => {
                UnitKey::first_shard(self.settings.groups.keys().next()?, 1)
            }
            // It never told which lease it has, and no unit depends on it: what is not understood is
            // respected.
            None => return None,
        };
        if self.busy.contains(&key) {
            return None;
        }
        if let Some(turn) = self.awaits_turn(key, over, &turn_at, own) {
            return Some(turn);
        }
        self.write(GroupWrite::Depose {
            epoch,
            over,
            identity,
        });
        None
    }

    /// Does what is due of a group's record. Returns when to look again.
    pub(super) fn tend_group(&mut self, name: &GroupName) -> Option<Moment> {
        let (epoch, _) = self.valid_lease()?;
        let key = GroupKey::Group(name.clone());
        if !self.view.caught_up || self.busy.contains(&key) {
            return None;
        }
        if let Some(seen) = self.view.group(name) {
            let (over, is_behind, record) = (seen.sequence, seen.is_behind, self.record_of(name)?);
            if is_behind {
                // Over the one that stands there, which counts for nothing.
                self.look_at_units(name);
                let first = UnitKey::first_shard(name, record.generation);
                return self.write_group(&first, epoch, over, record);
            }
            if !record.making {
                self.look_at_units(name);
                return None;
            }
            return self.tend_new_group(name, epoch, over, record);
        }
        if self.misfit(name).is_some() {
            return None;
        }
        if let Some(record) = self.view.known(name) {
            return self.write_group(
                &UnitKey::first_shard(name, record.generation),
                epoch,
                0,
                record,
            );
        }
        // A group of which units are or were known is not new: somebody may own them. How many it
        // has is left to those who were told: with another number, a key would have two owners.
        let generation = self.view.generation(name);
        if generation.is_some_and(|it| it > 1) {
            return None;
        }
        // Nor is one that another member knows: all of its keys were purged.
        if !self.view.knows_members(self.now) || self.view.may_be_made(name, self.now) {
            return Some(self.now + self.settings.heartbeat);
        }
        let record = GroupRecord {
            kind: match self.settings.groups.get(name)? {
                Units::Shards(shards) => GroupKind::Sharded {
                    shards: *shards,
                    before: 0,
                },
                Units::Named(_) => GroupKind::Spread,
            },
            generation: 1,
            making: generation.is_none(),
        };
        self.write_group(&UnitKey::first_shard(name, 1), epoch, 0, record)
    }

    /// Writes a group's record in this member's turn at the unit. Returns when that is.
    fn write_group(
        &mut self,
        unit: &UnitKey,
        epoch: Epoch,
        over: u64,
        record: GroupRecord,
    ) -> Option<Moment> {
        let key = GroupKey::Group(unit.group.clone());
        let turn = self.awaits_turn(key, over, unit, epoch);
        if turn.is_none() {
            self.write(GroupWrite::Group {
                group: unit.group.clone(),
                over,
                record,
            });
        }
        turn
    }

    /// Creates the units of a new group, and then says that it is made, unless they wait for members.
    fn tend_new_group(
        &mut self,
        name: &GroupName,
        epoch: Epoch,
        over: u64,
        record: GroupRecord,
    ) -> Option<Moment> {
        let units = self.units_in(name, &record);
        let exists = |unit: &UnitKey| {
            let unit = self.view.unit(unit);
            unit.is_some_and(|unit| unit.known != KnownUnit::Missing)
        };
        let missing: Vec<UnitKey> = units.iter().filter(|it| !exists(it)).cloned().collect();
        if !missing.is_empty() {
            for unit in missing {
                self.agenda.note(Subject::Unit(unit), self.now);
            }
            return Some(self.now + self.settings.heartbeat / 4);
        }
        // A member that joins while the group is new waits for no lease: nothing there had an owner.
        if self.awaits_members(name, &record) {
            return Some(self.now + self.settings.heartbeat / 4);
        }
        let made = GroupRecord {
            making: false,
            ..record
        };
        self.write_group(units.first()?, epoch, over, made)
    }

    /// Has each unit of a group looked at.
    fn look_at_units(&mut self, name: &GroupName) {
        let Some(record) = self.record_of(name) else {
            return;
        };
        let units = self.units_in(name, &record);
        let known = self.view.units_in(name).map(|(key, _)| key.clone());
        let all: Vec<UnitKey> = known.chain(units).collect();
        for unit in all {
            self.agenda.note(Subject::Unit(unit), self.now);
        }
    }

    /// The units that a group should have: those of its generation, and of the one before.
    fn units_in(&self, name: &GroupName, record: &GroupRecord) -> Vec<UnitKey> {
        let generation = record.generation;
        let key = |unit| UnitKey {
            group: name.clone(),
            generation,
            unit,
        };
        match (record.kind, self.settings.groups.get(name)) {
            (GroupKind::Sharded { shards, .. }, _) => {
                let before = self.view.numbered_before(name, generation);
                let present = (0..shards).map(|number| key(UnitName::shard(number)));
                before.chain(present).collect()
            }
            (GroupKind::Spread, Some(Units::Named(names))) => {
                names.iter().cloned().map(key).collect()
            }
            (GroupKind::Spread, _) => Vec::new(),
        }
    }

    pub(super) fn is_unit(&self, unit: &UnitKey, record: &GroupRecord) -> bool {
        match (record.kind, self.settings.groups.get(&unit.group)) {
            (GroupKind::Sharded { shards, .. }, Some(_)) => {
                let present = unit.generation == record.generation;
                let number = unit.unit.as_shard();
                number.is_some_and(|number| !present || number < shards)
            }
            (GroupKind::Spread, Some(Units::Named(names))) => names.contains(&unit.unit),
            _ => false,
        }
    }

    /// Whether units of the present generation may have owners.
    pub(super) fn has_begun(&self, name: &GroupName, record: &GroupRecord) -> bool {
        let generation = record.generation;
        let has_begun = self.begun.get(name) == Some(&generation) || mutated!(BeginBesideOldUnits);
        !record.making && (generation == 1 || has_begun)
    }

    /// Begins the present generation of a group if all units before it are closed.
    fn begin_generation(&mut self, name: &GroupName) {
        let Some(record) = self.record_of(name) else {
            return;
        };
        let generation = record.generation;
        if !record.making && !self.has_begun(name, &record) && self.are_closed_before(name, &record)
        {
            self.begun.insert(name.clone(), generation);
            self.look_at_units(name);
            self.agenda.note(Subject::Plan(name.clone()), self.now);
        }
    }

    fn are_closed_before(&self, name: &GroupName, record: &GroupRecord) -> bool {
        let is_unit = |unit: &UnitKey| may_be_unit(unit, record);
        let (generation, now) = (record.generation, self.now);
        self.view.are_closed_before(name, generation, is_unit, now)
    }

    /// The group's record, if this member takes part in the group as it is.
    pub(super) fn record_of(&self, name: &GroupName) -> Option<GroupRecord> {
        let units = self.settings.groups.get(name)?;
        let record = self.view.group(name)?.record?;
        units.is_of(record.kind).then_some(record)
    }

    /// Since when what stands at this sequence waits for somebody to write over it.
    pub(super) fn free_since(&mut self, key: GroupKey, sequence: u64) -> Moment {
        let now = self.now;
        let since = self.free_since.entry(key).or_insert((sequence, now));
        if since.0 != sequence {
            *since = (sequence, now);
        }
        since.1
    }

    /// When this member's turn comes to write over what stands at this sequence. `None` if it is
    /// now. The turns at a group's record are those at one of its units.
    fn awaits_turn(
        &mut self,
        key: GroupKey,
        sequence: u64,
        unit: &UnitKey,
        own: Epoch,
    ) -> Option<Moment> {
        let at = self.free_since(key, sequence) + self.turn(unit, own);
        (self.now < at).then_some(at)
    }

    /// For how long this member leaves a write to others that could do it, too.
    fn turn(&self, unit: &UnitKey, own: Epoch) -> Duration {
        self.settings.heartbeat * self.place(unit, own)
    }

    fn place(&self, unit: &UnitKey, own: Epoch) -> u32 {
        let hash = unit_hash(&unit.group, unit.unit.as_str());
        let mine = rank(hash, own);
        let living = self.view.living(&unit.group, self.now);
        let before = living.filter(|it| *it != own && rank(hash, *it) < mine);
        u32::try_from(before.count()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_candidate(&self, unit: &UnitKey, epoch: Epoch) -> bool {
        self.view.takes(epoch, unit, self.now)
    }
}

/// Whether units of the group can have such a name.
pub(super) fn may_be_unit(unit: &UnitKey, record: &GroupRecord) -> bool {
    record.shards().is_none() || unit.unit.as_shard().is_some() || mutated!(WaitForNoUnits)
}
