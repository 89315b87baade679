//! What the watch showed, and how long what it did not show may last.
//!
//! Nobody but its owner changes a unit's record while the owner's epoch lives, but for purges and
//! strangers. Their records have to stand for the longest lease before anybody builds on them: by
//! then the owner before them has seen them, or has no lease.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::epoch::{Epoch, EpochKey, Identity};
use super::input::{GroupContent, Message};
use super::key::{GroupKey, UnitKey};
use super::member_info::{MemberInfo, Support};
use super::record::{GroupKind, GroupRecord, LONGEST_LEASE, MemberContent, UnitRecord};
use crate::election::mutation::mutated;
use crate::moment::Moment;
use crate::name::{GroupName, UnitName};

/// What is known of an epoch.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The sequence of its last record. 0 if it is missing.
    pub sequence: u64,
    /// It was proved once, and cannot change.
    pub identity: Option<Identity>,
    /// The id of its instance.
    pub id: String,
    pub info: Option<MemberInfo>,
    /// Since when it has been well without a break. The clock's origin if that was before this
    /// member's watch.
    pub since: Moment,
    /// It was silent or missing shortly before.
    pub flapped: bool,
    pub deposed: bool,
    /// Until when its lease may last, as far as this member has watched it.
    pub over_at: Moment,
    pub watch: u64,
}

/// What is known of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// The sequence of its last record.
    pub sequence: u64,
    pub known: KnownUnit,
    /// Until when an owner before the one in the record may act. Nobody builds on the record before.
    pub quiet_until: Moment,
    /// Whether this record, or one before it, had to age. Its age counts only if it stood until
    /// then: it may have been purged before an owner of before was shown it. A write of this member
    /// over it proves that it stood.
    pub unproved: bool,
    /// Whether it is known by its creation as nobody's alone.
    pub newborn: bool,
    /// Whether it stood there when this member joined, as members write it.
    pub was_found: bool,
    pub watch: u64,
}

/// What stands under a unit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum KnownUnit {
    Record(UnitRecord),
    /// A value that is not understood, or a delete marker.
    Opaque,
    Missing,
}

/// What is known of a group.
#[derive(Clone, Debug)]
pub(super) struct SeenGroup {
    pub sequence: u64,
    /// The record that counts. `None` if what stands there is not understood.
    pub record: Option<GroupRecord>,
    /// The first sequence at which a record of this generation was shown.
    pub since: u64,
    /// Whether the record there goes back behind the one that counts.
    pub is_behind: bool,
    /// Whether this record began the group where nothing was.
    pub began: bool,
    pub watch: u64,
}

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
    /// Whether the present watch still shows what stood there when it began.
    pub looks_back: bool,
    /// Keys for which it has shown less than is known, and what is known.
    pub behind: BTreeMap<GroupKey, u64>,
    /// Whether the present watch has shown other content than is known, at the same sequence.
    pub contradicts: bool,
    /// The stream had lost its end. Until then this member relies on nothing that it finds.
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

    fn sequence_of(&self, key: &GroupKey) -> u64 {
        match key {
            GroupKey::Member(epoch) => self.members.get(epoch).map(|it| it.sequence),
            GroupKey::Group(name) => self.groups.get(name).map(|it| it.sequence),
            GroupKey::Unit(unit) => self.units.get(unit).map(|it| it.sequence),
        }
        .unwrap_or(0)
    }

    fn learn_of_member(
        &mut self,
        epoch: Epoch,
        sequence: u64,
        over: Option<u64>,
        content: MemberContent,
        now: Moment,
    ) -> Change {
        let watch = self.watch;
        let before = self.members.get_mut(&epoch);
        if let Some(before) = before {
            before.watch = watch;
            if sequence <= before.sequence {
                return Change::Nothing;
            }
        }
        let before = self.members.get(&epoch);
        let known = before.and_then(|before| before.identity);
        let well = before.filter(|it| it.info.is_some() && now < it.over_at);
        let mut change = Change::Member(epoch);
        let (since, flapped) = match (well, before) {
            (Some(well), _) => (well.since, well.flapped),
            (None, _) if !self.caught_up => (Moment::default(), false),
            (None, _) => (now, before.is_some()),
        };
        let (identity, id, info, deposed, over_at) = match content {
            MemberContent::Record(seen) => {
                let identity = known.or(seen.identity);
                let takes_the_same_part = |it: &MemberInfo| {
                    seen.info
                        .as_ref()
                        .is_some_and(|now| now.takes_the_part_of(it))
                };
                if well
                    .and_then(|it| it.info.as_ref())
                    .is_some_and(takes_the_same_part)
                {
                    change = Change::Heartbeat(epoch);
                }
                (
                    identity,
                    seen.id,
                    seen.info,
                    false,
                    now + lease_of(identity),
                )
            }
            MemberContent::Tombstone { secret, identity } => {
                let known = known.or(identity);
                let told = secret.map(crate::release::ReleaseSecret::hash);
                let own = told.is_some() && told == known.map(|known| known.release);
                let watched = before.filter(|before| over == Some(before.sequence));
                let over_at = if own {
                    if before.is_none_or(|before| !before.deposed) {
                        change = Change::Freed(epoch);
                    }
                    now
                } else {
                    // The lease of the very record that it replaces was watched from its receipt.
                    watched.map_or(now + lease_of(known), |before| before.over_at)
                };
                let id = before.map_or_else(String::new, |before| before.id.clone());
                (known, id, None, true, over_at)
            }
        };
        let member = Member {
            sequence,
            identity,
            id,
            info,
            since,
            flapped,
            deposed,
            over_at,
            watch,
        };
        self.members.insert(epoch, member);
        change
    }

    /// Learns of a unit's record, by the watch or as its writer.
    pub fn learn_of_unit(
        &mut self,
        key: UnitKey,
        sequence: u64,
        over: Option<u64>,
        record: Option<UnitRecord>,
        signed: Option<Epoch>,
        now: Moment,
    ) -> Change {
        let watch = self.watch;
        if let Some(before) = self.units.get_mut(&key)
            && before.known != KnownUnit::Missing
            && sequence <= before.sequence
        {
            before.watch = watch;
            return Change::Nothing;
        }
        let before = self.units.get(&key);
        let is_created = before.is_none_or(|it| it.known == KnownUnit::Missing) && over == Some(0);
        // A record that was written by compare-and-set over an earlier one, as members write it. The
        // first watch could as well have begun after it, and shown it alone.
        let is_trusted = self.joins(now) && over.is_some_and(|over| over > 0) && record.is_some();
        let over_known = before.filter(|before| over == Some(before.sequence));
        // `None` if it has to age.
        let of_age_at = over_known.and_then(|before| match before.known {
            KnownUnit::Record(UnitRecord::Nobody) => Some(before.quiet_until),
            KnownUnit::Record(UnitRecord::Owned(owner)) => {
                if signed == Some(owner) || mutated!(BelieveUnsigned) {
                    Some(before.quiet_until)
                } else {
                    let deposed = self.members.get(&owner).filter(|owner| owner.deposed);
                    deposed.map(|owner| before.quiet_until.max(owner.over_at))
                }
            }
            KnownUnit::Record(UnitRecord::Closed) => {
                (record == Some(UnitRecord::Closed)).then_some(before.quiet_until)
            }
            KnownUnit::Opaque | KnownUnit::Missing => None,
        });
        // Nobody owns a unit of a generation that its group does not have yet.
        let is_ahead = is_created && self.is_ahead(&key);
        let unproved = if of_age_at.is_some() {
            over_known.is_some_and(|before| before.unproved)
        } else {
            !is_ahead
        };
        if let Some(owner) = self.owner_of(&key) {
            self.disown(owner, &key);
        }
        if let Some(UnitRecord::Owned(owner)) = record {
            self.owned.entry(owner).or_default().insert(key.clone());
            if self.caught_up {
                self.note_missing(owner, now);
            }
        }
        let unit = Unit {
            sequence,
            known: record.map_or(KnownUnit::Opaque, KnownUnit::Record),
            quiet_until: if mutated!(UnknownIsOfAge) {
                now
            } else {
                of_age_at.unwrap_or(now + LONGEST_LEASE)
            },
            unproved: unproved && !mutated!(BelieveAge),
            newborn: is_created && record == Some(UnitRecord::Nobody),
            was_found: is_trusted,
            watch,
        };
        self.units.insert(key.clone(), unit);
        Change::Unit(key)
    }

    /// Learns of a group's record, by the watch alone: its writer may be behind with what came
    /// before it.
    fn learn_of_group(
        &mut self,
        name: GroupName,
        sequence: u64,
        over: Option<u64>,
        record: Option<GroupRecord>,
        now: Moment,
    ) -> Change {
        let watch = self.watch;
        if let Some(before) = self.groups.get(&name)
            && before.began
            && over == Some(before.sequence)
            && sequence > before.sequence
            && record.is_some_and(|record| !record.making)
        {
            // Nobody owned a unit before this record. So what was created until then is of age.
            let while_new = before.sequence..sequence;
            let of_age = now.max(self.found_until);
            let units = self.units.iter_mut().filter(|(key, _)| key.group == name);
            for (_, unit) in units.filter(|(_, it)| while_new.contains(&it.sequence)) {
                if unit.newborn {
                    (unit.quiet_until, unit.unproved) = (of_age, false);
                }
            }
        }
        let before = self.groups.get_mut(&name);
        if let Some(before) = before
            && sequence <= before.sequence
        {
            before.watch = watch;
            return Change::Nothing;
        }
        // It was written when all units had been created, and stands since. So units of nobody that
        // are older never had an owner.
        let made = record.is_some_and(|record| !record.making && record.generation == 1);
        let is_fresh = self.joins(now) && !self.earlier.contains_key(&name);
        if is_fresh && made && over.is_some_and(|over| over > 0) {
            let units = self.units.iter_mut().filter(|(key, _)| key.group == name);
            for (_, unit) in units.filter(|(_, it)| it.newborn && it.sequence < sequence) {
                unit.was_found = true;
            }
        }
        let known = self.known.get(&name).copied();
        let is_behind = record.is_some_and(|it| known.is_some_and(|known| !it.may_follow(&known)));
        let counts = if is_behind { known } else { record };
        if let Some(record) = counts {
            self.known.insert(name.clone(), record);
        }
        if let Some(GroupRecord {
            kind: GroupKind::Sharded { shards, before },
            generation,
            ..
        }) = counts
        {
            for (generation, shards) in [(generation, shards), (generation - 1, before)] {
                let most = self.shards.entry((name.clone(), generation)).or_insert(0);
                *most = shards.max(*most);
            }
        }
        let before = self.groups.get(&name);
        let was_known = known.is_some() || self.earlier.contains_key(&name);
        let is_first = !was_known && before.is_none() && over == Some(0);
        let generation = |record: Option<GroupRecord>| record.map(|record| record.generation);
        let same = before.filter(|before| generation(before.record) == generation(counts));
        let group = SeenGroup {
            sequence,
            record: counts,
            since: same.map_or(sequence, |before| before.since),
            is_behind,
            began: is_first && record.is_some_and(|record| record.making),
            watch,
        };
        self.groups.insert(name.clone(), group);
        Change::Group(name)
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
        members.retain(|_, member| !member.deposed);
        for member in members.values_mut() {
            (member.sequence, member.info) = (0, None);
            member.over_at = now + lease_of(member.identity);
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

    /// The latest generation of a group that is or was known. `None` if it may be new.
    pub fn generation(&self, group: &GroupName) -> Option<u32> {
        let units = self.units_in(group).map(|(key, _)| key.generation).max();
        units.max(self.earlier.get(group).copied())
    }

    /// How many shards a generation has, if a record that counted told it.
    pub fn shards_in(&self, group: &GroupName, generation: u32) -> Option<u32> {
        let told = self.shards.get(&(group.clone(), generation)).copied();
        told.filter(|shards| *shards > 0)
    }

    /// Until when a member may have a lease that owns a unit of a later generation than this one's.
    pub fn later_until(&self, unit: &UnitKey) -> Option<Moment> {
        let later = self
            .units_in(&unit.group)
            .filter(|(key, _)| key.generation > unit.generation);
        let owners = later.filter_map(|(key, _)| self.members.get(&self.owner_of(key)?));
        let living = owners.filter(|owner| !owner.deposed);
        living.map(|owner| owner.over_at).max()
    }

    /// The watch has shown all that stood there. Returns the units that are missing since, or
    /// `None` if the stream has lost its end: then nothing that is known counts any more.
    pub fn caught_up(
        &mut self,
        last: u64,
        own: Option<Epoch>,
        now: Moment,
    ) -> Option<Vec<UnitKey>> {
        // What is known of a key was stored before the watch began, and is not there: the stream has
        // lost its end, and may have grown again since.
        self.looks_back = false;
        let is_lost = self.behind.values().any(|known| *known <= last);
        if last < self.last_before || is_lost || self.contradicts {
            self.join_again(now);
            (self.last, self.last_before) = (0, 0);
            self.regressed_until = Some(now + LONGEST_LEASE);
            return None;
        }
        let joins = !self.caught_up;
        self.caught_up = true;
        let watch = self.watch;
        // What this member wrote since the watch began comes later.
        let is_gone = |of: u64, sequence: u64| of != watch && sequence <= last;
        let members = self.members.values_mut();
        for member in members.filter(|it| is_gone(it.watch, it.sequence)) {
            member.watch = watch;
            if !member.deposed && member.sequence > 0 {
                (member.sequence, member.info) = (0, None);
                member.over_at = now + LONGEST_LEASE;
            }
        }
        let mut missing = Vec::new();
        let units = self.units.iter_mut();
        for (key, unit) in units.filter(|(_, it)| is_gone(it.watch, it.sequence)) {
            unit.watch = watch;
            if unit.known != KnownUnit::Missing {
                (unit.known, unit.sequence, unit.newborn) = (KnownUnit::Missing, 0, false);
                missing.push(key.clone());
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
            self.age_what_was_found(own, now);
        }
        Some(missing)
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
        self.found_until = until.map_or(now, |until| until.max(now));
        mutated!(JoinAtOnce => self.found_until = now);
        for unit in self.units.values_mut().filter(|it| it.was_found) {
            (unit.quiet_until, unit.unproved) = (self.found_until, false);
        }
    }

    /// Nobody watches the lease of an epoch that has no record. So it is counted from the moment at
    /// which a complete view lacked it.
    fn note_missing(&mut self, epoch: Epoch, now: Moment) {
        let watch = self.watch;
        self.members.entry(epoch).or_insert(Member {
            sequence: 0,
            identity: None,
            id: String::new(),
            info: None,
            since: now,
            flapped: false,
            deposed: false,
            over_at: now + LONGEST_LEASE,
            watch,
        });
    }

    /// A write of ours over a record of age is confirmed: that record stood until then.
    pub fn prove(&mut self, key: &UnitKey, sequence: u64, now: Moment) {
        if let Some(unit) = self.units.get_mut(key)
            && unit.sequence == sequence
            && unit.quiet_until <= now
        {
            unit.unproved = false;
        }
    }

    /// A tombstone of ours is confirmed.
    pub fn deposed(&mut self, epoch: Epoch, over: u64, sequence: u64) {
        if let Some(member) = self.members.get_mut(&epoch)
            && member.sequence == over
            && !member.deposed
        {
            (member.deposed, member.sequence, member.info) = (true, sequence, None);
        }
    }

    fn disown(&mut self, owner: Epoch, key: &UnitKey) {
        if let Some(units) = self.owned.get_mut(&owner) {
            units.remove(key);
            if units.is_empty() {
                self.owned.remove(&owner);
            }
        }
    }

    /// The units whose records name the epoch.
    pub fn units_of(&self, epoch: Epoch) -> impl Iterator<Item = &UnitKey> {
        self.owned.get(&epoch).into_iter().flatten()
    }

    /// All units of a group that are known, also of earlier generations.
    pub fn units_in<'a>(
        &'a self,
        group: &'a GroupName,
    ) -> impl Iterator<Item = (&'a UnitKey, &'a Unit)> {
        // No generation is 0.
        let first = UnitKey {
            group: group.clone(),
            generation: 0,
            unit: UnitName::shard(0),
        };
        let from = self.units.range(first..);
        from.take_while(move |(key, _)| key.group == *group)
    }

    pub fn members(&self) -> impl Iterator<Item = (Epoch, &Member)> {
        self.members.iter().map(|(epoch, member)| (*epoch, member))
    }

    pub fn owner_of(&self, key: &UnitKey) -> Option<Epoch> {
        match self.units.get(key)?.known {
            KnownUnit::Record(record) => record.owner(),
            KnownUnit::Opaque | KnownUnit::Missing => None,
        }
    }

    /// The identity that the name of an epoch proves, if its record told it.
    pub fn identity_of(&self, epoch: Epoch) -> Option<Identity> {
        self.members.get(&epoch)?.identity
    }

    /// The public key of an epoch, if its record proved it.
    pub fn key_of(&self, epoch: Epoch) -> Option<EpochKey> {
        Some(self.members.get(&epoch)?.identity?.key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &UnitKey> {
        self.units.keys()
    }

    pub fn epochs(&self) -> impl Iterator<Item = Epoch> {
        self.members.keys().copied()
    }

    fn is_ahead(&self, unit: &UnitKey) -> bool {
        let group = self.groups.get(&unit.group);
        let present = group.and_then(|it| it.record);
        present.is_some_and(|it| it.generation < unit.generation)
    }

    pub fn unit(&self, key: &UnitKey) -> Option<&Unit> {
        self.units.get(key)
    }

    pub fn group(&self, name: &GroupName) -> Option<&SeenGroup> {
        self.groups.get(name)
    }

    /// The last record of a group that counted, whatever became of its key.
    pub fn known(&self, name: &GroupName) -> Option<GroupRecord> {
        self.known.get(name).copied()
    }

    pub fn member(&self, epoch: Epoch) -> Option<&Member> {
        self.members.get(&epoch)
    }

    /// Whether what the epoch owns is free: its tombstone was shown, and this member itself has
    /// waited for its lease.
    pub fn is_deposed(&self, epoch: Epoch, now: Moment) -> bool {
        let member = self.members.get(&epoch);
        member.is_some_and(|it| it.deposed && it.over_at <= now)
    }

    /// The sequence that a tombstone over the epoch's last record expects, if its lease was watched
    /// to its end.
    pub fn deposable(&self, epoch: Epoch, now: Moment) -> Option<u64> {
        let member = self.members.get(&epoch)?;
        let is_over = member.over_at <= now || mutated!(DeposeEarly);
        (!member.deposed && is_over).then_some(member.sequence)
    }

    /// The members that may own units of the group now.
    pub fn living<'a>(
        &'a self,
        group: &'a GroupName,
        now: Moment,
    ) -> impl Iterator<Item = Epoch> + 'a {
        let epochs = self.epochs();
        epochs.filter(move |epoch| self.part_of(*epoch, group, now).is_some())
    }

    /// The part that a member takes in a group, if it may own units of it now.
    fn part_of(&self, epoch: Epoch, group: &GroupName, now: Moment) -> Option<&Support> {
        let member = self.members.get(&epoch)?;
        let lives = !member.deposed && now < member.over_at;
        let info = member.info.as_ref().filter(|it| lives && !it.cordoned)?;
        info.groups.get(group)
    }

    /// Whether the member may own the unit now: it has a handler for it, as far as it tells.
    pub fn takes(&self, epoch: Epoch, unit: &UnitKey, now: Moment) -> bool {
        let part = self.part_of(epoch, &unit.group, now);
        part.is_some_and(|it| it.has_handler(&unit.unit))
    }

    /// Whether every unit of the generations before this one is closed for good.
    pub fn are_closed_before(&self, group: &GroupName, generation: u32, now: Moment) -> bool {
        let is_closed = |unit: &Unit| self.is_closed(group, unit) && unit.quiet_until <= now;
        let known = self.units_in(group);
        let earlier = known.take_while(|(key, _)| key.generation < generation);
        earlier.map(|(_, unit)| unit).all(is_closed)
            && self.numbered_before(group, generation).all(|key| {
                let unit = self.units.get(&key);
                unit.is_some_and(is_closed)
            })
    }

    /// Whether a unit of an earlier generation is closed for good. A member that was not shown that
    /// the group has grown may write over a *closed* from before, which is a stranger's.
    pub fn is_closed(&self, group: &GroupName, unit: &Unit) -> bool {
        let since = self.groups.get(group).map(|group| group.since);
        unit.known == KnownUnit::Record(UnitRecord::Closed)
            && !unit.unproved
            && since.is_some_and(|since| since < unit.sequence)
    }

    /// All shards of the generation before this one.
    pub fn numbered_before(
        &self,
        group: &GroupName,
        generation: u32,
    ) -> impl Iterator<Item = UnitKey> {
        let generation = generation.saturating_sub(1);
        let shards = self.shards.get(&(group.clone(), generation));
        let group = group.clone();
        (0..shards.copied().unwrap_or(0)).map(move |number| UnitKey {
            group: group.clone(),
            generation,
            unit: UnitName::shard(number),
        })
    }
}

impl Member {
    pub const fn is_deposed(&self) -> bool {
        self.deposed
    }
}

fn lease_of(identity: Option<Identity>) -> Duration {
    identity.map_or(LONGEST_LEASE, |identity| identity.ttl)
}
