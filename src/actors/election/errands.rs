//! What an election asks of others: NATS, its handler, other instances. Each errand is a task of its own; its answer comes
//! back as a message, and nothing waits for it.

use std::time::Duration;

use ractor::ActorRef;
use tracing::{Instrument, Span};

use super::ElectionState;
use crate::actors::messages::ElectionMsg;
use crate::actors::vouching::Unsigned;
use crate::election::{
    Failure, FenceCondition, LetterId, OpId, QuestionId, TermId, Write, WriteKind, WriteOutcome,
};
use crate::model::letter::{Answer, Question, Refusal};
use crate::model::record::Record;
use crate::role::RunningTerm;
use crate::store::{FenceOn, StoreError};

impl ElectionState {
    pub(super) fn write(&mut self, myself: &ActorRef<ElectionMsg>, write: Write) {
        let span = self.spans.write(&self.scope, &write);
        let Write {
            op, nonce, kind, ..
        } = write;
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        self.writing = Some(op);
        let (role, timeout) = (self.scope.role.clone(), self.scope.settings.request_timeout);
        let myself = myself.clone();
        let signing = match &kind {
            WriteKind::Renew { record, .. } => self.signing(record),
            _ => None,
        };
        let writing = async move {
            let signed = signing.map(|(term, sign)| (term, sign()));
            let outcome = match kind {
                WriteKind::Claim { over, record } => {
                    bucket.claim(&role, over, &record, timeout).await
                }
                WriteKind::Fence { condition, fence } => {
                    bucket
                        .fence(&role, fence_on(condition), &fence, timeout)
                        .await
                }
                WriteKind::Renew { over, mut record } => {
                    record.proof = signed.as_ref().map(|(_, proof)| proof.clone());
                    bucket.renew(&role, over, &record, timeout).await
                }
                WriteKind::Release { over, heir } => {
                    bucket.release(&role, over, &nonce, heir, timeout).await
                }
            };
            if let (Some((term, proof)), Ok(_)) = (signed, &outcome) {
                term.set_proof(proof);
            }
            let outcome = outcome_of(outcome);
            if let WriteOutcome::Acked { revision } = outcome {
                Span::current().record("revision", revision);
            }
            let _ = myself.send_message(ElectionMsg::WriteEnded { op, outcome });
        };
        tokio::spawn(writing.instrument(span));
    }

    /// What a heartbeat of the term in office signs; nothing once it is being wound down.
    fn signing(&self, record: &Record) -> Option<(RunningTerm, Unsigned)> {
        let running = self.running.as_ref()?;
        let fencing_token = running.in_office()?;
        let settings = &self.scope.settings;
        let lease_end = self.stepped + settings.ttl - settings.drift_margin();
        let unsigned = self.vouching.statement(record, fencing_token, lease_end)?;
        Some((running.clone(), unsigned))
    }

    pub(super) fn read(&mut self, myself: &ActorRef<ElectionMsg>, op: OpId, check_bucket: bool) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        self.reading = Some(op);
        let (role, timeout) = (self.scope.role.clone(), self.scope.settings.request_timeout);
        let myself = myself.clone();
        tokio::spawn(async move {
            let outcome = bucket.snapshot(&role, check_bucket, timeout).await;
            let outcome = outcome.map_err(|error| failure_of(&error));
            let _ = myself.send_message(ElectionMsg::ReadEnded { op, outcome });
        });
    }

    pub(super) fn check_health(&self, myself: &ActorRef<ElectionMsg>, term: TermId) {
        let asked = self.scope.is_well();
        let myself = myself.clone();
        tokio::spawn(async move {
            let healthy = asked.await;
            let _ = myself.send_message(ElectionMsg::HealthChecked { term, healthy });
        });
    }

    /// Asks other instances. Who wants to lead in another's place must be well.
    pub(super) fn inquire(
        &self,
        myself: &ActorRef<ElectionMsg>,
        id: QuestionId,
        question: Question,
        within: Duration,
    ) {
        let bucket = self.bucket.clone();
        let role = self.scope.role.clone();
        let well = matches!(question, Question::Yield { .. }).then(|| self.scope.is_well());
        let myself = myself.clone();
        tokio::spawn(async move {
            let tell = |answer| {
                let _ = myself.send_message(ElectionMsg::Answered {
                    question: id,
                    answer,
                });
            };
            if let Some(well) = well
                && !well.await
            {
                let why = Refusal::Unhealthy;
                tell(Some(Answer::Refused { why }));
            } else if let Some(bucket) = bucket {
                bucket
                    .inquire(&role, &question, within, |answer| tell(Some(answer)))
                    .await;
            }
            tell(None);
        });
    }

    /// Answers another instance. Who says that it could lead must be well.
    pub(super) fn answer(&mut self, letter: LetterId, answer: Answer) {
        let Some((_, reply)) = self.letter.take_if(|(last, _)| *last == letter) else {
            return;
        };
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let well = matches!(answer, Answer::Ready { .. }).then(|| self.scope.is_well_for_others());
        tokio::spawn(async move {
            let ill = match well {
                Some(well) => !well.await,
                None => false,
            };
            let answer = if ill {
                let why = Refusal::Unhealthy;
                Answer::Refused { why }
            } else {
                answer
            };
            bucket.answer(reply, &answer).await;
        });
    }
}

const fn fence_on(condition: FenceCondition) -> FenceOn {
    match condition {
        FenceCondition::RoleKeyAt(revision) => FenceOn::RoleKeyAt(revision),
        FenceCondition::FenceKeyAt(revision) => FenceOn::FenceKeyAt(revision),
    }
}

fn failure_of(error: &StoreError) -> Failure {
    Failure {
        kind: error.kind(),
        detail: error.to_string(),
    }
}

fn outcome_of(result: Result<u64, StoreError>) -> WriteOutcome {
    match result {
        Ok(revision) => WriteOutcome::Acked { revision },
        Err(StoreError::Conflict { current }) => WriteOutcome::Conflict { current },
        Err(StoreError::Unsupported(_)) => WriteOutcome::Unsupported,
        Err(error) => WriteOutcome::Failed(failure_of(&error)),
    }
}
