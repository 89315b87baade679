//! Answers to writes and reads, and messages of the watch.

use super::attempts::Purpose;
use super::input::{Failure, Link, OpId, Snapshot, WriteOutcome};
use super::machine::{Election, Operation, Phase};
use super::mutation::mutated;
use super::observed_role::Reading;
use crate::event::{EndCause, FailureKind};
use crate::moment::Moment;
use crate::record::{Content, Entry, Nonce, SeenRecord};

impl Election {
    pub(super) fn write_ended(&mut self, op: OpId, outcome: &WriteOutcome) {
        let timed_out = matches!(outcome, WriteOutcome::Failed(failure) if failure.kind == FailureKind::Timeout);
        let what = match self.finish(op, timed_out) {
            Some(what) => what,
            // After the timeout only a confirmation counts.
            None if matches!(outcome, WriteOutcome::Acked { .. }) => {
                let Some(what) = self.finish_late(op) else {
                    return;
                };
                self.forget_reads();
                what
            }
            None => return,
        };
        let Operation::Write {
            purpose,
            beat,
            term,
            ..
        } = what
        else {
            return;
        };
        match outcome {
            WriteOutcome::Acked { revision } => {
                self.attempts.settle(beat, *revision);
                self.request_answered();
            }
            WriteOutcome::Conflict { current } => {
                self.request_answered();
                // The refusal of a fence record tells the sequence of the fence key.
                if let Some(current) = current.filter(|_| purpose != Purpose::Fence)
                    && let Some((was, is)) = self.observed_role.refused_at(current, self.now)
                {
                    self.regressed(was, is);
                }
            }
            WriteOutcome::Failed(_) => {}
        }
        match purpose {
            Purpose::Claim | Purpose::ForcedClaim => self.claim_ended(what, outcome),
            Purpose::Fence => self.fence_ended(what, outcome),
            Purpose::Renew => self.renewal_ended(what, outcome),
            Purpose::Release => self.release_ended(term, beat, outcome),
        }
    }

    pub(super) fn read_ended(&mut self, op: OpId, outcome: Result<Snapshot, Failure>) {
        let timed_out = matches!(&outcome, Err(failure) if failure.kind == FailureKind::Timeout);
        let what = match self.finish(op, timed_out) {
            None if outcome.is_ok() => self.finish_late(op),
            what => what,
        };
        let Some(Operation::Read { sent }) = what else {
            return;
        };
        match outcome {
            Ok(snapshot) => self.has_read(&snapshot, sent),
            Err(failure) => {
                self.request_failed(&failure);
                match &self.phase {
                    Phase::Waiting(_) if self.stopping.is_some() => self.leave(),
                    Phase::Leading(_) | Phase::Draining(_) => self.keeper_could_not_read(),
                    _ => {}
                }
            }
        }
    }

    fn has_read(&mut self, snapshot: &Snapshot, sent: Moment) {
        self.request_answered();
        if let (Some(epoch), Some(bucket)) = (snapshot.epoch, self.bucket)
            && epoch != bucket.epoch
            && !mutated!(IgnoreEpoch)
        {
            self.link_changed(Link::Down);
            self.reopen();
            self.lost(EndCause::BucketLost, None);
            return;
        }
        let own = snapshot
            .role
            .as_ref()
            .is_some_and(|entry| self.is_own(entry));
        let reading = self.observed_role.read(snapshot, own, sent, self.now);
        if let Reading::Regressed { was, is } = reading {
            self.regressed(was, is);
        }
        match &self.phase {
            Phase::Waiting(_) => {
                self.waiting_has_read(reading != Reading::Same, sent);
                if let Some(entry) = &snapshot.role {
                    self.adopt_claim(entry, true);
                }
            }
            Phase::Acquiring(_) => self.acquiring_has_read(snapshot),
            Phase::Leading(_) => self.leader_has_read(snapshot),
            Phase::Draining(_) => self.drain_has_read(snapshot),
            Phase::Stopped => {}
        }
    }

    /// Handles a message that the watch showed under the role's key.
    pub(super) fn observed(&mut self, entry: Entry) {
        let revision = entry.revision;
        let own = self.is_own(&entry);
        let ours = self.attempts.find(entry.content.nonce());
        let shown = entry.clone();
        if !self.observed_role.watched(entry, own, self.now) {
            return;
        }
        self.record_changed();
        if self.observed_role.shows_less() {
            self.must_read(self.now, false);
        }
        match ours {
            None => {
                mutated!(ForgetHeartbeatsForAnyRecord => self.forget_heartbeats(revision));
                self.suspect(revision);
            }
            Some(attempt) if attempt.purpose == Purpose::Release => {
                self.saw_release(attempt, revision);
            }
            // The answer to this write will tell.
            Some(attempt) if attempt.settled.is_some() || self.awaits(attempt.beat) => {}
            Some(attempt) => {
                self.forget_reads();
                if attempt.purpose.is_claim() {
                    let unique = self.bucket.is_some_and(|bucket| bucket.unique_sequences);
                    let known = unique && self.observed_role.is_known_sequence(revision, self.now);
                    self.adopt_claim(&shown, known);
                } else {
                    self.landed(attempt, revision);
                }
            }
        }
    }

    fn is_own(&self, entry: &Entry) -> bool {
        let record = matches!(entry.content, Content::Record(_));
        record && self.attempts.wrote(entry.content.nonce(), entry.revision)
    }

    /// Adopts a claim of ours that was never answered but stands in the bucket. Its lease counts
    /// from its sending.
    fn adopt_claim(&mut self, entry: &Entry, bucket_known: bool) {
        let claim = self
            .attempts
            .find(entry.content.nonce())
            .filter(|attempt| attempt.purpose.is_claim() && attempt.settled.is_none());
        let Some(claim) = claim else { return };
        let Phase::Waiting(waiting) = &self.phase else {
            return;
        };
        let cooling = waiting.cooling_until().is_some();
        self.attempts.settle(claim.beat, entry.revision);
        if self.observed_role.fence_over() > claim.expected.fence {
            self.observed_role.overtaken(self.now);
            return;
        }
        if !cooling && self.now < self.lease_until(claim.sent) - self.settings.stop_budget {
            self.claimed(claim, entry.revision, bucket_known);
        }
    }

    pub(super) fn own_nonce(&self, beat: u64) -> Nonce {
        Nonce {
            incarnation: self.candidate.incarnation,
            beat,
        }
    }

    /// Our record, as other instances see it.
    pub(super) fn own_content(&self, beat: u64) -> Content {
        let attempt = self.attempts.find(Some(self.own_nonce(beat)));
        Content::Record(Box::new(SeenRecord {
            id: self.candidate.instance_id.clone(),
            priority: self.settings.priority,
            meta: self.settings.meta.clone(),
            ttl: Some(self.settings.ttl),
            incarnation: Some(self.candidate.incarnation),
            beat: Some(beat),
            release: attempt.map(|attempt| attempt.secrets.release.hash()),
            proof: None,
        }))
    }
}
