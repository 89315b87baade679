//! The state of one member, and the way through one step.

use std::collections::{BTreeMap, BTreeSet};

use super::agenda::{Agenda, Subject};
use super::effect::{GroupEffect, GroupWrite};
use super::epoch::{Epoch, EpochKey, LONGEST_LEASE};
use super::failures::Failures;
use super::input::{GroupContent, GroupInput, GroupSettings, Message};
use super::key::{GroupKey, UnitKey};
use super::lease::Lease;
use super::planner::{Advice, Planning};
use super::record::MemberContent;
use super::taking::may_be_unit;
use super::unit::Tenure;
use super::view::{Change, View};
use crate::lease::{OpId, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::GroupName;

/// One member in one bucket: it may own units of several groups.
///
/// Its lease is kept by an election of its own, which nobody else contends for. The driver tells
/// this machine of each confirmed heartbeat. Like an election it does no I/O and reads no clock:
/// everything to be done comes out as [`GroupEffect`]s.
#[derive(Clone, Debug)]
pub struct Group {
    pub(super) settings: GroupSettings,
    pub(super) view: View,
    pub(super) lease: Option<Lease>,
    pub(super) tenures: BTreeMap<UnitKey, Tenure>,
    /// The records of each unit up to which this epoch's terms have ended.
    pub(super) ended: BTreeMap<UnitKey, u64>,
    /// Epochs of this member that are over, while their handlers run.
    pub(super) lost: BTreeSet<Epoch>,
    /// All earlier epochs of this member. None comes back.
    pub(super) past: BTreeSet<Epoch>,
    /// The generation of each group whose units may have owners: all before it are closed.
    pub(super) begun: BTreeMap<GroupName, u32>,
    /// By unit: the record that the hint is about, and to whom it should go.
    pub(super) hints: BTreeMap<UnitKey, (u64, Epoch)>,
    /// The groups that this member plans for.
    pub(super) plans: BTreeMap<GroupName, Planning>,
    pub(super) advice: BTreeMap<GroupName, Advice>,
    /// Since when what stands there, by its sequence, waits for a write.
    pub(super) free_since: BTreeMap<GroupKey, (u64, Moment)>,
    pub(super) failures: Failures,
    pub(super) agenda: Agenda,
    /// The writes that are not answered yet, and their keys.
    pub(super) sent: BTreeMap<OpId, GroupWrite>,
    pub(super) busy: BTreeSet<GroupKey>,
    /// The keys whose last write was refused, each with the sequence that it expected, and since
    /// when.
    pub(super) refused: BTreeMap<GroupKey, (u64, Moment)>,
    /// When the watch last showed something.
    pub(super) shown_at: Moment,
    /// When a new watch was last asked for.
    pub(super) rewatched: Option<Moment>,
    /// Whether that one has not begun.
    pub(super) awaits_watch: bool,
    pub(super) draining: bool,
    pub(super) last_op: u64,
    pub(super) now: Moment,
    pub(super) out: Vec<GroupEffect>,
}

impl Group {
    /// A member that knows nothing yet.
    pub fn new(settings: GroupSettings, now: Moment) -> Self {
        Self {
            settings,
            view: View::default(),
            lease: None,
            tenures: BTreeMap::new(),
            ended: BTreeMap::new(),
            lost: BTreeSet::new(),
            past: BTreeSet::new(),
            begun: BTreeMap::new(),
            hints: BTreeMap::new(),
            plans: BTreeMap::new(),
            advice: BTreeMap::new(),
            free_since: BTreeMap::new(),
            failures: Failures::default(),
            agenda: Agenda::default(),
            sent: BTreeMap::new(),
            busy: BTreeSet::new(),
            refused: BTreeMap::new(),
            shown_at: now,
            rewatched: None,
            awaits_watch: true,
            draining: false,
            last_op: 0,
            now,
            out: Vec::new(),
        }
    }

    /// A member that knew the bucket before this one, which it saw first at `seen`. Members that it
    /// never met may own units by leases of the former bucket. So it owns nothing before the longest
    /// of them is over.
    pub fn in_replaced_bucket(settings: GroupSettings, seen: Moment, now: Moment) -> Self {
        let mut member = Self::new(settings, now);
        member.view.regressed_until = Some(seen + LONGEST_LEASE);
        member
    }

    /// Takes one input and returns what is to be done, in order.
    ///
    /// `now` must not go back between calls. If it does, the later time is used.
    pub fn step(&mut self, now: Moment, input: GroupInput) -> Vec<GroupEffect> {
        self.now = self.now.max(now);
        // Before the input: a lease that has ended is not extended by it.
        self.end_lease_if_over();
        self.take(input);
        while let Some(subject) = self.agenda.take_due(self.now) {
            let again = match &subject {
                Subject::Lease => self.tend_lease(),
                Subject::Epoch(epoch) => self.tend_epoch(*epoch),
                Subject::Group(name) => self.tend_group(name),
                Subject::Unit(unit) => self.tend_unit(unit),
                Subject::Leaving => self.tend_leaving(),
                Subject::Plan(group) => self.tend_plan(group),
            };
            if let Some(again) = again {
                self.agenda.note(subject, again);
            }
        }
        std::mem::take(&mut self.out)
    }

    /// When to step with [`GroupInput::Tick`] next. `None` if only another input can change
    /// anything.
    pub fn next_wakeup(&self) -> Option<Moment> {
        self.agenda.next()
    }

    /// Whether its watch has shown all that stood there when it joined.
    pub const fn has_caught_up(&self) -> bool {
        self.view.caught_up
    }

    /// Whether it can own what it found when it joined. Before, it is to tell others that it takes
    /// no units, by [`MemberInfo::cordoned`](super::MemberInfo::cordoned).
    pub fn has_joined(&self) -> bool {
        let view = &self.view;
        let relies = view.knows_members(self.now) && view.found_until <= self.now;
        relies && self.valid_lease().is_some()
    }

    /// When this member can own what it found, if it keeps its lease: the leases of all members that
    /// were there are over by then. In the past if it has not caught up.
    pub fn joins_at(&self) -> Moment {
        self.view.found_until.max(self.view.unknown_until)
    }

    /// Until when this member relies on nothing that it finds: the bucket was replaced, or a watch has
    /// shown less than was known before, because the stream lost messages from its end. `None` if that
    /// never happened.
    pub const fn regressed_until(&self) -> Option<Moment> {
        self.view.regressed_until
    }

    /// Whether no unit is this member's: no handler of a unit runs, and no giving waits for its
    /// outcome.
    pub fn is_idle(&self) -> bool {
        self.tenures.is_empty()
    }

    /// The epoch whose signature a record over this sequence of a unit needs to be of age at once,
    /// and its key. `None` if a signature would not help.
    pub fn giver(&self, unit: &UnitKey, over: u64) -> Option<(Epoch, EpochKey)> {
        let (sequence, known) = self.view.unit(unit)?.stood();
        let owner = known.owner().filter(|_| sequence == over)?;
        Some((owner, self.view.key_of(owner)?))
    }

    /// The sequence of a unit's record, and its owner. `None` if the unit is not known.
    pub fn unit_owner(&self, unit: &UnitKey) -> Option<(u64, Option<Epoch>)> {
        let stands = self.view.unit(unit)?;
        Some((stands.sequence, self.view.owner_of(unit)))
    }

    fn take(&mut self, input: GroupInput) {
        match input {
            GroupInput::Tick => {}
            GroupInput::Granted {
                epoch,
                sequence,
                until,
            } => self.granted(epoch, sequence, until),
            GroupInput::LeaseLost { epoch } => {
                if self.lease.as_ref().is_some_and(|it| it.epoch == epoch) {
                    self.lose_lease();
                }
            }
            GroupInput::WatchBegan => {
                self.awaits_watch = false;
                self.view.watch_began();
            }
            // The next watch tells all that counts.
            GroupInput::Shown(_) | GroupInput::CaughtUp { .. } if self.awaits_watch => {}
            GroupInput::Shown(message) => self.shown(message),
            GroupInput::CaughtUp { last, members } => self.caught_up(last, members),
            GroupInput::WriteEnded { op, outcome } => self.write_ended(op, &outcome),
            GroupInput::HandlerEnded {
                unit,
                sequence,
                end,
            } => self.handler_ended(&unit, sequence, end),
            GroupInput::Unhealthy { unit, sequence } => self.unhealthy(&unit, sequence),
            GroupInput::Hint { hints } => self.take_hints(hints),
            GroupInput::Drain => self.drain(),
        }
    }

    fn drain(&mut self) {
        self.draining = true;
        // It tells the others.
        self.heartbeat_now();
        // Where its units go was not planned for yet.
        self.advice.clear();
        let own = self.lease.as_ref().map(|it| it.epoch);
        let owned = own.into_iter().flat_map(|own| self.view.units_of(own));
        for unit in owned.chain(self.tenures.keys()) {
            self.agenda.note(Subject::Unit(unit.clone()), self.now);
        }
        self.agenda.note(Subject::Leaving, self.now);
        self.look_at_plans();
    }

    fn granted(&mut self, epoch: Epoch, sequence: u64, until: Moment) {
        if self.past.contains(&epoch) {
            return;
        }
        if self.lease.as_ref().is_none_or(|it| it.epoch != epoch) {
            if self.lease.is_some() {
                self.lose_lease();
            }
            let mut lease = Lease::new(epoch);
            // The watch may have shown the claim before its answer came.
            let claimed = self.view.member(epoch).filter(|it| !it.is_deposed());
            if let Some(member) = claimed {
                lease.shown(member.sequence, self.view.looks_back, self.now);
            }
            self.lease = Some(lease);
        }
        self.extend(|lease, now| lease.granted(sequence, until, now));
    }

    fn extend(&mut self, by: impl FnOnce(&mut Lease, Moment) -> Option<Moment>) {
        let Some(lease) = &mut self.lease else {
            return;
        };
        let begins = !lease.has_begun();
        let until = by(lease, self.now);
        self.agenda.note(Subject::Lease, self.now);
        if let Some(until) = until {
            self.out.push(GroupEffect::Extend { until });
            if begins {
                self.look_at_all();
            }
        }
    }

    /// The lease, while it is valid.
    pub(super) fn valid_lease(&self) -> Option<(Epoch, Moment)> {
        let lease = self.lease.as_ref()?;
        Some((lease.epoch, lease.until(self.now)?))
    }

    pub(super) fn lease_of(&self, epoch: Epoch) -> Option<Moment> {
        let (own, until) = self.valid_lease()?;
        (own == epoch).then_some(until)
    }

    fn end_lease_if_over(&mut self) {
        let ends_at = self.lease.as_ref().and_then(Lease::ends_at);
        if ends_at.is_some_and(|ends_at| ends_at <= self.now) {
            self.lose_lease();
        }
    }

    /// The epoch is over, and does not come back.
    fn lose_lease(&mut self) {
        mutated!(KeepLostEpoch => return);
        let Some(lease) = self.lease.take() else {
            return;
        };
        self.lost.insert(lease.epoch);
        self.past.insert(lease.epoch);
        let units: Vec<UnitKey> = self.tenures.keys().cloned().collect();
        for unit in units {
            self.displace(&unit);
        }
        self.ended.clear();
        self.retire_if_idle(lease.epoch);
        self.out.push(GroupEffect::NewEpoch);
        // What it knows has gaps, and would have to age. It owns nothing, as if it had just begun.
        self.view.join_again(self.now);
        self.begun.clear();
        self.rewatch();
    }

    fn rewatch(&mut self) {
        self.rewatched = Some(self.now);
        self.awaits_watch = true;
        self.out.push(GroupEffect::Rewatch);
    }

    fn tend_lease(&mut self) -> Option<Moment> {
        let lease = self.lease.as_ref()?;
        let ends_at = lease.ends_at();
        if ends_at.is_some_and(|ends_at| ends_at <= self.now) {
            self.lose_lease();
            return None;
        }
        let unseen = lease.unshown().map(|(sequence, since)| {
            // A watch that is behind comes to it. From a new one it may be further away.
            let patience = self.settings.ttl / 3;
            let comes = if self.awaits_watch || self.view.looks_back {
                Some(since.max(self.rewatched.unwrap_or(since)) + patience)
            } else {
                let is_behind = !self.view.has_shown(sequence);
                is_behind.then_some(self.shown_at.min(since + patience))
            };
            let since = since.max(comes.max(self.rewatched).unwrap_or(since));
            since + self.settings.heartbeat
        });
        if unseen.is_some_and(|due| due <= self.now) {
            self.rewatch();
            let again = self.now + self.settings.heartbeat;
            return Some(ends_at.map_or(again, |ends_at| ends_at.min(again)));
        }
        [ends_at, unseen].into_iter().flatten().min()
    }

    fn shown(&mut self, mut message: Message) {
        self.shown_at = self.now;
        if let GroupContent::Member(epoch, content) = &message.content
            && self.lease.as_ref().is_some_and(|it| it.epoch == *epoch)
        {
            match content {
                MemberContent::Record(_) => {
                    let looks_back = self.view.looks_back;
                    self.extend(|lease, now| lease.shown(message.sequence, looks_back, now));
                }
                MemberContent::Tombstone { .. } => self.lose_lease(),
            }
        }
        if let GroupContent::Unit { key, .. } = &mut message.content {
            self.share(key);
            if key.generation > 1 {
                // A term of it waits for that, although the record may have been known.
                self.agenda.note(Subject::Unit(key.clone()), self.now);
            }
        }
        let member = match &message.content {
            GroupContent::Member(epoch, _) => Some(*epoch),
            GroupContent::Unit { .. } | GroupContent::Group(..) => None,
        };
        let change = self.view.shown(message, self.now);
        let own = self.lease.as_ref().map(|it| it.epoch);
        if member.is_some_and(|member| self.view.was_shown(member, own, self.now)) {
            self.look_at_all();
        }
        self.look_at(change);
    }

    /// Replaces the names in a key by those that are there already: the same ones compare fast.
    fn share(&self, key: &mut UnitKey) {
        if let Some((known, _)) = self.view.units.get_key_value(key) {
            key.clone_from(known);
        } else if let Some((group, _)) = self.settings.groups.get_key_value(&key.group) {
            key.group.clone_from(group);
        }
    }

    pub(super) fn look_at(&mut self, change: Change) {
        let now = self.now;
        match change {
            Change::Nothing => {}
            Change::Heartbeat(epoch) => self.agenda.note(Subject::Epoch(epoch), now),
            Change::Member(epoch) => {
                if self.lease_of(epoch).is_some() && !self.draining {
                    // It may take units again.
                    self.look_at_all();
                }
                self.agenda.note(Subject::Epoch(epoch), now);
                self.look_at_plans();
            }
            Change::Freed(epoch) => {
                if self.view.units_of(epoch).next().is_some() {
                    self.rest_no_more();
                }
                self.look_at(Change::Member(epoch));
            }
            Change::Group(name) => {
                self.agenda.note(Subject::Plan(name.clone()), now);
                self.agenda.note(Subject::Group(name), now);
            }
            Change::Unit(unit) => {
                let begun = self.begun.get(&unit.group);
                let is_earlier = begun.is_some_and(|generation| unit.generation < *generation);
                let record = self.record_of(&unit.group);
                if is_earlier && record.is_none_or(|record| may_be_unit(&unit, &record)) {
                    // It may be open again, by a member that was not shown that the group has grown.
                    self.begun.remove(&unit.group);
                }
                let stands = self.view.unit(&unit).map_or(0, |it| it.sequence);
                if self.hints.get(&unit).is_some_and(|(of, _)| *of < stands) {
                    self.hints.remove(&unit);
                }
                self.plan_again(&unit.group);
                if let Some(owner) = self.view.owner_of(&unit) {
                    self.agenda.note(Subject::Epoch(owner), now);
                }
                self.agenda.note(Subject::Unit(unit), now);
            }
        }
    }

    fn caught_up(&mut self, last: u64, members: Option<Vec<Epoch>>) {
        let own = self.lease.as_ref().map(|it| it.epoch);
        if self.view.caught_up(last, members, own, self.now) {
            // What this member was shown is gone. So may be what it wrote.
            self.begun.clear();
            if self.lease.is_some() {
                self.lose_lease();
            } else {
                self.rewatch();
            }
            return;
        }
        self.extend(Lease::caught_up);
        self.look_at_all();
    }

    fn look_at_all(&mut self) {
        let now = self.now;
        for epoch in self.view.epochs().collect::<Vec<_>>() {
            self.agenda.note(Subject::Epoch(epoch), now);
        }
        for unit in self.view.keys().chain(self.tenures.keys()) {
            self.agenda.note(Subject::Unit(unit.clone()), now);
        }
        for name in self
            .settings
            .groups
            .keys()
            .cloned()
            .collect::<Vec<GroupName>>()
        {
            self.agenda.note(Subject::Group(name), now);
        }
        self.look_at_plans();
    }

    pub(super) fn heartbeat_now(&mut self) {
        if !self.out.contains(&GroupEffect::HeartbeatNow) {
            self.out.push(GroupEffect::HeartbeatNow);
        }
    }

    pub(super) fn is_busy(&self, unit: &UnitKey) -> bool {
        self.busy.contains(&GroupKey::Unit(unit.clone()))
    }

    pub(super) fn write(&mut self, write: GroupWrite) {
        if self.is_refused(&write) {
            let again = self.now + self.settings.heartbeat;
            self.agenda.note(write.subject(), again);
            return;
        }
        self.last_op += 1;
        let op = OpId(self.last_op);
        self.busy.insert(write.key());
        self.sent.insert(op, write.clone());
        self.out.push(GroupEffect::Write { op, write });
    }

    /// Whether such a write has been refused for a heartbeat, and the watch has not shown why: no
    /// watch shows that a key was purged. So the member begins a new one before it tries again.
    fn is_refused(&mut self, write: &GroupWrite) -> bool {
        let key = write.key();
        let Some((over, since)) = self.refused.get(&key).copied() else {
            return false;
        };
        let lasts = since + self.settings.heartbeat <= self.now;
        if over != write.over() || lasts {
            self.refused.remove(&key);
        }
        let is_refused = lasts && over == write.over();
        if is_refused && self.rewatched.is_none_or(|at| at <= since) {
            self.rewatch();
        }
        is_refused
    }

    fn write_ended(&mut self, op: OpId, outcome: &WriteOutcome) {
        let Some(write) = self.sent.remove(&op) else {
            return;
        };
        self.busy.remove(&write.key());
        let again = self.now + self.settings.heartbeat;
        let WriteOutcome::Acked { revision } = *outcome else {
            // A refusal proves nothing. The watch will show what stands there.
            self.agenda.note(write.subject(), again);
            if matches!(outcome, WriteOutcome::Conflict { .. }) {
                let refused = (write.over(), self.now);
                self.refused.entry(write.key()).or_insert(refused);
            }
            return;
        };
        let now = self.now;
        self.refused.remove(&write.key());
        // It knows a group's record by the watch alone. Before that it would write the same again.
        let awaits_watch =
            matches!(write, GroupWrite::Group { .. }) && !self.view.has_shown(revision);
        self.agenda
            .note(write.subject(), if awaits_watch { again } else { now });
        match write {
            GroupWrite::Depose { epoch, over, .. } => {
                self.view.deposed(epoch, over, revision);
            }
            GroupWrite::Unit {
                key,
                over,
                record,
                sign,
            } => {
                let (view, unit) = (&mut self.view, key.clone());
                let change = view.learn_of_unit(key, revision, Some(over), Some(record), sign, now);
                view.prove(&unit, revision, now);
                self.look_at(change);
            }
            GroupWrite::Group { .. } => {}
        }
    }
}

impl GroupWrite {
    fn key(&self) -> GroupKey {
        match self {
            Self::Unit { key, .. } => GroupKey::Unit(key.clone()),
            Self::Depose { epoch, .. } => GroupKey::Member(*epoch),
            Self::Group { group, .. } => GroupKey::Group(group.clone()),
        }
    }

    /// The sequence that it expects.
    const fn over(&self) -> u64 {
        match self {
            Self::Unit { over, .. } | Self::Depose { over, .. } | Self::Group { over, .. } => *over,
        }
    }

    fn subject(&self) -> Subject {
        match self {
            Self::Unit { key, .. } => Subject::Unit(key.clone()),
            Self::Depose { epoch, .. } => Subject::Epoch(*epoch),
            Self::Group { group, .. } => Subject::Group(group.clone()),
        }
    }
}
