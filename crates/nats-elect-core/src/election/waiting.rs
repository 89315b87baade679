//! Waiting for a role until it is free, then claiming it by compare-and-set.

use std::time::Duration;

use super::acquiring::Acquisition;
use super::answers::Stake;
use super::effect::{Reply, WriteKind};
use super::input::{RequestId, Snapshot};
use super::phase::Phase;
use super::scene::Scene;
use super::takeover::TakeoverRequest;
use super::timers::Timer;
use crate::event::{BucketRequest, Event, Vacancy};
use crate::heirs::Heirs;
use crate::lease::{Attempt, Secrets, TermId, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Entry};
use crate::status::RoleState;

/// The state of an instance that does not lead.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Waiting {
    /// When to read the keys before a claim, if they must be. The watch may show them before and spare
    /// the read.
    pub read_at: Option<Moment>,
    /// Whether a claim of ours was never answered. It may have been stored.
    pub in_doubt: bool,
    /// The random delay before the next claim.
    pub claim_wait: Duration,
    /// When the keys and the bucket's identity were last read.
    pub checked_at: Option<Moment>,
    /// When that read was sent.
    pub looked_at: Option<Moment>,
    pub cooling_until: Option<Moment>,
    /// The request to take over from a leader of lower priority.
    pub takeover_request: Option<TakeoverRequest>,
    pub promised: Option<PromisedHandoff>,
    /// When the record arrived for which a long wait was reported.
    pub warned: Option<Moment>,
}

/// A role that is being handed over to this instance. Reads show the release if the watch is
/// silent.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct PromisedHandoff {
    look_at: Moment,
    pub until: Moment,
    /// How long the role is held against higher priorities, if an operator named this instance.
    ordered: Option<Duration>,
}

impl Waiting {
    pub fn new() -> Self {
        Self {
            read_at: Some(Moment::default()),
            ..Self::default()
        }
    }

    /// Forgets what decides nothing from `now` on, for model checkers.
    pub fn forget_what_is_over(&mut self, now: Moment, at: &Scene) {
        self.read_at = self.read_at.map(|due| due.max(now));
        self.cooling_until = self.cooling_until.map(|until| until.max(now));
        // An older check does not count.
        let settings = &at.settings;
        let counts_for = if at.paused {
            settings.ttl
        } else {
            settings.heartbeat
        };
        self.checked_at.take_if(|it| *it < now - counts_for);
        self.looked_at.take_if(|it| *it < now - settings.ttl);
        self.promised.take_if(|promised| promised.until <= now);
        self.warned = None;
    }

    /// Whether nothing is known of the role yet, and nothing of ours can depend on it.
    pub const fn looks_first(&self) -> bool {
        self.checked_at.is_none() && !self.in_doubt && self.promised.is_none()
    }

    /// After a term: the instance stays out until then.
    pub fn cooling(until: Moment) -> Self {
        Self {
            cooling_until: Some(until),
            ..Self::new()
        }
    }
}

impl Waiting {
    pub fn timers(&self, at: &Scene) -> Vec<(Moment, Timer)> {
        let mut timers = Vec::new();
        if at.stopping.is_some() {
            if at.wire.operations.is_busy() {
                return timers;
            }
            // A claim that may have been stored is looked for once, to give it back.
            let task = if self.in_doubt && at.wire.may_send() {
                Timer::Read
            } else {
                Timer::Leave
            };
            timers.push((at.now, task));
            return timers;
        }
        let free_at = at.observed_role.free_at();
        if let Some(free_at) = free_at.filter(|free_at| *free_at > at.now) {
            timers.push((free_at, Timer::Notice));
        }
        let warn_at = self.warn_of_wait_at(at);
        timers.extend(warn_at.map(|due| (due, Timer::WarnOfWait)));
        timers.extend(at.failing_until().map(|until| (until, Timer::Notice)));
        if let Some(until) = self.cooling_until {
            timers.push((until, Timer::EndCooldown));
            return timers;
        }
        let ask_at = self.ask_leader_at(at);
        timers.extend(ask_at.map(|due| (due, Timer::AskLeader)));
        if !at.wire.may_send() {
            return timers;
        }
        let retry_at = at.wire.retry.at(BucketRequest::Read);
        if let Some(promised) = self.promised.filter(|it| at.now < it.until) {
            timers.push((promised.look_at.max(retry_at), Timer::Read));
        }
        if let Some(read_at) = self.read_at {
            timers.push((read_at.max(retry_at), Timer::Read));
        } else if let Some(look_at) = self.look_for_fence_at(at) {
            timers.push((look_at.max(retry_at), Timer::Read));
        } else if at.paused && !mutated!(ClaimWhilePaused) {
            timers.extend(free_at.map(|free_at| {
                let look_at = self.look_again_at(at, free_at);
                (look_at.max(retry_at), Timer::Read)
            }));
        } else if let Some(free_at) = free_at {
            let claim_at = (free_at + self.claim_wait).max(at.wire.retry.at(BucketRequest::Claim));
            // Only a fresh read tells who led last, where sequences are used again or the message
            // under the key does not tell it.
            let tells = at.wire.has_unique_sequences() && at.observed_role.is_vouched();
            let recently = at.now - at.settings.heartbeat;
            let checked = tells
                || self
                    .checked_at
                    .is_some_and(|at| at >= free_at && at >= recently);
            timers.push(if checked {
                (claim_at, Timer::Claim)
            } else {
                (claim_at.max(retry_at), Timer::Read)
            });
        }
        timers
    }

    /// When to read the fence record again, before waiting for a lease that only the fence record
    /// shows. It may be the one of the term before.
    fn look_for_fence_at(&self, at: &Scene) -> Option<Moment> {
        mutated!(BelieveOldFence => return None);
        let shown = at.observed_role.free_by_record()?;
        let waits = Some(shown) < at.observed_role.free_at();
        let looked = self.looked_at.is_some_and(|sent| sent >= shown);
        (waits && !looked).then_some(shown)
    }

    /// When a paused instance reads the keys to find out who leads, if the watch is silent: when
    /// the role seems free, and once a lease from then on. Other instances find out by claiming.
    fn look_again_at(&self, at: &Scene, free_at: Moment) -> Moment {
        let next = self.checked_at.map(|checked| checked + at.settings.ttl);
        next.map_or(free_at, |next| next.max(free_at))
    }

    /// Handles a new message under the role's key.
    pub fn record_changed(&mut self, at: &Scene) {
        self.claim_wait = at.claim_wait();
        if self.in_doubt {
            self.read_at = Some(at.now);
        } else if at.observed_role.was_read {
            self.read_at = None;
        }
        if at.observed_role.shows_less() {
            self.must_read(at.now, false);
        }
    }

    /// Handles a read of both keys. The observed role is up to date.
    pub fn has_read(
        mut self,
        at: &mut Scene,
        snapshot: &Snapshot,
        news: bool,
        sent: Moment,
    ) -> Phase {
        self.read_at = None;
        self.in_doubt = false;
        self.checked_at = Some(at.now);
        self.looked_at = Some(sent);
        if let Some(promised) = &mut self.promised {
            promised.look_at = at.now + at.pause_between_looks();
        }
        if news {
            self.claim_wait = at.claim_wait();
        }
        match &snapshot.role {
            Some(entry) => self.adopt_claim(at, entry, true),
            None => Phase::Waiting(self),
        }
    }

    /// Expects a handoff: the leader winds down to hand the role over to this instance.
    pub fn expect_handoff(&mut self, at: &Scene, ordered: Option<Duration>) {
        self.promised = Some(PromisedHandoff {
            look_at: at.now + at.pause_between_looks(),
            until: at.now + at.settings.handoff_time(),
            ordered,
        });
    }

    /// Reads the keys once, because the leader's term was not seen yet, and at most four times a
    /// heartbeat.
    pub fn look_for_term(&mut self, at: &Scene) {
        let (now, pause) = (at.now, at.pause_between_looks());
        let look_at = self.looked_at.map_or(now, |at| now.max(at + pause));
        let until = look_at + pause;
        let promised = self.promised.get_or_insert(PromisedHandoff {
            look_at,
            until,
            ordered: None,
        });
        promised.look_at = promised.look_at.min(look_at);
        promised.until = promised.until.max(until);
    }

    /// Demands a new read of the keys, at `read_at` unless the watch shows them first.
    pub fn must_read(&mut self, read_at: Moment, in_doubt: bool) {
        self.read_at = Some(read_at);
        self.in_doubt |= in_doubt;
    }

    pub fn end_cooldown(mut self, at: &mut Scene) -> Phase {
        self.cooling_until = None;
        at.become_state(RoleState::Candidate);
        Phase::Waiting(self)
    }

    pub fn claim(self, at: &mut Scene) -> Phase {
        let over = at.observed_role.claim_over();
        at.become_state(RoleState::Candidate);
        at.ordered_until = at.now + self.order_holds(at);
        at.last_term += 1;
        let term = TermId(at.last_term);
        let secrets = Secrets {
            token: at.fresh.lease_token,
            release: at.fresh.release_secret,
        };
        let fence = at.observed_role.fence_over();
        let vacancy = at.vacancy();
        at.tell(Event::ClaimBegan { vacancy });
        let record = at.record(secrets, Heirs::NONE);
        at.send(term, secrets, fence, WriteKind::Claim { over, record });
        Phase::Waiting(self)
    }

    /// How long the term that is claimed now is held against higher priorities: not at all, unless
    /// the role is handed over by an order that names this instance.
    fn order_holds(&self, at: &Scene) -> Duration {
        mutated!(ForgetOrders => return Duration::ZERO);
        let promised = self.promised.filter(|promised| {
            at.observed_role.names_us() && at.now < promised.until + at.settings.ttl
        });
        promised.and_then(|it| it.ordered).unwrap_or_default()
    }

    /// Handles the answer to a claim.
    pub fn claim_ended(mut self, at: &mut Scene, write: Attempt, outcome: &WriteOutcome) -> Phase {
        at.tell(Event::ClaimEnded {
            outcome: outcome.told(),
        });
        match outcome {
            _ if self.cooling_until.is_some() => {}
            WriteOutcome::Acked { revision } => {
                if let Some(attempt) = at.wire.attempts.find_beat(write.beat) {
                    debug_assert!(
                        attempt.term == write.term && attempt.sent == write.sent,
                        "the attempt is remembered"
                    );
                    return self.claimed(at, attempt, *revision, at.is_of_bucket(*revision));
                }
            }
            WriteOutcome::Conflict { .. } => {
                if !mutated!(CountFromErrorText) {
                    self.must_read(at.now + at.watch_timeout(), false);
                }
            }
            WriteOutcome::Failed(failure) => {
                let failed = at.request_failed(BucketRequest::Claim, failure, Stake::Nothing);
                // Where another write was stored meanwhile, the server takes writes.
                let taken = (at.observed_role.received()).is_some_and(|at| at > write.sent);
                if failed && !taken {
                    let next = write.sent + at.pause_between_claims();
                    at.wire.retry.wait_until(BucketRequest::Claim, next);
                }
                self.must_read(at.now, true);
            }
        }
        Phase::Waiting(self)
    }

    /// Adopts a claim of ours that was never answered but stands in the bucket. Its lease counts
    /// from its sending.
    pub fn adopt_claim(self, at: &mut Scene, entry: &Entry, bucket_known: bool) -> Phase {
        let attempt = at.wire.attempts.find(entry.content.nonce());
        let is_open = |it: &Attempt| it.request == BucketRequest::Claim && it.settled.is_none();
        let Some(claim) = attempt.filter(is_open) else {
            return Phase::Waiting(self);
        };
        at.wire.attempts.settle(claim.beat, entry.revision);
        let last_call = at.lease_until(claim.sent) - at.settings.stop_budget;
        if at.observed_role.fence_over() > claim.beside {
            at.observed_role.wait_longest(at.now);
        } else if self.cooling_until.is_none() && at.now < last_call {
            return self.claimed(at, claim, entry.revision, bucket_known);
        }
        Phase::Waiting(self)
    }

    /// An answer or a read showed that a claim of ours stands in the bucket.
    fn claimed(
        mut self,
        at: &mut Scene,
        claim: Attempt,
        revision: u64,
        bucket_known: bool,
    ) -> Phase {
        // The role was free at the claim's sequence. If another lease was seen since, the stream
        // has given sequences again.
        let contested =
            !at.observed_role.shows_own_record() && Some(at.now) < at.observed_role.free_at();
        if !contested && at.observed_role.fence_over() == claim.beside {
            at.observed_role.note_end();
        }
        let record = at.own_content(claim.beat);
        at.observed_role.wrote(revision, record, at.now);
        if contested {
            self.must_read(at.now, false);
            return Phase::Waiting(self);
        }
        at.wire.operations.forget_reads();
        Acquisition::begin(at, claim, revision, bucket_known)
    }

    /// When to report a long wait: a lease longer than ours is waited for, although its holder was
    /// not heard for our own ttl.
    fn warn_of_wait_at(&self, at: &Scene) -> Option<Moment> {
        let received = at.observed_role.received()?;
        let due = received + at.settings.ttl + at.settings.heartbeat;
        let waits = Some(due) < at.observed_role.free_at();
        (waits && self.warned != Some(received)).then_some(due)
    }

    pub fn warn_of_wait(mut self, at: &mut Scene) -> Phase {
        if let Some(received) = at.observed_role.received()
            && let Some(free_at) = at.observed_role.free_at()
        {
            self.warned = Some(received);
            let wait = at.observed_role.wait();
            at.tell(Event::WaitingForLease {
                holder: wait.holder,
                why: wait.why,
                revision: at.observed_role.claim_over(),
                waited: at.now.since(received),
                left: free_at.since(at.now),
            });
        }
        Phase::Waiting(self)
    }

    /// An operator says that the writer of the observed message no longer leads.
    pub fn end_lease(self, at: &mut Scene, request: RequestId, revision: u64) -> Phase {
        let observed_role = &mut at.observed_role;
        let reply = if observed_role.was_read && observed_role.claim_over() == revision {
            observed_role.end_lease(at.now);
            Reply::Noted
        } else {
            Reply::Changed
        };
        at.reply(request, reply);
        Phase::Waiting(self)
    }
}

impl Scene {
    /// The pause between two reads for a message that the watch should show at any moment.
    fn pause_between_looks(&self) -> Duration {
        self.settings.heartbeat / 4
    }

    /// The least time from a claim that failed to the next one. A server that takes no writes has
    /// as many claims each second as there are candidates, and no more.
    fn pause_between_claims(&self) -> Duration {
        Duration::from_secs(1)
            .min(self.settings.ttl)
            .min(self.settings.retry.max_backoff)
    }

    /// How the role became free, by what was seen last of its key.
    pub fn vacancy(&self) -> Vacancy {
        match self.observed_role.seen().map(|entry| &entry.content) {
            _ if self.observed_role.names_us() => Vacancy::HandedOver,
            None => Vacancy::Untouched,
            Some(Content::Record(_) | Content::Opaque) => Vacancy::Expired,
            Some(Content::Release(_)) => Vacancy::Released,
            Some(Content::ForeignMarker) => Vacancy::Deleted,
        }
    }

    /// The pause between a lost claim and a read of the keys. In it the watch may show the winner's
    /// record.
    pub fn watch_timeout(&self) -> Duration {
        (self.settings.heartbeat / 2).mul_f64(0.5 + self.fresh.chance / 2.0)
    }

    /// The delay before a claim. Heirs claim in their turn, and the others after them, each at
    /// random. A full line means that there may be hundreds of others: they give the heirs time. An
    /// instance whose terms keep failing comes last.
    fn claim_wait(&self) -> Duration {
        let own = self.candidate.incarnation;
        let line = self.observed_role.line();
        let turn = line.turn_of(own);
        let failing = self.failing_until().is_some();
        if self.observed_role.names_us() || line.has(own) && !failing {
            return turn;
        }
        let quarter = self.settings.heartbeat / 4;
        let (hold, spread) = if failing {
            (quarter * 2 + self.settings.claim_delay, quarter)
        } else if line.is_full() {
            (quarter, quarter.max(self.settings.claim_delay))
        } else {
            (Duration::ZERO, self.settings.claim_delay)
        };
        turn + hold + spread.mul_f64(self.fresh.chance)
    }
}
