//! Carries out effects as the actors do.

use std::collections::VecDeque;
use std::time::Duration;

use super::network::{Fate, Kind};
use super::node::SharedTerm;
use super::world::{Answer, Happening, Request, World};
use nats_elect::internals::{
    Effect, Failure, HandlerEnd, Input, OpId, TermStart, Write, WriteKind, WriteOutcome,
};
use nats_elect::{Event, FailureKind};

impl World {
    /// Feeds one input, and what its effects bring at once.
    pub fn input(&mut self, node: usize, input: Input) {
        if self.nodes[node].election.is_none() {
            return;
        }
        if self.nodes[node].paused {
            if !matches!(input, Input::Tick) {
                self.nodes[node].backlog.push(input);
            }
            return;
        }
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            self.see_passed_deadlines(node);
            self.note(node, "takes", &input);
            self.learns(node, &input);
            let fresh = self.chance.fresh();
            let now = self.nodes[node].clock.at(self.now);
            let Some(election) = &mut self.nodes[node].election else {
                return;
            };
            let effects = election.step(now, fresh, input);
            let due = election.next_wakeup();
            self.stepped(node, now, due);
            for effect in effects {
                self.note(node, "wants", &effect);
                inputs.extend(self.carry_out(node, effect));
            }
            self.nodes[node].wake += 1;
            if let Some(due) = due {
                let wake = self.nodes[node].wake;
                let at = self.nodes[node].clock.when(due);
                self.schedule(at, Happening::Wake { node, wake });
            }
        }
    }

    /// Applications that look at a deadline after it has passed have seen it over for good.
    fn see_passed_deadlines(&mut self, node: usize) {
        if !self.readers {
            return;
        }
        let now = self.nodes[node].clock.at(self.now);
        for term in self.nodes[node].terms.values_mut() {
            term.over |= now >= term.lease;
            term.acting_over |= term.acting.is_some_and(|acting| now >= acting);
        }
    }

    /// Returns what the driver has to say to an effect at once.
    fn carry_out(&mut self, node: usize, effect: Effect) -> Option<Input> {
        match effect {
            Effect::Write(write) => self.send_write(node, write),
            Effect::Read { op, check_bucket } => {
                self.send(node, op, Kind::Read, Request::Read { check_bucket });
            }
            Effect::StartTerm(start) => self.start_term(node, &start),
            Effect::Extend {
                term,
                lease,
                acting,
                ..
            } => {
                let shared = self.shared(node, term);
                assert!(
                    shared.revoked.is_none(),
                    "a revoked lease is never extended"
                );
                assert!(
                    lease >= shared.lease,
                    "a lease is never shortened by a heartbeat"
                );
                if shared.over || (acting.is_some() && shared.acting_over) {
                    return Some(Input::LeaseOver { term });
                }
                shared.lease = lease;
                if shared.acting.is_some() {
                    shared.acting = acting;
                }
                assert!(
                    acting.is_none() || shared.acting.is_some(),
                    "resigned for good"
                );
            }
            Effect::Suspend { term, acting } => {
                let shared = self.shared(node, term);
                shared.acting = shared.acting.map(|was| was.min(acting));
            }
            Effect::Resign { term } => self.shared(node, term).acting = None,
            Effect::Revoke { term } => {
                let now = self.now;
                let shared = self.shared(node, term);
                shared.over = true;
                shared.revoked = Some(now);
            }
            Effect::Cancel { term } => {
                let shared = self.shared(node, term);
                assert!(shared.acting.is_none(), "resigned before it is cancelled");
                shared.cancelled = true;
                if let Some(after) = shared.handler.winds_down_in {
                    self.end_handler(node, term, after, HandlerEnd::Returned);
                }
            }
            Effect::Abort { term } => {
                let shared = self.shared(node, term);
                shared.aborted = true;
                if let Some(after) = shared.handler.aborts_in {
                    self.end_handler(node, term, after, HandlerEnd::Aborted);
                }
            }
            Effect::CheckHealth { term } => {
                let at = self.now + Duration::from_millis(1);
                self.schedule(at, Happening::Health { node, term });
            }
            Effect::Reopen => {
                self.nodes[node].reopens += 1;
                let at = self.now + self.latency() + self.latency();
                self.schedule(at, Happening::Link { node });
            }
            Effect::Reply { request, reply } => {
                self.nodes[node].replies.push((request, reply));
            }
            Effect::Event(event) => self.hear(node, event),
        }
        None
    }

    fn hear(&mut self, node: usize, event: Event) {
        if let Event::StateChanged { from, to } = event {
            let state = &mut self.nodes[node].state;
            assert_eq!(*state, from, "a change begins where the last one ended");
            assert!(from.may_become(to), "no edge from {from} to {to}");
            *state = to;
        }
        if let Event::HandlerOverrun { .. } = event {
            let term = self.term(node);
            self.shared(node, term).overrun = true;
        }
        let now = self.now;
        self.nodes[node].events.push((now, event));
    }

    pub(super) fn shared(
        &mut self,
        node: usize,
        term: nats_elect::internals::TermId,
    ) -> &mut SharedTerm {
        self.nodes[node]
            .terms
            .get_mut(&term)
            .expect("effects speak of terms that were started")
    }

    fn start_term(&mut self, node: usize, start: &TermStart) {
        self.promoted(node, start);
        let handler = self.nodes[node].handler;
        self.nodes[node].terms.insert(
            start.term,
            SharedTerm {
                handler,
                lease: start.lease,
                acting: Some(start.lease),
                over: false,
                acting_over: false,
                running: true,
                ending: false,
                cancelled: false,
                aborted: false,
                overrun: false,
                revoked: None,
            },
        );
        if let Some((after, end)) = handler.ends {
            self.end_handler(node, start.term, after, end);
        }
    }

    pub(super) fn handler_ends(
        &mut self,
        node: usize,
        id: nats_elect::internals::TermId,
        end: HandlerEnd,
    ) {
        let Some(term) = self.nodes[node].terms.get_mut(&id) else {
            return;
        };
        if !term.running {
            return;
        }
        let lingers = term
            .handler
            .lingers
            .filter(|_| !term.ending && !term.aborted);
        if let Some(lingers) = lingers {
            term.ending = true;
            self.input(node, Input::HandlerEnding { term: id, end });
            self.end_handler(node, id, lingers, end);
        } else {
            term.running = false;
            self.input(node, Input::HandlerEnded { term: id, end });
        }
    }

    pub fn end_handler(
        &mut self,
        node: usize,
        term: nats_elect::internals::TermId,
        after: Duration,
        end: HandlerEnd,
    ) {
        let at = self.now + after;
        self.schedule(at, Happening::HandlerEnds { node, term, end });
    }

    fn send_write(&mut self, node: usize, write: Write) {
        self.may_write(node, &write);
        let kind = Kind::of(&write.kind);
        self.send(node, write.op, kind, Request::Write(write));
    }

    fn send(&mut self, node: usize, op: OpId, kind: Kind, request: Request) {
        let now = self.now;
        let sender = &mut self.nodes[node];
        assert!(sender.told_linked, "nothing is sent without a link");
        assert_eq!(sender.in_flight, None, "one operation at a time");
        sender.in_flight = Some(op);
        sender.sent.push((now, kind));
        let planned = sender.planned(kind);
        let cut = sender.cut || !sender.linked;
        let timeout = sender.settings.request_timeout;
        let life = sender.life;
        let read = kind == Kind::Read;
        let fate = planned.unwrap_or_else(|| {
            if cut {
                Fate::Lost
            } else {
                self.weather.fate(&mut self.chance)
            }
        });
        let (there, back) = (self.latency(), self.latency());
        let (arrives, answered) = match fate {
            Fate::Delivered => (Some(there), Some(back)),
            Fate::Lost => (None, None),
            Fate::AckLost => (Some(there), None),
            Fate::Ghost(after) => (Some(timeout + after), None),
            Fate::Denied => {
                let failure = Failure {
                    kind: FailureKind::PermissionDenied,
                    detail: "not allowed".to_owned(),
                };
                let answer = if read {
                    Answer::Read(Err(failure))
                } else {
                    Answer::Write(WriteOutcome::Failed(failure))
                };
                self.schedule(now + there, Happening::Answer { node, op, answer });
                (None, None)
            }
        };
        if let Some(after) = arrives {
            self.schedule(
                now + after,
                Happening::Arrive {
                    node,
                    op,
                    request,
                    answered,
                    life,
                },
            );
        }
        self.schedule(now + timeout, Happening::TimedOut { node, op, read });
    }

    pub(super) fn answer(&mut self, node: usize, op: OpId, answer: Answer) {
        // An answer needs a way back; the timeout comes all the same.
        if self.nodes[node].linked && !self.nodes[node].cut {
            self.answer_anyway(node, op, answer);
        }
    }

    pub(super) fn answer_anyway(&mut self, node: usize, op: OpId, answer: Answer) {
        let taken = self.nodes[node].in_flight.take_if(|pending| *pending == op);
        if taken.is_none() {
            return;
        }
        match answer {
            Answer::Write(outcome) => self.input(node, Input::WriteEnded { op, outcome }),
            Answer::Read(outcome) => self.input(node, Input::ReadEnded { op, outcome }),
        }
    }
}

/// The sequence of the role's key that a write expects.
pub(super) const fn expects(kind: &WriteKind) -> Option<u64> {
    match kind {
        WriteKind::Claim { over, .. }
        | WriteKind::Renew { over, .. }
        | WriteKind::Release { over } => Some(*over),
        WriteKind::Fence { .. } => None,
    }
}
