//! What an instance sends, and what becomes of it.

use nats_elect_core::event::FailureKind;
use nats_elect_core::{Failure, Input, OpId, Write, WriteKind, WriteOutcome};

use crate::fault::Fault;
use crate::instance::{Answer, Asks, Doubted, Progress, Request};
use crate::properties::{Misconduct, Witness};
use crate::turn::Turn;

impl Turn<'_> {
    /// What a write must fulfil before it is sent.
    pub fn may_write(&mut self, index: usize, write: &Write) {
        let process = self.process(index);
        let repeated = process
            .last_beat
            .is_some_and(|last| last >= write.nonce.beat);
        process.last_beat = Some(write.nonce.beat);
        process.doubted = match write.kind {
            WriteKind::Claim { .. } => None,
            _ => process.doubted.filter(|_| process.term.is_none()),
        };
        let (over, alone) = match write.kind {
            WriteKind::Renew { over, .. } => (Some(over), false),
            WriteKind::Claim { over, .. } | WriteKind::Release { over, .. } => (Some(over), true),
            WriteKind::Fence { .. } => (None, true),
        };
        let unseen = over.is_some_and(|over| !process.seen.contains(&over));
        let term = process.term.as_ref().filter(|_| alone);
        let stands = matches!(write.kind, WriteKind::Claim { .. }) && process.is_aside();
        let given_back = matches!(write.kind, WriteKind::Release { .. })
            && process.is_aside()
            && process.term.is_none();
        let running = term.is_some_and(|term| term.running);
        let valid = term.is_some_and(|term| term.is_valid(process.clock));
        for (is, misconduct) in [
            (repeated, Misconduct::UsedANonceTwice),
            (unseen, Misconduct::WroteOverWhatItWasNeverShown),
            (stands, Misconduct::StoodWhilePaused),
            (running, Misconduct::WroteWhileItsHandlerRan),
            (valid, Misconduct::WroteWhileItsLeaseWasValid),
        ] {
            if is {
                self.misbehaved(misconduct);
            }
        }
        if given_back {
            self.witness(Witness::GivenBack);
        }
    }

    pub fn send(&mut self, index: usize, op: OpId, asks: Asks) {
        let process = self.process(index);
        let linked = process.linked;
        let spared = process.request.take_if(|request| request.spared);
        let busy = process.request.is_some();
        process.request = Some(Request {
            op,
            asks,
            progress: Progress::Sent,
            age: 0,
            excused: false,
            spared: false,
        });
        self.abandon_request(spared);
        if busy {
            self.misbehaved(Misconduct::SentTwoRequestsAtOnce);
        }
        if !linked {
            self.misbehaved(Misconduct::SentWithoutALink);
        }
    }

    /// A write of its own stands there: a read under way need not tell, and a heartbeat over what
    /// came before can't be stored.
    pub fn spare_request(&mut self, index: usize, shown: u64) {
        if let Some(request) = &mut self.process(index).request {
            request.spared |= match &request.asks {
                Asks::Read => true,
                Asks::Write(write) => {
                    matches!(write.kind, WriteKind::Renew { over, .. } if over < shown)
                }
            };
        }
    }

    pub fn answer(&mut self, index: usize) {
        let Some(request) = self.process(index).request.take() else {
            return;
        };
        let Progress::Answered(answer) = request.progress else {
            return;
        };
        let op = request.op;
        self.input(
            index,
            match answer {
                Answer::Read(snapshot) => Input::ReadEnded {
                    op,
                    outcome: Ok(snapshot),
                },
                Answer::Write(outcome) => Input::WriteEnded { op, outcome },
            },
        );
    }

    pub fn give_up(&mut self, index: usize) {
        let Some(request) = self.process(index).request.take() else {
            return;
        };
        if !request.excused {
            match request.progress {
                Progress::Sent => self.spend(Fault::Late),
                Progress::Answered(_) => self.spend(Fault::Unanswered),
                Progress::Gone => {}
            }
        }
        self.disturbed();
        let failure = Failure {
            kind: FailureKind::Timeout,
            detail: String::new(),
        };
        let op = request.op;
        let input = match request.asks {
            Asks::Read => Input::ReadEnded {
                op,
                outcome: Err(failure),
            },
            Asks::Write(write) => {
                self.process(index).doubted = Some(match write.kind {
                    WriteKind::Claim { .. } => Doubted::Claim,
                    WriteKind::Fence { .. } => Doubted::Fence,
                    WriteKind::Renew { .. } => Doubted::Renewal,
                    WriteKind::Release { .. } => Doubted::Release,
                });
                if request.progress == Progress::Sent {
                    self.haunt(write);
                }
                let outcome = WriteOutcome::Failed(failure);
                Input::WriteEnded { op, outcome }
            }
        };
        self.input(index, input);
    }

    pub fn abandon_request(&mut self, request: Option<Request>) {
        if let Some(request) = request
            && request.progress == Progress::Sent
            && let Asks::Write(write) = request.asks
        {
            self.haunt(write);
        }
    }
}
