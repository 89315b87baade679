//! What other instances ask, and what is answered: whether this one could lead, and whether it gives
//! its role to one of higher priority.

use std::time::Duration;

use super::effect::Effect;
use super::input::ReplyId;
use super::phase::Phase;
use super::releasing::Replaced;
use super::scene::Scene;
use crate::event::{BucketRequest, EndCause};
use crate::mutation::mutated;
use crate::peer::{Contender, PeerReply, PeerRequest, Refusal};
use crate::record::Nonce;
use crate::release::ReleaseHash;

/// How long the order to lead holds against higher priorities, if it names no hold-off.
const ORDER_HOLDS: Duration = Duration::from_secs(3600);

/// The longest hold-off.
const LONGEST_ORDER: Duration = Duration::from_secs(86_400);

impl Phase {
    /// Handles a peer request.
    pub fn asked(mut self, at: &mut Scene, reply_to: ReplyId, question: PeerRequest) -> Self {
        let mut after = Duration::ZERO;
        let answer = match question {
            PeerRequest::Ready {
                to,
                release,
                hold_off_ms,
                urgent,
            } => {
                if to.is_none() && !urgent {
                    after = at.answer_wait();
                }
                let answer = self.readiness(at, to.as_deref(), release);
                if let Self::Waiting(it) = &mut self {
                    if to.is_some() && matches!(answer, Some(PeerReply::Ready { .. })) {
                        let hold_off = hold_off_ms.map_or(ORDER_HOLDS, Duration::from_millis);
                        it.expect_handoff(at, Some(hold_off.min(LONGEST_ORDER)));
                    } else if at.is_behind(release) {
                        it.look_for_term(at);
                    }
                }
                answer
            }
            PeerRequest::Yield { incarnation, .. } if incarnation != at.candidate.incarnation => {
                None
            }
            PeerRequest::Yield {
                incarnation,
                beat,
                by,
            } => Some(self.yield_to(at, Nonce { incarnation, beat }, by)),
        };
        if let Some(answer) = answer {
            at.emit(Effect::AnswerPeer {
                reply_to,
                answer,
                after,
            });
        }
        self
    }

    /// The reply to the question whether this instance could lead, if there is to be one.
    fn readiness(
        &self,
        at: &Scene,
        to: Option<&str>,
        release: Option<ReleaseHash>,
    ) -> Option<PeerReply> {
        let named = to.is_some_and(|to| to == at.candidate.instance_id);
        if to.is_some() && !named {
            return None;
        }
        let why = match self {
            // Another process of the same name may be meant.
            Phase::Leading(_) | Phase::Stopped => return None,
            Phase::Waiting(_) if at.stopping.is_some() => Refusal::Leaving,
            _ if at.paused => Refusal::Paused,
            Phase::Waiting(waiting) if waiting.cooling_until.is_some() => Refusal::CoolingDown,
            Phase::Waiting(_) if at.failing_until().is_some() => Refusal::Failing,
            Phase::Waiting(_) if !at.could_claim_soon() => Refusal::Disconnected,
            Phase::Waiting(_) if at.is_behind(release) => Refusal::Behind,
            Phase::Waiting(_) => {
                let contender = at.contender();
                return Some(PeerReply::Ready { contender });
            }
            Phase::Acquiring(_) | Phase::WindingDown(_) | Phase::Releasing(_) => Refusal::Busy,
        };
        named.then_some(PeerReply::Refused { why })
    }

    /// The reply to a candidate that wants the role from the writer of this record. A late request,
    /// about an earlier term, is refused.
    fn yield_to(&mut self, at: &mut Scene, record: Nonce, by: Contender) -> PeerReply {
        let refused = |why| PeerReply::Refused { why };
        let attempt = at.wire.attempts.find(Some(record));
        let current = attempt.is_some_and(|attempt| self.is_of(attempt.term));
        if !current && !mutated!(YieldToOldRequests) {
            return refused(Refusal::NotLeader);
        }
        if by.priority <= at.settings.priority {
            return refused(Refusal::PriorityNotHigher);
        }
        if at.keeps_failing(&by.id) {
            return refused(Refusal::Failing);
        }
        if self.kept_until(at).is_some() {
            return refused(Refusal::Ordered);
        }
        *self = std::mem::replace(self, Self::Stopped).wind_down(at, EndCause::Preempted);
        let (replaced, cause) = match self {
            Self::WindingDown(it) => (it.replaced, Some(it.term.cause)),
            Self::Releasing(it) => (it.replaced(), it.cause()),
            _ => return refused(Refusal::NotLeader),
        };
        let frees = replaced == Some(Replaced::OwnRecord);
        match self.succession() {
            Some(succession) if frees && succession.may_name_heir(cause) => {
                let better = |heir: &Contender| heir.priority >= by.priority && *heir != by;
                if succession.heir.as_ref().is_some_and(better) {
                    return refused(Refusal::PriorityNotHigher);
                }
                succession.heir = Some(by);
                PeerReply::Yielding
            }
            _ => refused(Refusal::Busy),
        }
    }
}

impl Scene {
    /// How long the answer to a question to all candidates waits, unless the asker's term is ending.
    /// Behind a full line there may be hundreds of them: the heirs answer at once, and the others
    /// each at random.
    fn answer_wait(&self) -> Duration {
        let line = self.observed_role.last_line;
        if line.is_full() && !line.has(self.candidate.incarnation) {
            (self.settings.heartbeat / 4).mul_f64(self.fresh.chance)
        } else {
            Duration::ZERO
        }
    }

    /// Whether the release of that term would not free the role at once, by all that was seen.
    fn is_behind(&self, release: Option<ReleaseHash>) -> bool {
        let Some(release) = release else { return false };
        let free_at = self.observed_role.free_if_released(release);
        free_at.is_none_or(|free_at| self.now < free_at)
    }

    /// Whether a role that is handed over now could be claimed before the others may claim it.
    fn could_claim_soon(&self) -> bool {
        // The watch may show the leader before the first read is answered.
        let read = self.observed_role.was_read || self.wire.operations.is_reading();
        let linked = self.wire.is_up() && read;
        let held_up_until = (self.observed_role.quarantined_until)
            .max(self.wire.retry.at(BucketRequest::Read))
            .max(self.wire.retry.at(BucketRequest::Claim));
        linked && held_up_until <= self.now + self.settings.request_timeout
    }

    pub fn contender(&self) -> Contender {
        Contender {
            id: self.candidate.instance_id.clone(),
            incarnation: self.candidate.incarnation,
            priority: self.settings.priority,
        }
    }
}
