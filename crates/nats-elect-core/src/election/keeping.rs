//! Keeping the held lease: heartbeats, and what follows from one that is not simply confirmed.

use super::effect::{Effect, Reply, WriteKind};
use super::input::Snapshot;
use super::machine::Election;
use super::phase::{HeldLease, Phase};
use super::timers::Timer;
use crate::event::{BucketRequest, EndCause, Event, FailureKind, Outcome};
use crate::lease::{Asked, Attempt, Expected, Failure, Purpose, Retry, SentWrite, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::Content;

/// The held lease, and how certain it is.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Keeper {
    pub held: HeldLease,
    pub renew_at: Moment,
    doubt: Doubt,
    /// The number of compare-and-sets that were refused since the last confirmed one.
    refusals: u32,
}

/// The doubt that the last heartbeat left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Doubt {
    None,
    /// It was not answered. It may have been stored.
    Unanswered,
    /// It was refused. Another client wrote, or an earlier write of ours came late.
    Refused,
    /// Another message was shown at our own revision. NATS lost writes and gave their sequences
    /// again.
    Impostor,
}

/// The state of the held lease, by the keys that were read.
#[derive(Debug)]
enum Verdict {
    Stands,
    /// A write of ours that was never answered stands there, at this revision.
    Landed(Attempt, u64),
    /// Another message stands there, or none. If it is a delete marker of another client, its
    /// revision is given.
    Gone(EndCause, Option<u64>),
    /// Another message stands at our very revision. A compare-and-set over it would prove nothing.
    Replaced,
}

impl Keeper {
    pub const fn new(held: HeldLease, renew_at: Moment) -> Self {
        Self {
            held,
            renew_at,
            doubt: Doubt::None,
            refusals: 0,
        }
    }

    pub fn due(&self, retry: &Retry) -> (Moment, Timer) {
        match self.doubt {
            Doubt::None => (self.renew_at.max(retry.at(Asked::WriteRole)), Timer::Renew),
            Doubt::Unanswered | Doubt::Refused | Doubt::Impostor => {
                (retry.at(Asked::ReadKeys), Timer::Read)
            }
        }
    }

    /// Whether a doubtful heartbeat still needs a read.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt != Doubt::None
    }

    pub fn look_for_impostor(&mut self) {
        self.doubt = Doubt::Impostor;
    }

    pub fn confirm(&mut self, revision: u64, sent: Moment, until: Moment, next: Moment) {
        self.held.revision = self.held.revision.max(revision);
        self.held.sent = self.held.sent.max(sent);
        self.held.until = self.held.until.max(until);
        self.renew_at = next;
        self.doubt = Doubt::None;
        self.refusals = 0;
    }
}

impl Election {
    pub(super) fn renew(&mut self) {
        let Some(held) = self.phase.held().copied() else {
            return;
        };
        self.renew_line();
        let secrets = held.secrets;
        let over = held.revision;
        let expected = Expected { over, fence: 0 };
        let term = held.term;
        self.send(
            Purpose::Renew,
            term,
            secrets,
            expected,
            |election, nonce| WriteKind::Renew {
                over,
                record: election.record(secrets, nonce),
            },
        );
    }

    /// Handles the answer to a heartbeat.
    pub(super) fn heartbeat_ended(&mut self, write: SentWrite, outcome: &WriteOutcome) {
        let SentWrite { beat, over, .. } = write;
        self.tell(Event::HeartbeatEnded {
            outcome: match outcome {
                WriteOutcome::Acked { .. } if self.is_answer_late() => Outcome::TooLate,
                outcome => outcome.told(),
            },
            took: self.now.since(write.sent),
        });
        mutated!(ConflictIsAck => if let WriteOutcome::Conflict { .. } = outcome {
            return self.extend_unproved();
        });
        mutated!(TimeoutIsAck => if let WriteOutcome::Failed(_) = outcome {
            return self.extend_unproved();
        });
        if !self.phase.is_of(write.term) {
            return;
        }
        match outcome {
            WriteOutcome::Acked { revision } => {
                let attempt = self.wire.attempts.find_beat(beat);
                if let Some(attempt) = attempt {
                    self.confirmed(attempt, *revision);
                }
            }
            WriteOutcome::Conflict { .. } => self.heartbeat_refused(over),
            WriteOutcome::Failed(failure) => self.heartbeat_failed(beat, failure),
        }
    }

    fn heartbeat_refused(&mut self, over: u64) {
        let Some(keeper) = self.phase.keeper() else {
            return;
        };
        // Otherwise an earlier heartbeat of ours was found to stand there meanwhile.
        if over >= keeper.held.revision {
            keeper.doubt = Doubt::Refused;
            keeper.refusals += 1;
            self.suspend(self.now);
        }
    }

    fn heartbeat_failed(&mut self, beat: u64, failure: &Failure) {
        // If it is stored all the same, the next one is refused and finds that out.
        if failure.kind == FailureKind::Contended {
            self.renew_now();
            if self.request_failed(BucketRequest::Heartbeat, failure) {
                self.refuse_proofs(beat, failure);
            }
            self.suspend(self.now);
            return;
        }
        if let Some(keeper) = self.phase.keeper() {
            keeper.doubt = Doubt::Unanswered;
        }
        // The watch may have shown it meanwhile.
        if let Some((attempt, revision)) = self.shown(beat) {
            self.landed(attempt, revision);
            return;
        }
        self.request_failed(BucketRequest::Heartbeat, failure);
        self.suspend(self.now);
        self.refuse_proofs(beat, failure);
        if failure.ends_term() || mutated!(EndAtAnyRefusal) && !failure.is_transient() {
            self.wind_down(EndCause::BucketLost);
        }
    }

    /// Makes the next heartbeat due.
    fn renew_now(&mut self) {
        let now = self.now;
        if let Some(keeper) = self.phase.keeper() {
            keeper.renew_at = now;
        }
    }

    /// Handles a write of this term that is known to be stored, by its answer or by a read. The
    /// lease counts from its sending. If the old deadline has passed, it extends nothing, and only
    /// its revision is learnt.
    fn confirmed(&mut self, attempt: Attempt, revision: u64) {
        let record = self.own_content(attempt.beat);
        self.observed_role.wrote(revision, record, self.now);
        self.wire.operations.forget_heartbeats(revision);
        let now = self.now;
        let late = self.is_deadline_over() && !mutated!(ExtendOnLateAck);
        let until = self.lease_until(attempt.sent);
        let next = attempt.sent + self.settings.heartbeat;
        let linked = self.wire.is_up();
        let keeper = match &mut self.phase {
            Phase::Leading(leadership) => &mut leadership.keeper,
            Phase::WindingDown(winding_down) => &mut winding_down.keeper,
            Phase::Releasing(releasing) => {
                releasing.held.revision = releasing.held.revision.max(revision);
                return;
            }
            Phase::Waiting(_) | Phase::Acquiring(_) | Phase::Stopped => return,
        };
        if late {
            keeper.held.revision = keeper.held.revision.max(revision);
            keeper.doubt = Doubt::None;
            let expired = now >= keeper.held.until;
            self.wind_down(if expired {
                EndCause::LeaseExpired
            } else {
                EndCause::ConnectionLost
            });
            return;
        }
        keeper.confirm(revision, attempt.sent, until, next);
        let held = keeper.held;
        if linked {
            self.suspended_since = None;
        }
        let acting = self.acting_until().filter(|_| self.phase.is_leading());
        self.emit_before_events(Effect::Extend {
            term: held.term,
            lease: held.until,
            acting,
            proved: held.sent,
        });
        if let Phase::Leading(leadership) = &mut self.phase {
            let fencing_token = leadership.fencing_token;
            let proved: Vec<_> = leadership
                .proofs
                .extract_if(.., |(_, first)| *first <= attempt.beat)
                .collect();
            for (request, _) in proved {
                self.reply(request, Reply::Proved(fencing_token));
            }
        }
    }

    /// Handles a read of the keys, mostly because of a doubtful heartbeat.
    pub(super) fn keeper_has_read(&mut self, snapshot: &Snapshot) {
        let Some(held) = self.phase.held().copied() else {
            return;
        };
        let verdict = self.judge(&held, snapshot);
        mutated!(ReadIsProof => if matches!(verdict, Verdict::Stands) {
            return self.extend_unproved();
        });
        let Some(keeper) = self.phase.keeper() else {
            return;
        };
        let doubt = std::mem::replace(&mut keeper.doubt, Doubt::None);
        let refusals = keeper.refusals;
        match verdict {
            Verdict::Landed(attempt, revision) => self.landed(attempt, revision),
            Verdict::Replaced => self.lost(EndCause::Regressed, None),
            Verdict::Stands if doubt == Doubt::None => {}
            // The server shows less than was confirmed. One that no longer leads the stream does
            // so, too. But it is tried only once more.
            Verdict::Gone(EndCause::Regressed, _) if doubt == Doubt::Refused && refusals < 2 => {
                self.renew_now();
            }
            Verdict::Gone(cause, marker) if doubt == Doubt::Refused => {
                if cause == EndCause::Superseded {
                    self.tell(Event::ValidationFailed);
                }
                self.lost(cause, marker);
            }
            // It was refused twice although the key seems ours. So the read is stale.
            Verdict::Stands if doubt == Doubt::Refused && refusals > 1 => {
                self.tell(Event::ValidationFailed);
                self.lost(EndCause::Superseded, None);
            }
            // A read does not prove a loss. The next compare-and-set decides.
            Verdict::Stands | Verdict::Gone(..) => self.renew_now(),
        }
    }

    /// The attempt with this beat and its revision, if it was the message last seen.
    fn shown(&self, beat: u64) -> Option<(Attempt, u64)> {
        let own = Some(self.wire.attempts.nonce(beat));
        let seen = self.observed_role.seen()?;
        let attempt = self.wire.attempts.find(own)?;
        (seen.content.nonce() == own).then_some((attempt, seen.revision))
    }

    /// Handles a heartbeat of ours that was never answered but stands in the role's key.
    pub(super) fn landed(&mut self, attempt: Attempt, revision: u64) {
        let held = self
            .phase
            .held()
            .is_some_and(|held| held.term == attempt.term && held.revision < revision);
        if held && attempt.purpose == Purpose::Renew {
            self.wire.attempts.settle(attempt.beat, revision);
            self.confirmed(attempt, revision);
        }
    }

    /// The read failed. The next compare-and-set decides.
    pub(super) fn keeper_could_not_read(&mut self) {
        let now = self.now;
        if let Some(keeper) = self
            .phase
            .keeper()
            .filter(|keeper| keeper.doubt != Doubt::Impostor)
        {
            keeper.doubt = Doubt::None;
            keeper.renew_at = now;
        }
    }

    fn judge(&self, held: &HeldLease, snapshot: &Snapshot) -> Verdict {
        let Some(entry) = &snapshot.role else {
            return Verdict::Gone(EndCause::Deleted, None);
        };
        if let Some(attempt) = self
            .wire
            .attempts
            .find(entry.content.nonce())
            .filter(|attempt| attempt.term == held.term)
        {
            let is_record = matches!(attempt.purpose, Purpose::Claim | Purpose::Renew);
            if attempt.settled == Some(entry.revision) && entry.revision == held.revision {
                return Verdict::Stands;
            }
            if is_record && attempt.settled.is_none() && entry.revision > held.revision {
                return Verdict::Landed(attempt, entry.revision);
            }
        }
        if entry.revision == held.revision {
            return Verdict::Replaced;
        }
        if entry.revision < held.revision {
            return Verdict::Gone(EndCause::Regressed, None);
        }
        match &entry.content {
            Content::ForeignMarker => Verdict::Gone(EndCause::Deleted, Some(entry.revision)),
            Content::Release(_) => Verdict::Gone(EndCause::Deleted, None),
            Content::Record(_) | Content::Opaque => Verdict::Gone(EndCause::Superseded, None),
        }
    }

    /// Whether the deadline has passed or this instance has resigned. A confirmation then extends
    /// nothing.
    fn is_deadline_over(&self) -> bool {
        self.acting_until().is_none_or(|until| self.now >= until)
    }

    /// Whether a heartbeat that is confirmed now is too late. After a term that ended in order it is
    /// not, although nothing rests on it any more.
    fn is_answer_late(&self) -> bool {
        match &self.phase {
            Phase::Leading(_) => self.is_deadline_over(),
            phase => phase.held().is_none_or(|held| self.now >= held.until),
        }
    }

    /// Until when this instance may act on its lease: the end of the lease or, while it leads, of
    /// the grace period, whichever comes first. `None` if it has resigned.
    pub(super) fn acting_until(&self) -> Option<Moment> {
        match &self.phase {
            Phase::Leading(leadership) => {
                let until = leadership.keeper.held.until;
                Some(self.grace_until().map_or(until, |end| end.min(until)))
            }
            Phase::WindingDown(winding_down) => winding_down.acting_until(),
            _ => None,
        }
    }
}
