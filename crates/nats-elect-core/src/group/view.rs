//! What the watch showed, and how long what it did not show may last.
//!
//! Nobody but its owner changes a unit's record while the owner's epoch lives, but for purges and
//! strangers. Their records have to stand for the longest lease before anybody builds on them: by
//! then the owner before them has seen them, or has no lease.

mod groups;
mod members;
mod units;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::groups::SeenGroup;
pub(super) use self::members::Member;
use self::members::lease_of;
pub(super) use self::units::{KnownUnit, Unit};
use super::epoch::{Epoch, LONGEST_LEASE};
use super::input::{GroupContent, Message};
use super::key::{GroupKey, UnitKey};
use super::record::{GroupRecord, MemberContent};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::GroupName;

/// What a message changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Nothing,
    /// A heartbeat of a member that has been well, and takes the same part as before.
    Heartbeat(Epoch),
    Member(Epoch),
    /// The first tombstone of an epoch tells its secret: what it owned is free at once.
    Freed(Epoch),
    Unit(UnitKey),
    Group(GroupName),
}

#[derive(Clone, Debug, Default)]
pub(super) struct View {
    pub members: BTreeMap<Epoch, Member>,
    pub units: BTreeMap<UnitKey, Unit>,
    /// The units whose records name an epoch.
    pub owned: BTreeMap<Epoch, BTreeSet<UnitKey>>,
    pub groups: BTreeMap<GroupName, SeenGroup>,
    /// The last record of each group that counted, whatever became of its key.
    pub known: BTreeMap<GroupName, GroupRecord>,
    /// The most shards that each generation was ever said to have.
    pub shards: BTreeMap<(GroupName, u32), u32>,
    /// The number of the watch.
    pub watch: u64,
    pub caught_up: bool,
    /// When the first watch had caught up.
    pub joined: Moment,
    pub last: u64,
    /// The last sequence that was shown when the present watch began.
    pub last_before: u64,
    /// Until when what this member found when it joined may have another owner.
    pub found_until: Moment,
    /// Members that stood there when the first watch had caught up, and that it had not shown: their
    /// heartbeats were written over while it began. Until they are known, it is not known who has a
    /// lease.
    pub awaited: BTreeSet<Epoch>,
    /// Until when a member may have a lease that is not known.
    pub unknown_until: Moment,
    /// Whether the present watch still shows what stood there when it began.
    pub looks_back: bool,
    /// Keys for which it has shown less than is known, and what is known.
    pub behind: BTreeMap<GroupKey, u64>,
    /// Whether the present watch has shown other content than is known, at the same sequence.
    pub contradicts: bool,
    /// The stream had lost its end, or the bucket was replaced. Until then this member relies on
    /// nothing that it finds.
    pub regressed_until: Option<Moment>,
    /// The latest generation of each group that was known before this member joined again. Such a
    /// group is not new, whatever became of its keys.
    pub earlier: BTreeMap<GroupName, u32>,
}

impl View {
    pub fn watch_began(&mut self) {
        self.watch += 1;
        self.looks_back = true;
        self.last_before = self.last;
        self.behind.clear();
        self.contradicts = false;
    }

    /// Learns of a message. One that was shown before changes nothing.
    pub fn shown(&mut self, message: Message, now: Moment) -> Change {
        let Message {
            sequence,
            over,
            content,
        } = message;
        self.last = self.last.max(sequence);
        if self.looks_back {
            let key = content.key();
            let known = self.sequence_of(&key);
            if sequence < known {
                self.behind.insert(key, known);
            } else {
                self.behind.remove(&key);
                self.contradicts |= sequence == known && !self.agrees(&content);
            }
        }
        match content {
            GroupContent::Member(epoch, content) => {
                self.learn_of_member(epoch, sequence, over, content, now)
            }
            GroupContent::Unit {
                key,
                record,
                signed,
            } => self.learn_of_unit(key, sequence, over, record, signed, now),
            GroupContent::Group(name, record) => {
                self.learn_of_group(name, sequence, over, record, now)
            }
        }
    }

    /// Whether a message has the content that is known of its key.
    fn agrees(&self, content: &GroupContent) -> bool {
        match content {
            GroupContent::Member(epoch, content) => {
                let tombstone = matches!(content, MemberContent::Tombstone { .. });
                let known = self.members.get(epoch);
                known.is_none_or(|known| known.deposed == tombstone)
            }
            GroupContent::Unit { key, record, .. } => {
                let shown = record.map_or(KnownUnit::Opaque, KnownUnit::Record);
                let known = self.units.get(key);
                known.is_none_or(|known| known.known == shown)
            }
            GroupContent::Group(name, record) => {
                let known = self.groups.get(name).filter(|known| !known.is_behind);
                known.is_none_or(|known| known.record == *record)
            }
        }
    }

    /// Whether the watch has come to that sequence.
    pub const fn has_shown(&self, sequence: u64) -> bool {
        sequence <= self.last
    }

    fn sequence_of(&self, key: &GroupKey) -> u64 {
        match key {
            GroupKey::Member(epoch) => self.members.get(epoch).map(|it| it.sequence),
            GroupKey::Group(name) => self.groups.get(name).map(|it| it.sequence),
            GroupKey::Unit(unit) => self.units.get(unit).map(|it| it.sequence),
        }
        .unwrap_or(0)
    }

    /// Whether the first watch shows what stood there before. It shows nothing to rely on while
    /// leases may last that began before the stream lost its end.
    fn joins(&self, now: Moment) -> bool {
        !self.caught_up && self.regressed_until.is_none_or(|until| until <= now)
    }

    /// Forgets all but how far the stream had come, which groups there were, and who may have a
    /// lease: the member joins again.
    pub fn join_again(&mut self, now: Moment) {
        let mut members = std::mem::take(&mut self.members);
        members.retain(|_, member| !member.deposed || now < member.over_at);
        for member in members.values_mut() {
            (member.sequence, member.info) = (0, None);
            if !member.deposed {
                member.over_at = now + lease_of(member.identity);
            }
        }
        let generations = self.units.keys().map(|key| (&key.group, key.generation));
        let recorded = self.groups.iter().filter_map(|(name, group)| {
            let record = group.record?;
            Some((name, record.generation))
        });
        let mut earlier = std::mem::take(&mut self.earlier);
        for (name, generation) in generations.chain(recorded) {
            let latest = earlier.entry(name.clone()).or_insert(generation);
            *latest = generation.max(*latest);
        }
        *self = Self {
            members,
            watch: self.watch,
            last: self.last,
            last_before: self.last_before,
            regressed_until: self.regressed_until,
            earlier,
            known: std::mem::take(&mut self.known),
            shards: std::mem::take(&mut self.shards),
            ..Self::default()
        };
    }

    /// Whether all members are known that may have a lease.
    pub fn knows_members(&self, now: Moment) -> bool {
        self.caught_up && self.unknown_until <= now
    }

    /// The watch has shown all that stood there. Returns whether the stream has lost its end: then
    /// nothing that is known counts any more.
    pub fn caught_up(
        &mut self,
        last: u64,
        members: Option<Vec<Epoch>>,
        own: Option<Epoch>,
        now: Moment,
    ) -> bool {
        // What is known of a key was stored before the watch began, and is not there: the stream has
        // lost its end, and may have grown again since.
        self.looks_back = false;
        let is_lost = self.behind.values().any(|known| *known <= last);
        if last < self.last_before || is_lost || self.contradicts {
            self.join_again(now);
            (self.last, self.last_before) = (0, 0);
            self.regressed_until = Some(now + LONGEST_LEASE);
            return true;
        }
        let joins = !self.caught_up;
        self.caught_up = true;
        let watch = self.watch;
        // What this member wrote since the watch began comes later.
        let is_gone = |of: u64, sequence: u64| of != watch && sequence <= last;
        let known = self.members.values_mut();
        for member in known.filter(|it| is_gone(it.watch, it.sequence)) {
            member.watch = watch;
            if !member.deposed && member.sequence > 0 {
                member.lacked = Some((member.sequence, member.over_at));
                (member.sequence, member.info) = (0, None);
                member.over_at = now + LONGEST_LEASE;
            }
        }
        let units = self.units.values_mut();
        for unit in units.filter(|it| is_gone(it.watch, it.sequence)) {
            unit.watch = watch;
            if unit.known != KnownUnit::Missing {
                unit.lacked = Some((unit.sequence, unit.known));
                (unit.known, unit.sequence, unit.newborn) = (KnownUnit::Missing, 0, false);
            }
        }
        for units in self.owned.values_mut() {
            units.retain(|key| self.units[key].known != KnownUnit::Missing);
        }
        self.owned.retain(|_, units| !units.is_empty());
        self.groups.retain(|_, group| group.watch == watch);
        for owner in self.owned.keys().copied().collect::<Vec<_>>() {
            self.note_missing(owner, now);
        }
        if joins {
            self.joined = now;
            self.wait_for_the_missing(members.as_deref(), now);
            let knows_all = self.await_unshown(members);
            self.unknown_until = if knows_all { now } else { now + LONGEST_LEASE };
            self.age_what_was_found(own, now);
        }
        false
    }

    /// Notes whom of all members that stand there the first watch has not shown. Returns whether all
    /// are known.
    fn await_unshown(&mut self, members: Option<Vec<Epoch>>) -> bool {
        mutated!(JoinUnseen => return true);
        let Some(members) = members else {
            return false;
        };
        let is_unknown = |epoch: &Epoch| {
            let known = self.members.get(epoch);
            known.is_none_or(|it| it.sequence == 0 && !it.deposed)
        };
        self.awaited = members.into_iter().filter(is_unknown).collect();
        self.awaited.is_empty()
    }

    /// A member was shown. Returns whether it is known since then who has a lease.
    pub fn was_shown(&mut self, member: Epoch, own: Option<Epoch>, now: Moment) -> bool {
        let is_last = self.awaited.remove(&member) && self.awaited.is_empty();
        if is_last {
            self.unknown_until = now;
            self.age_what_was_found(own, now);
        }
        is_last
    }

    /// An owner that was not shown what this member found has a lease from before it was written. So
    /// it waits for the leases of all that are there.
    fn age_what_was_found(&mut self, own: Option<Epoch>, now: Moment) {
        let has_found = self.units.values().any(|it| it.was_found);
        let others = self.members.iter().filter(|(epoch, _)| {
            let is_own = own.is_some_and(|own| own == **epoch);
            has_found && !is_own
        });
        // A tombstone that tells no secret may be a stranger's.
        let last = others.map(|(_, it)| it.over_at).max();
        // Before it has relied on something, it is to be given nothing.
        let until = last.max(self.regressed_until);
        let until = until.max(has_found.then_some(self.unknown_until));
        self.found_until = until.map_or(now, |until| until.max(now));
        mutated!(JoinAtOnce => self.found_until = now);
        for unit in self.units.values_mut().filter(|it| it.was_found) {
            (unit.quiet_until, unit.unproved) = (self.found_until, false);
        }
    }
}
