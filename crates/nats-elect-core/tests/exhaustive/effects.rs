//! What the driver of an election does with its effects.

use nats_elect_core::event::{EndCause, Event, Outcome};
use nats_elect_core::handoff::Handoff;
use nats_elect_core::{Effect, Input, Moment, Reply, TermId, TermStart};

use crate::instance::{Asks, Doubted, Term};
use crate::properties::{Broken, Misconduct, Witness};
use crate::turn::Turn;

impl Turn<'_> {
    /// Carries out an effect. Returns what the driver has to say to it at once.
    pub fn carry_out(&mut self, index: usize, effect: Effect, read: bool) -> Option<Input> {
        match effect {
            Effect::Write(write) => {
                self.may_write(index, &write);
                self.send(index, write.op, Asks::Write(write));
            }
            Effect::Read { op, .. } => self.send(index, op, Asks::Read),
            Effect::StartTerm(start) => self.start_term(index, &start),
            Effect::Extend {
                term,
                lease,
                acting,
                ..
            } => return self.extend(index, term, lease, acting, read),
            Effect::Suspend { acting, .. } => {
                let term = self.term(index);
                term.acting = term.acting.map(|was| was.min(acting));
            }
            Effect::Resign { .. } => self.term(index).acting = None,
            Effect::Revoke { .. } => {
                let term = self.term(index);
                term.over = true;
                term.revoked_for = Some(0);
            }
            Effect::Cancel { .. } => {
                let term = self.term(index);
                term.cancelled = true;
                if term.acting.is_some() {
                    self.misbehaved(Misconduct::CancelledBeforeItResigned);
                }
            }
            Effect::Abort { .. } => self.term(index).aborted = true,
            Effect::AskPeers { id, question, .. } => return self.ask(index, id, question),
            Effect::AnswerPeer { answer, .. } => self.answer_peer(answer),
            Effect::Reply {
                reply:
                    Reply::SteppedDown {
                        handoff: Some(Handoff::Accepted),
                        ..
                    },
                ..
            } => self.witness(Witness::HandedOver),
            Effect::CheckHealth { .. } | Effect::Reopen | Effect::Reply { .. } => {}
            Effect::Event(event) => self.hear(index, &event),
        }
        None
    }

    fn extend(
        &mut self,
        index: usize,
        id: TermId,
        lease: Moment,
        acting: Option<Moment>,
        read: bool,
    ) -> Option<Input> {
        let adopted = read && self.process(index).doubted == Some(Doubted::Renewal);
        let term = self.term(index);
        if term.revoked_for.is_some() {
            self.misbehaved(Misconduct::ExtendedARevokedLease);
            return None;
        }
        if lease < term.lease {
            self.misbehaved(Misconduct::ShortenedALease);
            return None;
        }
        if term.over {
            return Some(Input::LeaseOver { term: id });
        }
        term.lease = lease;
        let resigned = term.acting.is_none();
        if resigned && acting.is_some() {
            self.misbehaved(Misconduct::ResumedAfterItResigned);
        } else {
            self.term(index).acting = acting;
        }
        if adopted {
            self.witness(Witness::RenewalAdopted);
        }
        None
    }

    fn hear(&mut self, index: usize, event: &Event) {
        match event {
            Event::TermEnding {
                cause: EndCause::ConnectionLost,
                ..
            } => {
                self.witness(Witness::GraceOver);
                let grace = self.configuration.settings.grace.unwrap_or_default();
                let process = self.process(index);
                let proved = process.election.status().last_heartbeat;
                if proved.is_none_or(|proved| proved + grace > process.clock) {
                    self.misbehaved(Misconduct::EndedForAnOutageThatIsOver);
                }
            }
            Event::HandlerOverrun { .. } => {
                self.term(index).overrun = true;
                self.witness(Witness::Overrun);
            }
            Event::ClaimEnded {
                outcome: Outcome::Conflict,
            } => self.witness(Witness::ClaimRefused),
            Event::HeartbeatEnded {
                outcome: Outcome::Conflict,
                ..
            } => self.witness(Witness::RenewalRefused),
            _ => {}
        }
    }

    fn start_term(&mut self, index: usize, start: &TermStart) {
        let stop_budget = self.configuration.settings.stop_budget;
        let last = self.state.last_token;
        if last.is_some_and(|last| last >= start.fencing_token) {
            self.broke(Broken::TokenOrder);
        }
        self.state.last_token = last.max(Some(start.fencing_token));
        self.witness(Witness::Promoted);
        if last.is_some() {
            self.witness(Witness::PromotedAgain);
        }
        match self.process(index).doubted {
            Some(Doubted::Claim) => self.witness(Witness::ClaimAdopted),
            Some(Doubted::Fence) => self.witness(Witness::FenceAdopted),
            _ => {}
        }
        let process = self.process(index);
        let too_late = process.clock >= start.lease - stop_budget;
        let running = process.term.as_ref().is_some_and(|term| term.running);
        process.term = Some(Term {
            id: start.term,
            lease: start.lease,
            acting: Some(start.lease),
            over: false,
            running: true,
            cancelled: false,
            aborted: false,
            overrun: false,
            deaf: false,
            blocked: false,
            cancelled_for: 0,
            revoked_for: None,
        });
        if self.process(index).is_aside() {
            self.misbehaved(Misconduct::StoodWhilePaused);
        }
        if too_late {
            self.misbehaved(Misconduct::PromotedTooLate);
        }
        if running {
            self.misbehaved(Misconduct::StartedASecondHandler);
        }
    }
}
