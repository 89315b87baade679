//! Keeping the held lease: heartbeats, and what follows from one that is not simply confirmed.

use super::answers::Stake;
use super::effect::{Effect, Reply, WriteKind};
use super::input::Snapshot;
use super::phase::Phase;
use super::scene::Scene;
use super::timers::Timer;
use crate::event::{BucketRequest, EndCause, Event, FailureKind, Outcome};
use crate::heirs::Heirs;
use crate::lease::{Attempt, Failure, Found, Held, Kind, Stored, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Entry};

impl Phase {
    /// Handles the answer to a heartbeat.
    pub fn renew_ended(mut self, at: &mut Scene, write: Attempt, outcome: &WriteOutcome) -> Self {
        at.tell(Event::HeartbeatEnded {
            outcome: match outcome {
                WriteOutcome::Acked { .. } if self.is_answer_late(at) => Outcome::TooLate,
                outcome => outcome.told(),
            },
            took: at.now.since(write.sent),
        });
        mutated!(ConflictIsAck => if let WriteOutcome::Conflict { .. } = outcome {
            return self.extend_unproved(at);
        });
        mutated!(TimeoutIsAck => if let WriteOutcome::Failed(_) = outcome {
            return self.extend_unproved(at);
        });
        if !self.is_of(write.term) {
            return self;
        }
        match outcome {
            WriteOutcome::Acked { revision } => match at.wire.attempts.find_beat(write.beat) {
                Some(attempt) => self.confirmed(at, attempt, *revision),
                None => self,
            },
            WriteOutcome::Conflict { .. } => {
                if self.kept().is_some_and(|held| held.refused(write.over)) {
                    self.suspend(at, at.now);
                }
                self
            }
            WriteOutcome::Failed(failure) => self.heartbeat_failed(at, write.beat, failure),
        }
    }

    fn heartbeat_failed(mut self, at: &mut Scene, beat: u64, failure: &Failure) -> Self {
        // If it is stored all the same, the next one is refused and finds that out.
        if failure.kind == FailureKind::Contended {
            if let Some(held) = self.kept() {
                held.renew_at = at.now;
            }
            if at.request_failed(BucketRequest::Heartbeat, failure, Stake::Lease) {
                self.refuse_proofs(at, beat, failure);
            }
            self.suspend(at, at.now);
            return self;
        }
        if let Some(held) = self.kept() {
            held.unanswered();
        }
        // The watch may have shown it meanwhile.
        if let Some((attempt, revision)) = at.shown(beat) {
            return self.landed(at, attempt, revision);
        }
        at.request_failed(BucketRequest::Heartbeat, failure, Stake::Lease);
        self.suspend(at, at.now);
        self.refuse_proofs(at, beat, failure);
        if failure.ends_term() || mutated!(EndAtAnyRefusal) && !failure.is_transient() {
            return self.wind_down(at, EndCause::BucketLost);
        }
        self
    }

    /// Handles a write of this term that is known to be stored, by its answer or by a read. The
    /// lease counts from its sending. If the old deadline has passed, it extends nothing, and only
    /// its revision is learnt.
    fn confirmed(mut self, at: &mut Scene, attempt: Attempt, revision: u64) -> Self {
        let record = at.own_content(attempt.beat);
        at.observed_role.wrote(revision, record, at.now);
        at.wire.operations.forget_heartbeats(revision);
        let late = self.is_deadline_over(at) && !mutated!(ExtendOnLateAck);
        if let Self::Releasing(releasing) = &mut self {
            releasing.held.stored(revision);
        }
        let Some(held) = self.kept() else {
            return self;
        };
        if late {
            held.stored(revision);
            let expired = at.now >= held.until;
            let cause = if expired {
                EndCause::LeaseExpired
            } else {
                EndCause::ConnectionLost
            };
            return self.wind_down(at, cause);
        }
        let until = at.lease_until(attempt.sent);
        let next = attempt.sent + at.settings.heartbeat;
        held.extend(revision, attempt.sent, until, next);
        let held = *held;
        if at.wire.is_up() {
            at.suspended_since = None;
        }
        let acting = match &self {
            Self::Leading(leadership) => Some(leadership.acting_until(at)),
            _ => None,
        };
        at.emit_before_events(Effect::Extend {
            term: held.term,
            lease: held.until,
            acting,
            proved: held.sent,
        });
        if let Self::Leading(leadership) = &mut self {
            let proved = Reply::Proved(leadership.fencing_token);
            leadership.answer_proofs(at, attempt.beat, &proved);
        }
        self
    }

    /// Handles a read of the keys, mostly because of a doubtful heartbeat.
    pub fn keeping_has_read(mut self, at: &mut Scene, snapshot: &Snapshot) -> Self {
        mutated!(ReadIsProof => if self.shows_held(snapshot) { return self.extend_unproved(at); });
        let Some(held) = self.kept() else {
            return self;
        };
        let stored = snapshot.role.as_ref().map(stored);
        match held.has_read(stored, &at.wire.attempts, at.now) {
            Found::Undecided => self,
            Found::Landed(attempt, revision) => self.landed(at, attempt, revision),
            Found::Lost(cause, marker) => {
                if cause == EndCause::Superseded {
                    at.tell(Event::ValidationFailed);
                }
                self.lost(at, cause, marker)
            }
        }
    }

    /// Handles a heartbeat of ours that was never answered but stands in the role's key.
    pub fn landed(self, at: &mut Scene, attempt: Attempt, revision: u64) -> Self {
        let held = self
            .held()
            .is_some_and(|held| held.term == attempt.term && held.revision < revision);
        if held && attempt.request == BucketRequest::Heartbeat {
            at.wire.attempts.settle(attempt.beat, revision);
            return self.confirmed(at, attempt, revision);
        }
        self
    }

    /// Notes since when the connection is lost or a heartbeat is late.
    pub fn suspend(&self, at: &mut Scene, since: Moment) {
        if at.suspended_since.is_none_or(|known| since < known) {
            at.suspended_since = Some(since);
            if let Self::Leading(leadership) = self {
                leadership.tell_grace(at);
            }
        }
    }

    /// Tells the callers that wait for the proof of this beat, or of an earlier one, that there is
    /// none for now.
    pub fn refuse_proofs(&mut self, at: &mut Scene, beat: u64, failure: &Failure) {
        if let Self::Leading(leadership) = self {
            leadership.answer_proofs(at, beat, &Reply::Unproven(failure.clone()));
        }
    }

    /// Whether the deadline has passed or this instance has resigned. A confirmation then extends
    /// nothing.
    fn is_deadline_over(&self, at: &Scene) -> bool {
        self.acting_until(at).is_none_or(|until| at.now >= until)
    }

    /// Whether a heartbeat that is confirmed now is too late. After a term that ended in order it is
    /// not, although nothing rests on it any more.
    fn is_answer_late(&self, at: &Scene) -> bool {
        match self {
            Self::Leading(_) => self.is_deadline_over(at),
            phase => phase.held().is_none_or(|held| at.now >= held.until),
        }
    }
}

impl Scene {
    pub fn renew(&mut self, held: &Held, heirs: Heirs) {
        let record = self.record(held.secrets, heirs);
        let over = held.revision;
        let kind = WriteKind::Renew { over, record };
        self.send(held.term, held.secrets, 0, kind);
    }

    /// The attempt with this beat and its revision, if it was the message last seen.
    fn shown(&self, beat: u64) -> Option<(Attempt, u64)> {
        let own = Some(self.wire.attempts.nonce(beat));
        let seen = self.observed_role.seen()?;
        let attempt = self.wire.attempts.find(own)?;
        (seen.content.nonce() == own).then_some((attempt, seen.revision))
    }

    /// When the lease needs a heartbeat, or a read that ends the doubt about the last one.
    pub fn keeping_due(&self, held: &Held) -> (Moment, Timer) {
        let retry = &self.wire.retry;
        if held.is_in_doubt() {
            return (retry.at(BucketRequest::Read), Timer::Read);
        }
        let renew_at = held.renew_at.max(retry.at(BucketRequest::Heartbeat));
        (renew_at, Timer::Renew)
    }
}

/// A message under the role's key, as far as a lease goes by it.
fn stored(entry: &Entry) -> Stored {
    Stored {
        revision: entry.revision,
        nonce: entry.content.nonce(),
        kind: match &entry.content {
            Content::Record(_) | Content::Opaque => Kind::Record,
            Content::Release(_) => Kind::Release,
            Content::ForeignMarker => Kind::ForeignMarker,
        },
    }
}
