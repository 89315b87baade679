//! The state of one election, and the way through one step.

use std::collections::VecDeque;
use std::time::Duration;

use uuid::Uuid;

use super::acquiring::Acquisition;
use super::attempts::{Attempts, Expected, Purpose, Secrets};
use super::draining::Drain;
use super::effect::{Effect, Reply, Write, WriteKind};
use super::input::{Bucket, Failure, Fresh, Input, Link, OpId, PeerRequestId, RequestId, TermId};
use super::leading::Leadership;
use super::mutation::mutated;
use super::observed_role::ObservedRole;
use super::retry::{AdaptiveTimeout, Breaker, Retry};
use super::waiting::Waiting;
use crate::config::RoleSettings;
use crate::event::{Event, FailureKind};
use crate::moment::Moment;
use crate::record::{FenceRecord, Nonce, Record};
use crate::release::ReleaseSecret;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};
use crate::token::{FencingToken, LeaseToken};

/// A candidate for a role, with its settings.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The instance id, as records show it.
    pub instance_id: String,
    /// The start of this instance. Together with the id it is the instance's identity.
    pub incarnation: Uuid,
    /// The first beat to use. It must be greater than every beat that an earlier machine of this
    /// incarnation used.
    pub first_beat: u64,
    /// Whether the election begins paused.
    pub paused: bool,
    /// The role's settings.
    pub settings: RoleSettings,
}

/// The status of an election.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreStatus {
    /// The instance's state.
    pub state: RoleState,
    /// Whether the instance is paused.
    pub paused: bool,
    /// The known leader, if there is one.
    pub leader: Option<LeaderInfo>,
    /// The fencing token of this instance's term, until its role is freed or given up.
    pub fencing_token: Option<FencingToken>,
    /// When the last confirmed write of the held lease was sent.
    pub last_heartbeat: Option<Moment>,
    /// When the state last changed.
    pub last_transition: Moment,
    /// The revision last seen under the role's key.
    pub revision: Option<u64>,
    /// How much of NATS the role can rely on.
    pub connection: ConnectionStatus,
    /// The end of this instance's lease, unless it was revoked.
    pub lease_until: Option<Moment>,
    /// Whether a handler still runs although its lease is over.
    pub overrun: bool,
}

/// The lease that this instance holds on the role's key.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct HeldLease {
    pub term: TermId,
    pub secrets: Secrets,
    pub revision: u64,
    /// When the last confirmed write was sent.
    pub sent: Moment,
    /// The end of the lease.
    pub until: Moment,
}

/// Where the machine is in its cycle. A handler exists only in `Leading` and `Draining`.
#[derive(Clone, Debug, Hash)]
pub(super) enum Phase {
    Waiting(Waiting),
    Acquiring(Acquisition),
    Leading(Leadership),
    Draining(Drain),
    Stopped,
}

/// The operation under way. There is never more than one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub op: OpId,
    pub what: Operation,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Operation {
    Read {
        sent: Moment,
    },
    Write {
        purpose: Purpose,
        term: TermId,
        beat: u64,
        over: u64,
        sent: Moment,
    },
    /// The operation went to a bucket that was replaced. Its answer tells nothing.
    Void,
}

impl Operation {
    const fn round_trips(self) -> u32 {
        match self {
            Self::Read { .. } => READ_ROUND_TRIPS,
            Self::Write { .. } | Self::Void => 1,
        }
    }
}

/// A read asks for the keys, and then for the bucket.
const READ_ROUND_TRIPS: u32 = 2;
/// The most operations that are remembered after their timeout. Each may still be answered.
pub const MOST_LATE: usize = 8;

/// One instance's side of one role's election.
///
/// The [crate's front page](crate) tells how to drive it.
#[derive(Clone, Debug)]
pub struct Election {
    pub(super) candidate: Candidate,
    pub(super) settings: RoleSettings,
    pub(super) link: Link,
    /// The bucket last used. It is kept while there is no link.
    pub(super) bucket: Option<Bucket>,
    pub(super) phase: Phase,
    pub(super) observed_role: ObservedRole,
    pub(super) attempts: Attempts,
    pub(super) retry: Retry,
    adaptive_timeout: AdaptiveTimeout,
    pub(super) pending: Option<Pending>,
    /// Operations without an answer in time. The answer may come late.
    late: VecDeque<Pending>,
    /// When the last write was sent. A read that was sent before tells nothing of it.
    last_write: Option<Moment>,
    /// When to ask for another look at the bucket, if this machine itself gave up its link.
    reopen_at: Option<Moment>,
    /// The instance leaves the election. The value tells whether it frees the role.
    pub(super) stopping: Option<bool>,
    /// The instance takes part in no election until resumed.
    pub(super) paused: bool,
    pub(super) failures_in_a_row: u32,
    pub(super) state: RoleState,
    pub(super) now: Moment,
    pub(super) fresh: Fresh,
    pub(super) last_transition: Moment,
    pub(super) link_lost_at: Option<Moment>,
    pub(super) leader: Option<LeaderInfo>,
    pub(super) told_connection: ConnectionStatus,
    next_op: u64,
    last_question: u64,
    last_term: u64,
    out: Vec<Effect>,
}

impl CoreStatus {
    /// The status of an election that has not begun.
    pub const fn initial(now: Moment) -> Self {
        Self {
            state: RoleState::Init,
            paused: false,
            leader: None,
            fencing_token: None,
            last_heartbeat: None,
            last_transition: now,
            revision: None,
            connection: ConnectionStatus::Suspended,
            lease_until: None,
            overrun: false,
        }
    }
}

impl Election {
    /// An election that knows nothing yet. Its first input is the [`Link`] to the bucket.
    pub fn new(candidate: Candidate, now: Moment) -> Self {
        let settings = candidate.settings.clone();
        Self {
            link: Link::Down,
            bucket: None,
            phase: Phase::Waiting(Waiting::new()),
            observed_role: ObservedRole::new(
                candidate.incarnation,
                settings.ttl,
                settings.handoff_hold(),
            ),
            attempts: Attempts::new(candidate.incarnation, candidate.first_beat),
            retry: Retry::new(settings.retry.clone()),
            adaptive_timeout: AdaptiveTimeout::new(settings.request_timeout, settings.ttl),
            pending: None,
            late: VecDeque::new(),
            last_write: None,
            reopen_at: None,
            stopping: None,
            paused: candidate.paused,
            failures_in_a_row: 0,
            state: RoleState::Init,
            now,
            fresh: Fresh {
                lease_token: LeaseToken::new(Uuid::nil()),
                release_secret: ReleaseSecret::new(0),
                chance: 0.5,
            },
            last_transition: now,
            link_lost_at: Some(now),
            leader: None,
            told_connection: ConnectionStatus::Suspended,
            next_op: 0,
            last_question: 0,
            last_term: 0,
            out: Vec::new(),
            candidate,
            settings,
        }
    }

    /// Takes one input and returns what is to be done, in order.
    ///
    /// `now` must not go back between calls. If it does, the later time is used. `fresh` must be
    /// new at each call.
    pub fn step(&mut self, now: Moment, fresh: Fresh, input: Input) -> Vec<Effect> {
        self.now = self.now.max(now);
        self.fresh = fresh;
        #[cfg(nats_elect_mutations)]
        let input = self.disguise(input);
        self.take(input);
        self.update_takeover_request();
        self.run_timers();
        self.update_takeover_request();
        self.relabel();
        std::mem::take(&mut self.out)
    }

    /// When to step with [`Input::Tick`] next. `None` if only another input can change anything.
    pub fn next_wakeup(&self) -> Option<Moment> {
        self.timers().into_iter().map(|(due, _)| due).min()
    }

    /// Whether the instance has left the election. Another step has no effect.
    pub const fn is_stopped(&self) -> bool {
        matches!(self.phase, Phase::Stopped)
    }

    /// Feeds a hasher everything that decides what this machine does from `now` on.
    ///
    /// Two machines that feed the same, up to a shift of time, behave the same. It is for model
    /// checkers, which must tell new situations from known ones.
    pub fn hash_state(&self, now: Moment, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;

        let Self {
            link,
            bucket,
            phase,
            observed_role,
            attempts,
            retry,
            adaptive_timeout,
            pending,
            late,
            last_write,
            reopen_at,
            stopping,
            paused,
            failures_in_a_row,
            state,
            candidate: _,
            settings,
            // Set at the beginning of each step, or empty at its end.
            now: _,
            fresh: _,
            out: _,
            // Nothing is decided by these: they are told only.
            last_transition: _,
            link_lost_at: _,
            leader: _,
            told_connection: _,
            // These only need to be greater than the ones in use.
            next_op: _,
            last_question: _,
            last_term: _,
        } = self;
        let operation = pending.map(|pending| pending.what);
        let read_sent = match operation {
            Some(Operation::Read { sent }) => sent,
            _ => now,
        };
        (link, bucket, operation).hash(hasher);
        for late in late {
            late.what.hash(hasher);
        }
        let read_counts = last_write.map(|sent| sent < read_sent);
        let reopen_at = reopen_at.map(|at| at.max(now));
        (read_counts, reopen_at, stopping, paused).hash(hasher);
        (failures_in_a_row, state).hash(hasher);
        match phase {
            Phase::Waiting(waiting) => waiting.hash_state(now, *paused, settings, hasher),
            Phase::Leading(leadership) => leadership.hash_state(now, settings, hasher),
            Phase::Acquiring(_) | Phase::Draining(_) | Phase::Stopped => phase.hash(hasher),
        }
        observed_role.hash_state(now, read_sent, settings, hasher);
        attempts.hash_state(hasher);
        retry.hash_state(now, hasher);
        adaptive_timeout.hash_state(hasher);
    }

    /// The present status.
    pub fn status(&self) -> CoreStatus {
        let held = self.held();
        CoreStatus {
            state: self.state,
            paused: self.paused,
            leader: self.leader.clone(),
            fencing_token: self.fencing_token(),
            last_heartbeat: held.map(|held| held.sent),
            last_transition: self.last_transition,
            revision: self.observed_role.revision(),
            connection: self.connection(),
            lease_until: match &self.phase {
                Phase::Leading(leadership) => Some(leadership.keeper.held.until),
                Phase::Draining(drain) if !drain.is_revoked() => Some(drain.keeper.held.until),
                _ => None,
            },
            overrun: matches!(&self.phase, Phase::Draining(drain) if drain.is_overrun()),
        }
    }

    /// Why the bucket cannot be used although NATS is connected. `None` if it can be, or if there
    /// is no connection.
    pub const fn link_failure(&self) -> Option<&Failure> {
        match &self.link {
            Link::Unusable(failure) => Some(failure),
            Link::Down | Link::Up(_) => None,
        }
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Tick => {}
            Input::Link(link) => {
                self.reopen_at = None;
                self.link_changed(link);
            }
            Input::Observed(entry) => self.observed(entry),
            Input::ObservedFence(fence) => self.observed_role.watched_fence(fence, self.now),
            Input::WriteEnded { op, outcome } => self.write_ended(op, &outcome),
            Input::ReadEnded { op, outcome } => self.read_ended(op, outcome),
            Input::HandlerEnding { term, end } => self.handler_ending(term, end),
            Input::HandlerEnded { term, end } => self.handler_ended(term, end),
            Input::LeaseOver { term } => self.lease_over(term),
            Input::Superseded { term } => self.superseded(term),
            Input::Health { term, healthy } => self.health_checked(term, healthy),
            Input::StepDown {
                request,
                to,
                expected,
                hold_off,
            } => self.step_down(request, to, expected, hold_off),
            Input::Pause { request } => self.pause(request),
            Input::Resume { request } => self.resume(request),
            Input::Cordon { request } => self.cordon(request),
            Input::PeerAsked { reply_to, question } => self.asked(reply_to, question),
            Input::PeerReplied { question, answer } => self.answered(question, answer),
            Input::Validate { request, term } => self.validate(request, term),
            Input::EndLease { request, revision } => self.end_lease(request, revision),
            Input::Stop { release } => self.stop(release),
            Input::Abandon => self.abandon(),
        }
    }

    pub(super) fn link_changed(&mut self, link: Link) {
        match &link {
            Link::Down => {
                self.link_lost_at.get_or_insert(self.now);
                self.link = link;
                self.suspend();
                let detail = "the connection to NATS broke".to_owned();
                self.refuse_proofs(
                    u64::MAX,
                    &Failure {
                        kind: FailureKind::Unavailable,
                        detail,
                    },
                );
            }
            Link::Unusable(failure) => {
                self.link_lost_at.get_or_insert(self.now);
                self.report(failure);
                let failure = failure.clone();
                self.link = link;
                self.bucket_unusable(&failure);
                self.refuse_proofs(u64::MAX, &failure);
            }
            Link::Up(bucket) => self.bucket_ready(*bucket),
        }
    }

    fn bucket_ready(&mut self, bucket: Bucket) {
        if let Some(max_age) = bucket
            .max_age
            .filter(|max_age| *max_age < self.settings.ttl)
        {
            let detail = format!(
                "the bucket drops keys after {max_age:?}, before the lease of {:?} ends: choose a shorter ttl or a longer max age",
                self.settings.ttl
            );
            self.link_changed(Link::Unusable(Failure {
                kind: FailureKind::BucketUnfit,
                detail,
            }));
            // No other part finds the bucket unfit, so no other part looks at it again.
            self.reopen_later();
            return;
        }
        if !matches!(self.link, Link::Up(_)) {
            self.retry.hurry();
        }
        self.link = Link::Up(bucket);
        self.link_lost_at = None;
        let replaced = self
            .bucket
            .replace(bucket)
            .is_some_and(|old| old.epoch != bucket.epoch && !mutated!(IgnoreEpoch));
        if replaced {
            if let Some(pending) = &mut self.pending {
                pending.what = Operation::Void;
            }
            self.late.clear();
            self.attempts.forget_all();
            self.observed_role.bucket_replaced(self.now);
        }
        self.observed_role.bucket_max_age(bucket.max_age);
        self.linked(replaced);
    }

    /// Asks for a look at the bucket, because this machine can't use the one that it was told of.
    /// It asks again until it is told of another.
    pub(super) fn reopen(&mut self) {
        self.emit(Effect::Reopen);
        self.reopen_later();
    }

    fn reopen_later(&mut self) {
        mutated!(AskOnceForALook => return);
        self.reopen_at = Some(self.now + self.settings.retry.max_backoff);
    }

    pub(super) const fn reopen_at(&self) -> Option<Moment> {
        self.reopen_at
    }

    /// Whether a request can be sent to NATS now.
    pub(super) fn may_send(&self) -> bool {
        let linked = matches!(self.link, Link::Up(_)) || mutated!(SendWhileDown);
        linked && self.pending.is_none()
    }

    pub(super) fn emit(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    /// Emits an effect ahead of the events that this step ends with. So a slow subscriber or
    /// exporter never delays it.
    pub(super) fn emit_before_events(&mut self, effect: Effect) {
        let is_told = |effect: &&Effect| matches!(effect, Effect::Event(_));
        let events = self.out.iter().rev().take_while(is_told).count();
        self.out.insert(self.out.len() - events, effect);
    }

    pub(super) fn tell(&mut self, event: Event) {
        self.out.push(Effect::Event(event));
    }

    pub(super) fn reply(&mut self, request: RequestId, reply: Reply) {
        self.out.push(Effect::Reply { request, reply });
    }

    pub(super) fn report(&mut self, failure: &Failure) {
        self.tell(Event::Failure {
            kind: failure.kind,
            detail: failure.detail.clone(),
        });
    }

    pub(super) fn regressed(&mut self, was: u64, is: u64) {
        let detail = format!(
            "the role's key went back from sequence {was} to {is}: NATS lost confirmed writes"
        );
        self.report(&Failure {
            kind: FailureKind::Regression,
            detail,
        });
    }

    pub(super) fn note_breaker(&mut self, breaker: Breaker) {
        match breaker {
            Breaker::Unchanged => {}
            Breaker::Opened => self.tell(Event::CircuitOpened),
            Breaker::Closed => self.tell(Event::CircuitClosed),
        }
    }

    /// Reports a failed request and sets the time of the next attempt.
    pub(super) fn request_failed(&mut self, failure: &Failure) {
        self.report(failure);
        if failure.kind == FailureKind::BucketMissing {
            self.emit(Effect::Reopen);
        }
        let limit = matches!(self.phase, Phase::Leading(_) | Phase::Draining(_))
            .then_some(self.settings.heartbeat);
        let chance = self.fresh.chance;
        if failure.kind == FailureKind::Contended {
            self.retry.contended(self.now, chance);
            return;
        }
        let breaker = if failure.is_transient() || limit.is_some() {
            self.retry.failed(self.now, chance, limit)
        } else {
            self.retry.failed_for_long(self.now, chance)
        };
        if failure.kind == FailureKind::BucketFull && limit.is_none() {
            // Reads succeed meanwhile, so nothing else would slow down the next write.
            self.retry.wait_until(self.now + self.settings.heartbeat);
        }
        self.note_breaker(breaker);
    }

    /// A request was answered by a working bucket.
    pub(super) fn request_answered(&mut self) {
        let breaker = self.retry.succeeded();
        self.note_breaker(breaker);
    }

    pub(super) fn lease_until(&self, sent: Moment) -> Moment {
        mutated!(NoDriftMargin => return sent + self.settings.ttl);
        sent + self.settings.ttl - self.settings.drift_margin()
    }

    pub(super) fn next_question(&mut self) -> PeerRequestId {
        self.last_question += 1;
        PeerRequestId(self.last_question)
    }

    /// Numbers a new acquisition.
    pub(super) fn next_term(&mut self) -> TermId {
        self.last_term += 1;
        TermId(self.last_term)
    }

    pub(super) fn record(&self, secrets: Secrets, nonce: Nonce) -> Record {
        Record {
            id: self.candidate.instance_id.clone(),
            token: secrets.token,
            priority: self.settings.priority,
            #[cfg(nats_elect_mutations)]
            meta: self.stamped_meta(),
            #[cfg(not(nats_elect_mutations))]
            meta: self.settings.meta.clone(),
            ttl: self.settings.ttl,
            nonce,
            release: secrets.release.hash(),
            proof: None,
        }
    }

    pub(super) fn fence_record(&self, secrets: Secrets, nonce: Nonce) -> FenceRecord {
        FenceRecord {
            id: self.candidate.instance_id.clone(),
            ttl: self.settings.ttl,
            nonce,
            release: secrets.release.hash(),
        }
    }

    /// Sends one write and remembers it. Its send time is `now`.
    pub(super) fn send(
        &mut self,
        purpose: Purpose,
        term: TermId,
        secrets: Secrets,
        expected: Expected,
        kind: impl FnOnce(&Self, Nonce) -> WriteKind,
    ) {
        debug_assert!(
            self.may_send(),
            "one lease write at a time, and none without a link"
        );
        let sent = self.now;
        let nonce = self.attempts.open(purpose, term, secrets, expected, sent);
        let kind = kind(self, nonce);
        self.last_write = Some(sent);
        let what = Operation::Write {
            purpose,
            term,
            beat: nonce.beat,
            over: expected.over,
            sent,
        };
        let op = self.begin(what);
        let within = self.adaptive_timeout.within(what.round_trips());
        self.emit(Effect::Write(Write {
            op,
            term,
            nonce,
            within,
            kind,
        }));
    }

    pub(super) fn send_read(&mut self) {
        debug_assert!(
            self.may_send(),
            "one request at a time, and none without a link"
        );
        let what = Operation::Read { sent: self.now };
        let op = self.begin(what);
        let within = self.adaptive_timeout.within(what.round_trips());
        self.emit(Effect::Read { op, within });
    }

    /// The timeout of a read.
    pub(super) fn read_takes(&self) -> Duration {
        self.adaptive_timeout.within(READ_ROUND_TRIPS)
    }

    fn begin(&mut self, what: Operation) -> OpId {
        self.next_op += 1;
        let op = OpId(self.next_op);
        self.pending = Some(Pending { op, what });
        op
    }

    /// Takes the pending operation if this is its answer. If it timed out, its answer may come
    /// late, so it is remembered.
    pub(super) fn finish(&mut self, op: OpId, timed_out: bool) -> Option<Operation> {
        let pending = self.pending.take_if(|pending| pending.op == op)?;
        if timed_out && !matches!(pending.what, Operation::Void) && !mutated!(DropLateAnswers) {
            if self.late.len() == MOST_LATE {
                self.late.pop_front();
            }
            self.late.push_back(pending);
        }
        if !timed_out {
            self.learn_pace(pending.what, false);
        }
        Some(pending.what)
    }

    /// Whether the attempt with this beat is under way and not timed out.
    pub(super) fn awaits(&self, attempt: u64) -> bool {
        let what = self.pending.map(|pending| pending.what);
        matches!(what, Some(Operation::Write { beat, .. }) if beat == attempt)
    }

    fn learn_pace(&mut self, what: Operation, late: bool) {
        let (Operation::Read { sent } | Operation::Write { sent, .. }) = what else {
            return;
        };
        let took = self.now.since(sent);
        self.adaptive_timeout
            .answered(took, what.round_trips(), late);
    }

    /// Takes an operation that had timed out, now that its answer has come. A read that was sent
    /// before the last write counts for nothing.
    pub(super) fn finish_late(&mut self, op: OpId) -> Option<Operation> {
        let index = self.late.iter().position(|late| late.op == op)?;
        let what = self.late.remove(index)?.what;
        self.learn_pace(what, true);
        match what {
            Operation::Read { sent } if self.last_write.is_some_and(|write| write >= sent) => None,
            Operation::Read { .. } => {
                // The same answer serves a read that was sent meanwhile.
                self.forget_reads();
                Some(what)
            }
            what => Some(what),
        }
    }

    /// Forgets the reads under way, because a write turned out to be stored. They may show less
    /// than that, and there is no need to wait for them.
    pub(super) fn forget_reads(&mut self) {
        let reads = |pending: &Pending| matches!(pending.what, Operation::Read { .. });
        self.pending.take_if(|pending| reads(pending));
        self.late.retain(|late| !reads(late));
    }

    /// Forgets a heartbeat over a sequence below this one, at which an earlier heartbeat turned out
    /// to be stored. It can't be stored any more, so there is no need to wait for it.
    pub(super) fn forget_heartbeats(&mut self, sequence: u64) {
        mutated!(AwaitWhatIsRefused => return);
        self.pending.take_if(|pending| {
            let heartbeat = Purpose::Renew;
            matches!(pending.what, Operation::Write { purpose, over, .. } if purpose == heartbeat && over < sequence)
        });
    }

    /// The term's fencing token, as long as its handler may run or its role is still to be freed.
    pub(super) fn fencing_token(&self) -> Option<FencingToken> {
        match &self.phase {
            Phase::Leading(leadership) => Some(leadership.fencing_token),
            Phase::Draining(drain) => drain.fencing_token(),
            _ => None,
        }
    }

    pub(super) fn held(&self) -> Option<&HeldLease> {
        match &self.phase {
            Phase::Acquiring(acquisition) => Some(&acquisition.held),
            Phase::Leading(leadership) => Some(&leadership.keeper.held),
            Phase::Draining(drain) => Some(&drain.keeper.held),
            Phase::Waiting(_) | Phase::Stopped => None,
        }
    }
}
