//! The state of one member, and the way through one step.

use std::collections::BTreeMap;
use std::time::Duration;

use super::acting::{Acting, Change};
use super::collect::Collecting;
use super::coordinator::Coordinator;
use super::effect::{Acknowledgement, Effect, Over};
use super::following::{Following, Next};
use super::input::{Input, Lease};
use super::peers::{AGAIN, Chore, News, Peers};
use crate::assignment::{Epoch, Key, LONGEST_LEASE, Map, Units, Value, ended};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::GroupName;
use crate::token::FencingToken;
use crate::{OpId, WriteOutcome};

/// So long a member that leaves waits for a map that takes its units.
const RELIEF: Duration = Duration::from_millis(250);

/// What a member is made of.
#[derive(Clone, Debug)]
pub struct MemberSettings {
    /// The group.
    pub group: GroupName,
    /// The creation time of the bucket, in nanoseconds since the Unix epoch.
    pub bucket: u64,
    /// The units of the group's first map. Names that a map lacks enter it.
    pub units: Units,
}

/// One member of one group. The [module](super) tells how to drive it.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) settings: MemberSettings,
    pub(super) bucket: u64,
    pub(super) now: Moment,
    /// Counts the steps.
    pub(super) stamp: u64,
    lease: Option<Lease>,
    /// Epochs of this process that are to be told over, each with the moment of the next attempt.
    lost: BTreeMap<Epoch, Moment>,
    waits_until: Option<Moment>,
    pub(super) left_at: Option<Moment>,
    is_caught_up: bool,
    pub(super) following: Following,
    pub(super) peers: Peers,
    pub(super) acting: Acting,
    pub(super) collecting: Collecting,
    pub(super) coordinator: Coordinator,
    ops: BTreeMap<OpId, Purpose>,
    last_op: u64,
    /// Whether something changed that may let handlers begin, or act by the followed map.
    is_stirred: bool,
    /// Whether a heartbeat is to be sent now.
    pub(super) tells: bool,
    pub(super) out: Vec<Effect>,
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Map,
    BlankMap,
    /// The end of an own epoch.
    Lost(Epoch),
    /// A chore under the key of another epoch.
    Chore(Epoch),
}

impl Member {
    /// A member that knows nothing yet.
    pub fn new(settings: MemberSettings, now: Moment) -> Self {
        Self {
            bucket: settings.bucket,
            settings,
            now,
            stamp: 0,
            lease: None,
            lost: BTreeMap::new(),
            waits_until: None,
            left_at: None,
            is_caught_up: false,
            following: Following::default(),
            peers: Peers::default(),
            acting: Acting::default(),
            collecting: Collecting::default(),
            coordinator: Coordinator::default(),
            ops: BTreeMap::new(),
            last_op: 0,
            is_stirred: false,
            tells: false,
            out: Vec::new(),
        }
    }

    /// What the record of a heartbeat tells that is sent now.
    pub fn acknowledgement(&self) -> Acknowledgement {
        Acknowledgement {
            stamp: self.stamp,
            follows: self.following.acknowledged(),
            excepts: self.acting.excepts(),
            unable: self.acting.unable(),
            leaves: self.left_at.is_some() || self.following.is_strange(),
            waits: self.waits(),
        }
    }

    /// The newest map that it could follow.
    pub fn map(&self) -> Option<&Map> {
        self.following.map().map(AsRef::as_ref)
    }

    /// The units on which it acts, each with the sequence in its token. Empty without a valid lease.
    pub fn acts_on(&self, now: Moment) -> Vec<(&super::UnitId, u64)> {
        let is_valid = self.lease.is_some_and(|it| now < it.until);
        let running = self.acting.running();
        running.filter(|_| is_valid).collect()
    }

    /// Takes an input. `now` never goes back. After [`Effect::Left`] there are no more steps.
    pub fn step(&mut self, now: Moment, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        self.stamp += 1;
        self.expire();
        self.take(input);
        self.settle();
        std::mem::take(&mut self.out)
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Tick => {}
            Input::Leased(lease) => self.leased(lease),
            Input::LeaseLost(epoch) => self.lose(epoch),
            Input::Forget { bucket } => self.forget(bucket),
            Input::CaughtUp => self.caught_up(),
            Input::Shown {
                key,
                sequence,
                value,
            } => match key {
                Key::Map(_) => self.show_map(sequence, value),
                Key::Member(_, epoch) => self.show_member(epoch, sequence, value),
            },
            Input::Missing(Key::Map(_)) => self.following.miss(self.now),
            Input::Missing(Key::Member(_, epoch)) => self.peers.miss(self.now, epoch),
            Input::Written { op, outcome } => self.written(op, &outcome),
            Input::Collected { op, found } => self.collected(op, found),
            Input::HandlerEnded(unit) => {
                if self.acting.ended(self.now, &unit) {
                    self.is_stirred = true;
                    self.tells |= self.is_waited_for();
                }
            }
            Input::Planned { base, owners } => self.planned(base, owners),
            Input::Order(request, order) => self.order(request, order),
            Input::Leave => {
                self.left_at.get_or_insert(self.now);
                self.tells = true;
            }
        }
    }

    /// All that follows from what is known.
    fn settle(&mut self) {
        let waits_no_more = self.waits_until.is_some_and(|until| until <= self.now);
        if waits_no_more {
            self.waits_until = None;
            self.coordinator.stir(self.now);
        }
        if self.acting.pass(self.now) || waits_no_more {
            self.tells = true;
            self.is_stirred = true;
        }
        self.leave();
        self.advance();
        self.end_lost();
        if let Some(own) = self.epoch() {
            if self.is_caught_up {
                let delay = self.delay(own);
                self.do_chores(own, delay);
                self.collect(own, delay);
                self.coordinate(delay);
            }
            if std::mem::take(&mut self.tells) {
                self.out.push(Effect::TellNow);
            }
        }
    }

    /// When to step with a tick, if nothing else comes before.
    pub fn wakeup(&self) -> Option<Moment> {
        let mut due = vec![self.acting.due(), self.lost_due(), self.waits_until];
        if let Some(lease) = self.lease {
            due.push(Some(lease.until));
            due.push(self.leave_due());
            if self.is_caught_up {
                let delay = self.delay(lease.epoch);
                let blank = self.following.missing().map(|since| since + delay);
                due.extend([blank, self.peers.due(lease.epoch, delay)]);
                due.extend([self.collect_wakeup(delay), self.coordinate_due(delay)]);
            }
        }
        due.into_iter().flatten().min()
    }

    /// The epoch whose lease is valid.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.lease.map(|it| it.epoch)
    }

    pub(super) fn lease_of(&self, epoch: Epoch) -> Option<Lease> {
        self.lease.filter(|it| it.epoch == epoch)
    }

    /// Whether it waits for leases of another bucket.
    pub(super) const fn waits(&self) -> bool {
        self.waits_until.is_some()
    }

    pub(super) fn next_op(&mut self) -> OpId {
        self.last_op += 1;
        OpId(self.last_op)
    }

    pub(super) fn map_key(&self) -> Key {
        Key::Map(self.settings.group.clone())
    }

    fn member_key(&self, epoch: Epoch) -> Key {
        Key::Member(self.settings.group.clone(), epoch)
    }

    pub(super) fn write(&mut self, purpose: Purpose, key: Key, over: Over, value: Vec<u8>) {
        let op = self.next_op();
        self.ops.insert(op, purpose);
        self.out.push(Effect::Write {
            op,
            key,
            over,
            value,
        });
    }

    fn leased(&mut self, lease: Lease) {
        let is_lost = self.lost.contains_key(&lease.epoch) || self.peers.is_over(lease.epoch);
        if is_lost || lease.until <= self.now {
            return;
        }
        match &mut self.lease {
            Some(held) if held.epoch == lease.epoch => {
                held.until = held.until.max(lease.until);
                (held.sequence, held.stamp) = (lease.sequence, lease.stamp);
                self.out.push(Effect::Extend(held.until));
            }
            held => {
                let former = held.replace(lease);
                if let Some(former) = former {
                    self.lost.insert(former.epoch, self.now);
                    self.end_handlers(Some(former.epoch), former.until);
                }
                self.acting.forget_epoch();
                self.collecting.reset();
                self.tells = true;
                self.follow();
            }
        }
        self.collect_confirmed(lease);
    }

    /// The lease ends at its deadline.
    fn expire(&mut self) {
        if let Some(lease) = self.lease.filter(|it| it.until <= self.now) {
            self.lose(lease.epoch);
        }
    }

    fn lose(&mut self, epoch: Epoch) {
        if !self.peers.is_over(epoch) {
            self.lost.entry(epoch).or_insert(self.now);
        }
        if let Some(lease) = self.lease_of(epoch) {
            self.end_handlers(Some(epoch), lease.until);
            self.acting.forget_epoch();
            self.collecting.reset();
            self.lease = None;
        }
    }

    fn forget(&mut self, bucket: u64) {
        if let Some(lease) = self.lease.take() {
            self.end_handlers(None, lease.until);
        }
        self.acting.forget_epoch();
        self.bucket = bucket;
        self.waits_until = Some(self.now + LONGEST_LEASE);
        self.is_caught_up = false;
        self.lost.clear();
        self.ops.clear();
        self.following = Following::default();
        self.peers = Peers::default();
        self.collecting = Collecting::default();
        self.coordinator = Coordinator::default();
    }

    fn caught_up(&mut self) {
        self.is_caught_up = true;
        if self.following.shown() == 0 {
            self.following.miss(self.now);
        }
        self.miss_unknown();
    }

    /// Notes the epochs that the map names, and that were not shown.
    fn miss_unknown(&mut self) {
        let Some(map) = self.following.map().filter(|_| self.is_caught_up) else {
            return;
        };
        for epoch in map.epochs() {
            if !self.peers.is_known(*epoch) {
                self.peers.miss(self.now, *epoch);
            }
        }
    }

    fn show_map(&mut self, sequence: u64, value: Value) {
        let next = self
            .following
            .show(self.now, sequence, value, &self.settings.units);
        self.map_shown();
        if matches!(next, Next::Old | Next::Foreign) {
            return;
        }
        self.follow();
        self.tells |= self.is_waited_for();
        self.miss_unknown();
        self.coordinate_anew();
    }

    /// Ends what the followed map does not allow.
    fn follow(&mut self) {
        if let Some(lease) = self.lease {
            let map = self.following.acting().map(AsRef::as_ref);
            let changes = self.acting.follow(map, lease.epoch, lease.until);
            self.change(changes);
        }
        self.is_stirred = true;
    }

    pub(super) fn show_member(&mut self, epoch: Epoch, sequence: u64, value: Value) {
        let news = self.peers.show(self.now, epoch, sequence, value);
        if news == News::Over {
            self.lost.remove(&epoch);
            self.lose(epoch);
        }
        if news != News::Nothing {
            self.is_stirred = true;
            self.coordinator.stir(self.now);
        }
    }

    /// Whether others wait for what this member tells, or it could own units and has none.
    fn is_waited_for(&self) -> bool {
        let map = self.following.acting();
        map.zip(self.epoch())
            .is_none_or(|(map, epoch)| map.waits_on(epoch) || map.owned_by(epoch).next().is_none())
    }

    fn end_handlers(&mut self, epoch: Option<Epoch>, until: Moment) {
        let changes = self.acting.end_all(epoch, until);
        self.change(changes);
    }

    fn change(&mut self, changes: Vec<Change>) {
        let until = self.lease.map_or(self.now, |it| it.until);
        for change in changes {
            self.out.push(match change {
                Change::Start(unit, sequence) => {
                    let token = FencingToken {
                        epoch: self.bucket,
                        sequence,
                    };
                    Effect::Start { unit, token, until }
                }
                Change::Cancel(unit, until) => Effect::Cancel { unit, until },
            });
        }
    }

    fn advance(&mut self) {
        if !std::mem::take(&mut self.is_stirred) {
            return;
        }
        if let (Some(map), Some(own)) = (self.following.acting().cloned(), self.epoch()) {
            let may_begin = self.left_at.is_none() && !self.waits() && map.opens().is_none();
            let before = self.acting.exceptions();
            let changes = self.acting.advance(&map, own, &self.peers, may_begin);
            self.tells |= self.acting.exceptions() < before && map.waits_on(own);
            self.change(changes);
        }
    }

    /// Whether a map has taken all units, or none came in time: then all handlers end.
    fn leave(&mut self) {
        let Some(left_at) = self.left_at else {
            return;
        };
        let Some(lease) = self.lease else {
            if self.lost.is_empty() {
                self.out.push(Effect::Left);
            }
            return;
        };
        let map = self.following.map();
        let owns = map.is_some_and(|map| map.owned_by(lease.epoch).next().is_some());
        if owns && self.now < left_at + RELIEF {
            return;
        }
        self.end_handlers(None, lease.until);
        if self.acting.is_done(None) {
            self.lose(lease.epoch);
        }
    }

    fn leave_due(&self) -> Option<Moment> {
        let due = self.left_at? + RELIEF;
        (self.now < due).then_some(due)
    }

    /// Writes the end of own epochs.
    fn end_lost(&mut self) {
        let due = self.lost.iter().filter_map(|(epoch, at)| {
            let is_done = mutated!(EndedEarly) || self.acting.is_done(Some(*epoch));
            (*at <= self.now && is_done).then_some(*epoch)
        });
        for epoch in due.collect::<Vec<_>>() {
            self.lost.insert(epoch, self.now + AGAIN);
            let key = self.member_key(epoch);
            self.write(Purpose::Lost(epoch), key, Over::Anything, ended(epoch));
        }
    }

    fn lost_due(&self) -> Option<Moment> {
        let done = self
            .lost
            .iter()
            .filter(|(epoch, _)| self.acting.is_done(Some(**epoch)));
        done.map(|(_, at)| *at).min()
    }

    fn do_chores(&mut self, own: Epoch, delay: Duration) {
        for chore in self.peers.chores(self.now, own, delay) {
            let (epoch, over, value) = match chore {
                Chore::End(epoch, over) => (epoch, over, ended(epoch)),
                Chore::Blank(epoch) => (epoch, 0, Vec::new()),
            };
            let key = self.member_key(epoch);
            let over = if mutated!(MarkedOverAnything) {
                Over::Anything
            } else {
                Over::Sequence(over)
            };
            self.write(Purpose::Chore(epoch), key, over, value);
        }
        if self
            .following
            .missing()
            .is_some_and(|since| since + delay <= self.now)
        {
            self.following.blank_again(self.now + AGAIN);
            self.write(
                Purpose::BlankMap,
                self.map_key(),
                Over::Sequence(0),
                Vec::new(),
            );
        }
    }

    fn written(&mut self, op: OpId, outcome: &WriteOutcome) {
        let is_refused = matches!(outcome, WriteOutcome::Conflict { .. });
        match self.ops.remove(&op) {
            Some(Purpose::Map) => self.map_written(outcome),
            Some(Purpose::BlankMap) if is_refused => self.out.push(Effect::Read(self.map_key())),
            Some(Purpose::Chore(epoch)) if is_refused => {
                self.out.push(Effect::Read(self.member_key(epoch)));
            }
            Some(Purpose::Lost(epoch)) => {
                if let WriteOutcome::Acked { revision } = outcome {
                    self.show_member(epoch, *revision, Value::Ended);
                }
            }
            Some(Purpose::BlankMap | Purpose::Chore(_)) | None => {}
        }
    }
}
