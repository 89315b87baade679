//! The state of one member, and the way through one step.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::acting::Acting;
use super::collect::Collecting;
use super::coordinator::Coordinator;
use super::effect::{Effect, Over};
use super::ending::KEPT;
use super::following::Following;
use super::input::{Fresh, Input};
use super::keeping::Keeping;
use super::loss::Doubt;
use super::peers::{AGAIN, Chore, Peers, REREAD};
use super::unit::UnitId;
use crate::assignment::{Epoch, Key, LONGEST_LEASE, Profile, Units, Value, ended};
use crate::lease::{Attempt, Link, OpId, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::{GroupName, InstanceId};
use crate::token::FencingToken;
use crate::unhashed::Unhashed;

/// What a member is made of.
#[derive(Clone, Debug, Hash)]
pub struct MemberSettings {
    /// The group.
    pub group: GroupName,
    /// The units of the group's first map. Names that a map lacks enter it.
    pub units: Units,
    /// The id of the instance.
    pub id: InstanceId,
    /// The start of the instance.
    pub incarnation: Uuid,
    /// The number of the first write. Each machine of one start has numbers of its own.
    pub first_beat: u64,
    /// How long a lease lasts without a heartbeat.
    pub ttl: Duration,
    /// The time between heartbeats.
    pub heartbeat: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// What the member tells about itself. [`Input::Tell`] changes it.
    pub profile: Profile,
}

/// One member of one group. The [module](super) tells how to drive it.
///
/// Model checkers may hash it. Two that hash the same, up to a shift of time and new numbers for
/// sequences, epochs and writes in the same order, go on in the same way.
#[derive(Clone, Debug, Hash)]
pub struct Member {
    pub(super) settings: MemberSettings,
    /// The creation time of the bucket, in nanoseconds since the Unix epoch.
    pub(super) bucket: u64,
    pub(super) now: Moment,
    pub(super) fresh: Unhashed<Fresh>,
    pub(super) keeping: Keeping,
    /// Epochs of this process that are to be told over, each with the moment of the next attempt.
    pub(super) lost: BTreeMap<Epoch, Moment>,
    waits_until: Option<Moment>,
    pub(super) left_at: Option<Moment>,
    /// When to look for keys of ended epochs that nobody needs.
    pub(super) retire_at: Moment,
    pub(super) is_caught_up: bool,
    pub(super) following: Following,
    pub(super) peers: Peers,
    pub(super) acting: Acting,
    pub(super) collecting: Collecting,
    pub(super) doubt: Doubt,
    pub(super) coordinator: Coordinator,
    ops: BTreeMap<OpId, Purpose>,
    last_op: Unhashed<u64>,
    /// Whether something changed that may let handlers begin, or act by the followed map.
    pub(super) is_stirred: bool,
    /// The unit whose handler has just ended.
    freed: Option<UnitId>,
    /// Whether somebody waits for what the next heartbeat tells.
    pub(super) tells: bool,
    out: Unhashed<Vec<Effect>>,
}

/// What a write is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    Map,
    BlankMap,
    /// The end of an own epoch.
    Lost(Epoch),
    /// A chore under the key of another epoch.
    Chore(Epoch),
    /// A time to live for the end of an epoch.
    Retirement(Epoch),
}

impl Member {
    /// A member that knows nothing yet.
    pub fn new(settings: MemberSettings, now: Moment) -> Self {
        Self {
            bucket: 0,
            keeping: Keeping::new(&settings, now),
            settings,
            now,
            fresh: Unhashed::default(),
            lost: BTreeMap::new(),
            waits_until: None,
            left_at: None,
            retire_at: now,
            is_caught_up: false,
            following: Following::default(),
            peers: Peers::default(),
            acting: Acting::default(),
            collecting: Collecting::default(),
            doubt: Doubt::None,
            coordinator: Coordinator::default(),
            ops: BTreeMap::new(),
            last_op: Unhashed(0),
            is_stirred: false,
            freed: None,
            tells: false,
            out: Unhashed::default(),
        }
    }

    /// A member that waits until then for leases of a former bucket.
    #[must_use]
    pub fn waiting(mut self, until: Moment) -> Self {
        self.waits_until = Some(until).filter(|it| *it > self.now);
        self
    }

    /// Takes an input. `now` never goes back, and `fresh` is drawn for each step. After
    /// [`Effect::Left`] there are no more steps.
    pub fn step(&mut self, now: Moment, fresh: Fresh, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        *self.fresh = fresh;
        self.expire();
        self.take(input);
        self.settle();
        std::mem::take(&mut *self.out)
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Tick => {}
            Input::Link(link) => self.linked(link),
            Input::BeatEnded { op, outcome } => self.beat_ended(op, &outcome),
            Input::Looked { op, found } => self.looked(op, found),
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
            Input::HandlerEnded(unit, end) => {
                let heartbeat = self.settings.heartbeat;
                if self.acting.ended(self.now, &unit, end, heartbeat) {
                    self.tells |=
                        self.is_waited_for() || self.acting.failures.is_failing(self.now, &unit);
                    self.freed = Some(unit);
                }
            }
            Input::Unhealthy(unit) => {
                if let Some((_, until)) = self.keeping.lease() {
                    let ends = self.acting.give_up(self.now, unit, until);
                    self.tells |= !ends.is_empty();
                    self.emit_all(ends);
                }
            }
            Input::Planned { base, owners } => self.planned(base, owners),
            Input::Order(request, order) => self.order(request, order),
            Input::Tell(profile) => {
                self.tells |= profile.cordoned != self.settings.profile.cordoned;
                self.settings.profile = *profile;
            }
            Input::Prove => self.tells = true,
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
        self.is_stirred |= self.acting.failures.wake(self.now);
        self.leave();
        self.advance();
        if !self.keeping.is_up() {
            return;
        }
        self.end_lost();
        if let Some(own) = self.epoch().filter(|_| self.is_caught_up) {
            let delay = self.delay(own);
            self.do_chores(own, delay);
            self.collect(delay);
            self.coordinate(delay);
            self.retire_ended(delay);
        }
        if std::mem::take(&mut self.tells) {
            self.keeping.is_wanted = true;
        }
        self.keep();
    }

    /// When to step with a tick, if nothing else comes before.
    pub fn wakeup(&self) -> Option<Moment> {
        let until = self.lease_until();
        let mut due = vec![self.acting.due(), self.waits_until, until, self.leave_due()];
        if self.keeping.is_up() {
            due.extend([self.lost_due(), self.keep_due()]);
            if let Some(own) = self.epoch().filter(|_| self.is_caught_up) {
                let delay = self.delay(own);
                let blank = self.following.missing.map(|since| since + delay);
                due.extend([blank, Some(self.following.read_at)]);
                due.extend([self.peers.due(own, delay), self.retire_due(delay)]);
                due.extend([self.collect_wakeup(delay), self.coordinate_due(delay)]);
            }
        }
        due.into_iter().flatten().min()
    }

    /// The epoch whose lease is held.
    pub fn epoch(&self) -> Option<Epoch> {
        self.keeping.lease().map(|(epoch, _)| epoch)
    }

    /// Whether it waits for leases of another bucket.
    pub const fn waits(&self) -> bool {
        self.waits_until.is_some()
    }

    pub(super) fn next_op(&mut self) -> OpId {
        *self.last_op += 1;
        OpId(*self.last_op)
    }

    pub(super) fn map_key(&self) -> Key {
        Key::Map(self.settings.group.clone())
    }

    pub(super) fn write(&mut self, purpose: Purpose, key: Key, over: Over, value: Vec<u8>) {
        let op = self.next_op();
        self.ops.insert(op, purpose);
        let ttl = matches!(purpose, Purpose::Retirement(_)).then_some(KEPT);
        self.emit(Effect::Write {
            op,
            key,
            over,
            value,
            ttl,
        });
    }

    /// A heartbeat at this sequence `extends` the lease, or it has begun by a claim.
    pub(super) fn leased(&mut self, extends: Option<Effect>, by: &Attempt, sequence: u64) {
        if let Some(extends) = extends {
            self.emit(extends);
        } else {
            self.acting.forget_epoch();
            self.collecting.reset();
            self.tells = true;
            self.follow();
        }
        self.collect_confirmed(by.beat, sequence);
    }

    /// The lease ends at its deadline.
    fn expire(&mut self) {
        if let Some((epoch, _)) = self.keeping.lease().filter(|it| it.1 <= self.now) {
            self.lose(epoch);
        }
    }

    /// The bucket is another one, or lost confirmed writes.
    pub(super) fn forget(&mut self, bucket: u64) {
        if let Some((_, until)) = self.keeping.lease() {
            self.end_handlers(None, until);
        }
        self.keeping.drop_epoch();
        self.acting.forget_epoch();
        self.bucket = bucket;
        if !mutated!(NoWaitInNewBucket) {
            self.waits_until = Some(self.now + LONGEST_LEASE);
        }
        self.is_caught_up = false;
        self.lost.clear();
        self.ops.clear();
        self.following = Following::default();
        self.peers = Peers::default();
        self.collecting = Collecting::default();
        self.doubt = Doubt::None;
        self.coordinator = Coordinator::default();
    }

    fn linked(&mut self, link: Link) {
        let another = self.keeping.linked(link, self.settings.ttl);
        match another {
            Some(bucket) => self.forget(bucket),
            None => self.bucket = self.keeping.bucket().unwrap_or(self.bucket),
        }
    }

    pub(super) fn emit(&mut self, effect: Effect) {
        self.out.0.push(effect);
    }

    pub(super) fn end_handlers(&mut self, epoch: Option<Epoch>, until: Moment) {
        let ends = self.acting.end_all(epoch, until);
        self.emit_all(ends);
    }

    pub(super) fn emit_all(&mut self, effects: Vec<Effect>) {
        self.out.0.extend(effects);
    }

    fn advance(&mut self) {
        let is_stirred = std::mem::take(&mut self.is_stirred);
        let freed = self.freed.take();
        if !is_stirred && freed.is_none() {
            return;
        }
        let freed = freed.filter(|_| !is_stirred);
        if let Some(map) = self.following.acting().cloned()
            && let Some((own, until)) = self.keeping.lease()
        {
            let leaves = self.left_at.is_some() && !mutated!(BeginsWhileLeaving);
            let may_begin = !leaves;
            let before = self.acting.exceptions();
            let acting = &mut self.acting;
            let begun = acting.advance(&map, own, &self.peers, may_begin, freed.as_ref());
            self.tells |= self.acting.exceptions() < before && map.waits_on(own);
            let token = FencingToken {
                epoch: self.bucket,
                sequence: map.sequence(),
            };
            for unit in begun {
                self.emit(Effect::Start { unit, token, until });
            }
        }
    }

    fn do_chores(&mut self, own: Epoch, delay: Duration) {
        for chore in self.peers.chores(self.now, own, delay) {
            let (epoch, over, value) = match chore {
                Chore::End(epoch, over) => (epoch, over, ended(epoch)),
                Chore::Blank(epoch) => (epoch, 0, Vec::new()),
                Chore::Read(epoch) => {
                    self.emit(Effect::Read(self.member_key(epoch)));
                    continue;
                }
            };
            let key = self.member_key(epoch);
            let over = if mutated!(MarkedOverAnything) {
                Over::Anything
            } else {
                Over::Sequence(over)
            };
            self.write(Purpose::Chore(epoch), key, over, value);
        }
        if self.following.read_at <= self.now {
            let spread = REREAD.mul_f64(1.0 - self.fresh.chance / 2.0);
            self.following.read_at = self.now + spread;
            if !mutated!(MapUnread) {
                self.read_map();
            }
        }
        let missing = self.following.missing;
        if missing.is_some_and(|since| since + delay <= self.now) {
            self.following.missing = Some(self.now + AGAIN);
            let (key, over) = (self.map_key(), Over::Sequence(0));
            self.write(Purpose::BlankMap, key, over, Vec::new());
        }
    }

    /// Has the map's key read.
    pub(super) fn read_map(&mut self) {
        self.following.known_at_read = Some(self.following.known());
        self.emit(Effect::Read(self.map_key()));
    }

    fn written(&mut self, op: OpId, outcome: &WriteOutcome) {
        let is_refused = matches!(outcome, WriteOutcome::Conflict { .. });
        match self.ops.remove(&op) {
            Some(Purpose::Map) => self.map_written(outcome),
            Some(Purpose::BlankMap) if is_refused => {
                // Something is there.
                self.following.missing = None;
                self.read_map();
            }
            Some(Purpose::Chore(epoch)) if is_refused => {
                self.peers.refute(epoch);
                self.emit(Effect::Read(self.member_key(epoch)));
            }
            Some(Purpose::Lost(epoch)) => {
                if let WriteOutcome::Acked { revision } = outcome {
                    // It stands there for good, also if its sequence is lower than one that was lost.
                    self.peers.refute(epoch);
                    self.show_member(epoch, *revision, Value::Ended);
                }
            }
            Some(Purpose::Retirement(epoch)) => self.retired(epoch, outcome),
            Some(Purpose::BlankMap | Purpose::Chore(_)) | None => {}
        }
    }
}
