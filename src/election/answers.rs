//! Where the answers to requests go.

use super::core::{Doing, Election, Phase};
use super::effect::Effect;
use super::input::{Failure, Link, OpId, Snapshot, WriteOutcome};
use super::ledger::Purpose;
use super::mutation::mutated;
use super::view::Reading;
use crate::clock::Moment;
use crate::model::event::EndCause;
use crate::model::record::{Content, Nonce, SeenRecord};

impl Election {
    pub(super) fn write_ended(&mut self, op: OpId, outcome: &WriteOutcome) {
        let Some(what) = self.finish(op) else { return };
        let Doing::Write { purpose, beat, .. } = what else {
            return;
        };
        match outcome {
            WriteOutcome::Acked { revision } => {
                self.ledger.settle(beat, *revision);
                self.request_answered();
            }
            WriteOutcome::Conflict { current } => {
                self.ledger.refuse(beat);
                self.request_answered();
                // A fence's refusal may speak of the fence key.
                if let Some(current) = current.filter(|_| purpose != Purpose::Fence)
                    && let Some((was, is)) = self.view.refused_at(current, self.now)
                {
                    self.regressed(was, is);
                }
            }
            WriteOutcome::Unsupported => self.ledger.refuse(beat),
            WriteOutcome::Failed(_) => {}
        }
        match purpose {
            Purpose::Claim | Purpose::BareClaim { .. } | Purpose::ForcedClaim { .. } => {
                self.claim_ended(what, outcome);
            }
            Purpose::Fence => self.fence_ended(what, outcome),
            Purpose::Renew => self.renewal_ended(what, outcome),
            Purpose::Release => self.release_ended(beat, outcome),
        }
    }

    pub(super) fn read_ended(&mut self, op: OpId, outcome: Result<Snapshot, Failure>) {
        let Some(Doing::Read { sent }) = self.finish(op) else {
            return;
        };
        match outcome {
            Ok(snapshot) => self.has_read(&snapshot, sent),
            Err(failure) => {
                self.request_failed(&failure);
                match &self.phase {
                    Phase::Standing(_) if self.stopping.is_some() => self.leave(),
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
            self.emit(Effect::Reopen);
            self.lost(EndCause::BucketLost, None);
            return;
        }
        let reading = self.view.read(snapshot, sent, self.now);
        if let Reading::Regressed { was, is } = reading {
            self.regressed(was, is);
        }
        match &self.phase {
            Phase::Standing(_) => {
                self.standing_has_read(reading != Reading::Same);
                self.adopt_claim(snapshot);
            }
            Phase::Acquiring(_) => self.acquiring_has_read(snapshot),
            Phase::Leading(_) => self.leader_has_read(snapshot),
            Phase::Draining(_) => self.drain_has_read(snapshot),
            Phase::Stopped => {}
        }
    }

    /// A claim of ours that was never answered stands in the bucket: it is won, and its lease counts from its sending.
    fn adopt_claim(&mut self, snapshot: &Snapshot) {
        let Some(entry) = &snapshot.role else { return };
        let claim = self
            .ledger
            .find(entry.content.nonce())
            .filter(|attempt| attempt.purpose.is_claim() && attempt.settled.is_none());
        let Some(claim) = claim else { return };
        self.ledger.settle(claim.beat, entry.revision);
        let Phase::Standing(standing) = &self.phase else {
            return;
        };
        let fence = snapshot.fence.map_or(0, |fence| fence.revision);
        if claim.purpose.bare().is_some_and(|before| before != fence) {
            self.view.overtaken(self.now);
            return;
        }
        if standing.cooling_until().is_some() {
            return;
        }
        if self.now < self.lease_until(claim.sent) - self.settings.stop_budget {
            self.claimed(claim, entry.revision, true);
        }
    }

    pub(super) fn own_nonce(&self, beat: u64) -> Nonce {
        Nonce {
            incarnation: self.candidate.incarnation,
            beat,
        }
    }

    /// Our record, as others see it.
    pub(super) fn own_content(&self, beat: u64) -> Content {
        Content::Record(Box::new(SeenRecord {
            id: self.candidate.instance_id.clone(),
            priority: self.settings.priority,
            meta: self.settings.meta.clone(),
            ttl: Some(self.settings.ttl),
            incarnation: Some(self.candidate.incarnation),
            beat: Some(beat),
            proof: None,
        }))
    }
}
