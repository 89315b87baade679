//! Keeping the held lease: heartbeats, and what follows from one that is not simply confirmed.

use super::answers::Stake;
use super::effect::{Effect, Reply, WriteKind};
use super::input::Snapshot;
use super::machine::Election;
use super::phase::Phase;
use super::timers::Timer;
use crate::event::{BucketRequest, EndCause, Event, FailureKind, Outcome};
use crate::lease::{Asked, Attempt, Failure, Found, Held, Kind, Purpose, Stored, WriteOutcome};
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::record::{Content, Entry};

impl Election {
    pub(super) fn renew(&mut self) {
        let Some(held) = self.phase.held().copied() else {
            return;
        };
        self.renew_line();
        let (over, heirs) = (held.revision, self.phase.heirs());
        self.send(
            Purpose::Renew,
            held.term,
            held.secrets,
            over,
            0,
            |at, nonce| {
                let record = at.record(held.secrets, nonce, heirs);
                WriteKind::Renew { over, record }
            },
        );
    }

    /// Handles the answer to a heartbeat.
    pub(super) fn heartbeat_ended(&mut self, write: Attempt, outcome: &WriteOutcome) {
        let Attempt { beat, over, .. } = write;
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
        if self.phase.kept().is_some_and(|held| held.refused(over)) {
            self.suspend(self.now);
        }
    }

    fn heartbeat_failed(&mut self, beat: u64, failure: &Failure) {
        // If it is stored all the same, the next one is refused and finds that out.
        if failure.kind == FailureKind::Contended {
            if let Some(held) = self.phase.kept() {
                held.renew_at = self.now;
            }
            if self.request_failed(BucketRequest::Heartbeat, failure, Stake::Lease) {
                self.refuse_proofs(beat, failure);
            }
            self.suspend(self.now);
            return;
        }
        if let Some(held) = self.phase.kept() {
            held.unanswered();
        }
        // The watch may have shown it meanwhile.
        if let Some((attempt, revision)) = self.shown(beat) {
            self.landed(attempt, revision);
            return;
        }
        self.request_failed(BucketRequest::Heartbeat, failure, Stake::Lease);
        self.suspend(self.now);
        self.refuse_proofs(beat, failure);
        if failure.ends_term() || mutated!(EndAtAnyRefusal) && !failure.is_transient() {
            self.wind_down(EndCause::BucketLost);
        }
    }

    /// Handles a write of this term that is known to be stored, by its answer or by a read. The
    /// lease counts from its sending. If the old deadline has passed, it extends nothing, and only
    /// its revision is learnt.
    fn confirmed(&mut self, attempt: Attempt, revision: u64) {
        let record = self.own_content(attempt.beat);
        self.observed_role.wrote(revision, record, self.now);
        self.wire.operations.forget_heartbeats(revision);
        let late = self.is_deadline_over() && !mutated!(ExtendOnLateAck);
        let until = self.lease_until(attempt.sent);
        let next = attempt.sent + self.settings.heartbeat;
        let linked = self.wire.is_up();
        if let Phase::Releasing(releasing) = &mut self.phase {
            releasing.freeing.held.stored(revision);
        }
        let Some(held) = self.phase.kept() else {
            return;
        };
        if late {
            held.stored(revision);
            let expired = self.now >= held.until;
            self.wind_down(if expired {
                EndCause::LeaseExpired
            } else {
                EndCause::ConnectionLost
            });
            return;
        }
        held.extend(revision, attempt.sent, until, next);
        let held = *held;
        if linked {
            self.suspended_since = None;
        }
        let acting = match &self.phase {
            Phase::Leading(leadership) => Some(leadership.acting_until(self)),
            _ => None,
        };
        self.emit_before_events(Effect::Extend {
            term: held.term,
            lease: held.until,
            acting,
            proved: held.sent,
        });
        if let Phase::Leading(leadership) = &mut self.phase {
            let fencing_token = leadership.fencing_token;
            for request in leadership.asked_before(attempt.beat) {
                self.reply(request, Reply::Proved(fencing_token));
            }
        }
    }

    /// Handles a read of the keys, mostly because of a doubtful heartbeat.
    pub(super) fn keeping_has_read(&mut self, snapshot: &Snapshot) {
        mutated!(ReadIsProof => if self.shows_held(snapshot) { return self.extend_unproved(); });
        let Some(held) = self.phase.kept() else {
            return;
        };
        let stored = snapshot.role.as_ref().map(stored);
        match held.has_read(stored, &self.wire.attempts, self.now) {
            Found::Undecided => {}
            Found::Landed(attempt, revision) => self.landed(attempt, revision),
            Found::Lost(cause, marker) => {
                if cause == EndCause::Superseded {
                    self.tell(Event::ValidationFailed);
                }
                self.lost(cause, marker);
            }
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

    /// Asks for proof at once, because the watch showed a message at this revision that is not
    /// ours.
    pub(super) fn suspect(&mut self, revision: u64) {
        if let Some(held) = self.phase.kept() {
            held.suspect(revision, self.now);
        }
    }

    /// When the lease needs a heartbeat, or a read that ends the doubt about the last one.
    pub(super) fn keeping_due(&self, held: &Held) -> (Moment, Timer) {
        let retry = &self.wire.retry;
        if held.is_in_doubt() {
            (retry.at(Asked::ReadKeys), Timer::Read)
        } else {
            (held.renew_at.max(retry.at(Asked::WriteKey)), Timer::Renew)
        }
    }

    /// Whether the deadline has passed or this instance has resigned. A confirmation then extends
    /// nothing.
    fn is_deadline_over(&self) -> bool {
        self.phase
            .acting_until(self)
            .is_none_or(|until| self.now >= until)
    }

    /// Whether a heartbeat that is confirmed now is too late. After a term that ended in order it is
    /// not, although nothing rests on it any more.
    fn is_answer_late(&self) -> bool {
        match &self.phase {
            Phase::Leading(_) => self.is_deadline_over(),
            phase => phase.held().is_none_or(|held| self.now >= held.until),
        }
    }
}

/// A message under the role's key, as far as a lease goes by it.
pub(super) fn stored(entry: &Entry) -> Stored {
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
