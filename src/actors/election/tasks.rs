//! An election's requests to NATS, to its handler and to other instances. Each request is a task of
//! its own. Its answer comes back as a message, and nothing waits for it.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tracing::{Instrument, Span};

use super::ElectionState;
use crate::actors::messages::ElectionMsg;
use crate::actors::outcomes::{failure_of, outcome_of};
use crate::actors::signatures::Unsigned;
use crate::clock;
use crate::role::{Health, RunningTerm};
use crate::store::Bucket;
use nats_elect_core::heirs::Heirs;
use nats_elect_core::name::RoleName;
use nats_elect_core::peer::{PeerReply, PeerRequest, Refusal};
use nats_elect_core::record::Record;
use nats_elect_core::{
    Input, OpId, PeerRequestId, ReplyId, TermId, Write, WriteKind, WriteOutcome,
};

/// The pause before an instance that has not seen the term yet is asked again. That instance is
/// reading the keys meanwhile.
const BEHIND: Duration = Duration::from_millis(20);

impl ElectionState {
    /// The bucket on the current connection, or on the last one.
    fn bucket(&self) -> Option<Bucket> {
        self.scope.bucket.borrow().clone()
    }

    pub(super) fn write(&mut self, myself: &ActorRef<ElectionMsg>, write: Write) {
        let span = self.spans.write(&self.scope, &write);
        let (op, within, mut kind) = (write.op, write.within, write.kind);
        let Some(bucket) = self.bucket() else {
            return;
        };
        let role = self.scope.role.clone();
        let patience = self.scope.settings.ttl;
        let subject = match &kind {
            WriteKind::Fence { .. } => bucket.fence_subject(&role),
            _ => bucket.subject(&role),
        };
        let application = &self.scope.instance.application;
        if let WriteKind::Claim { record, .. } | WriteKind::Renew { record, .. } = &mut kind {
            record.application = Some(Arc::clone(application));
        }
        let signing = match &kind {
            WriteKind::Renew { record, .. } => self.signing(record),
            _ => None,
        };
        let writing = async move {
            let signed = signing.map(|(term, sign)| (term, sign()));
            let outcome = match kind {
                WriteKind::Claim { over, record } => {
                    bucket.put_record(&role, over, &record, patience).await
                }
                WriteKind::Fence { over, fence } => {
                    bucket.fence(&role, over, &fence, patience).await
                }
                WriteKind::Renew { over, mut record } => {
                    record.proof = signed.as_ref().map(|(_, proof)| proof.clone());
                    bucket.put_record(&role, over, &record, patience).await
                }
                WriteKind::Release { over, release } => {
                    bucket.release(&role, over, &release, patience).await
                }
            };
            if let (Some((term, proof)), Ok(_)) = (signed, &outcome) {
                term.set_proof(proof);
            }
            let outcome = outcome_of(outcome);
            if let WriteOutcome::Acked { revision } = outcome {
                Span::current().record("revision", revision);
            }
            outcome
        };
        let myself = myself.clone();
        let writing = writing.instrument(span);
        self.asked.ask(
            std::future::ready(()),
            within,
            subject,
            writing,
            WriteOutcome::Failed,
            move |outcome| {
                let _ = myself.send_message(ElectionMsg::Input(Input::WriteEnded { op, outcome }));
            },
        );
    }

    /// Returns the statement that a heartbeat of the current term signs, or nothing once the term
    /// is being wound down.
    fn signing(&self, record: &Record) -> Option<(RunningTerm, Unsigned)> {
        let running = self.scope.running()?;
        let fencing_token = running.in_office()?;
        let settings = &self.scope.settings;
        let lease_end = self.stepped + settings.ttl - settings.drift_margin();
        let unsigned = self
            .signatures
            .statement(record, fencing_token, lease_end)?;
        Some((running, unsigned))
    }

    pub(super) fn read(
        &mut self,
        myself: &ActorRef<ElectionMsg>,
        op: OpId,
        within: Duration,
        may_wait: bool,
    ) {
        let Some(bucket) = self.bucket() else {
            return;
        };
        let role = self.scope.role.clone();
        let patience = self.scope.settings.ttl;
        let subject = format!("$JS.API.STREAM.MSG.GET.KV_{}", bucket.name());
        let turns = bucket.clone();
        let turn = async move {
            if may_wait {
                turns.turn_to_read().await.ok()
            } else {
                None
            }
        };
        let reading = async move {
            let read = bucket.snapshot(&role, patience).await;
            read.map_err(|error| failure_of(&error))
        };
        let myself = myself.clone();
        self.asked
            .ask(turn, within, subject, reading, Err, move |outcome| {
                let _ = myself.send_message(ElectionMsg::Input(Input::ReadEnded { op, outcome }));
            });
    }

    pub(super) fn check_health(&self, myself: &ActorRef<ElectionMsg>, term: TermId) {
        let (myself, hears) = (myself.clone(), myself.clone());
        let unanswered = move || {
            let _ = hears.send_message(ElectionMsg::HealthUnanswered);
        };
        let asked = self.scope.is_leader_well(self.scope.running(), unanswered);
        tokio::spawn(async move {
            let healthy = asked.await;
            let _ = myself.send_message(ElectionMsg::Input(Input::Health { term, healthy }));
        });
    }

    /// Asks other instances. An instance that wants to lead in another's place must pass its health
    /// check.
    pub(super) fn inquire(
        &self,
        myself: &ActorRef<ElectionMsg>,
        id: PeerRequestId,
        question: PeerRequest,
        among: Heirs,
        within: Duration,
    ) {
        let role = self.scope.role.clone();
        let myself = myself.clone();
        let tell = move |answer| {
            let _ = myself.send_message(ElectionMsg::Input(Input::PeerReplied {
                question: id,
                answer,
            }));
        };
        let Some(bucket) = self.bucket() else {
            return tell(None);
        };
        if matches!(question, PeerRequest::Ready { to: None, .. }) {
            tokio::spawn(async move {
                let heard = tell.clone();
                let heard = move |answer| heard(Some(answer));
                bucket.inquire(&role, &question, among, within, heard).await;
                tell(None);
            });
            return;
        }
        let patience = self.scope.settings.request_timeout;
        let well = matches!(question, PeerRequest::Yield { .. }).then(|| self.scope.is_healthy());
        tokio::spawn(async move {
            if let Some(well) = well
                && well.await != Health::Well
            {
                let why = Refusal::Unhealthy;
                return tell(Some(PeerReply::Refused { why }));
            }
            tell(ask_one(&bucket, &role, &question, within, patience).await);
        });
    }

    /// Answers another instance. An instance that says that it could lead must pass its health
    /// check.
    pub(super) fn answer(&mut self, reply_to: ReplyId, answer: PeerReply, after: Duration) {
        let Some((_, reply)) = self.reply_to.take_if(|(last, _)| *last == reply_to) else {
            return;
        };
        let Some(bucket) = self.bucket() else {
            return;
        };
        let well =
            matches!(answer, PeerReply::Ready { .. }).then(|| self.scope.is_healthy_for_others());
        tokio::spawn(async move {
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            let ill = match well {
                Some(well) => well.await != Health::Well,
                None => false,
            };
            let answer = if ill {
                let why = Refusal::Unhealthy;
                PeerReply::Refused { why }
            } else {
                answer
            };
            bucket.reply(reply, answer.to_json()).await;
        });
    }
}

/// Asks one instance. A successor that has not seen the term yet is asked again for a while.
async fn ask_one(
    bucket: &Bucket,
    role: &RoleName,
    question: &PeerRequest,
    within: Duration,
    patience: Duration,
) -> Option<PeerReply> {
    let begun = clock::now();
    let mut behind = None;
    loop {
        let left = (begun + within).since(clock::now());
        match bucket.inquire_of_one(role, question, left).await {
            answer @ Some(PeerReply::Refused {
                why: Refusal::Behind,
            }) => behind = answer,
            // Those who were behind are there.
            answer => return answer.or(behind),
        }
        if clock::now() + BEHIND >= begun + patience {
            return behind;
        }
        tokio::time::sleep(BEHIND).await;
    }
}
