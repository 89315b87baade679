//! Carries out effects as the actors do.

use std::collections::VecDeque;
use std::time::Duration;

use nats_elect_core::event::{Event, FailureKind};
use nats_elect_core::{Effect, HandlerEnd, Input, OpId, TermId, TermStart, Write, WriteOutcome};

use crate::checkers::Note;
use crate::happening::{Answer, Happening, Request};
use crate::network::{Fate, Kind};
use crate::node::SharedTerm;
use crate::world::World;

impl World {
    /// Feeds one input, and what its effects bring at once.
    pub fn input(&mut self, node: usize, input: Input) {
        if self.nodes[node].election.is_none() || self.violation.is_some() {
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
            self.say(node, "takes", &input);
            self.tell(&Note::Takes {
                node,
                input: &input,
            });
            let fresh = self.chance.fresh();
            let now = self.nodes[node].clock.at(self.now);
            let Some(election) = &mut self.nodes[node].election else {
                return;
            };
            let effects = election.step(now, fresh, input);
            extends_before_it_tells(&effects);
            let due = election.next_wakeup();
            let status = election.status();
            self.bequeath(node);
            for effect in effects {
                self.say(node, "wants", &effect);
                self.tell(&Note::Wants {
                    node,
                    effect: &effect,
                });
                self.tally.count(&effect);
                inputs.extend(self.carry_out(node, effect));
            }
            self.tell(&Note::Stepped {
                node,
                now,
                due,
                status: &status,
                settled: inputs.is_empty(),
            });
            self.nodes[node].wake += 1;
            if let Some(due) = due {
                let wake = self.nodes[node].wake;
                let lag = self.timer_lag.clone();
                let at = self.nodes[node].clock.when(due) + self.chance.within(&lag);
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
            Effect::Read { op, within, .. } => {
                self.send(node, op, within, Kind::Read, &Request::Read);
            }
            Effect::StartTerm(start) => self.start_term(node, &start),
            Effect::Extend {
                term,
                lease,
                acting,
                proved,
            } => {
                let shared = self.shared(node, term);
                if shared.over || (acting.is_some() && shared.acting_over) {
                    return Some(Input::LeaseOver { term });
                }
                shared.lease = lease;
                shared.proved = proved;
                if shared.acting.is_some() {
                    shared.acting = acting;
                }
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
                shared.cancelled = true;
                if let Some(after) = shared.handler.winds_down_in {
                    self.end_handler(node, term, after, HandlerEnd::Returned);
                }
            }
            Effect::Abort { term } => {
                let now = self.now;
                let shared = self.shared(node, term);
                shared.aborted = Some(now);
                if let Some(after) = shared.handler.aborts_in {
                    self.end_handler(node, term, after, HandlerEnd::Aborted);
                }
            }
            Effect::CheckHealth { term } => {
                let at = self.now + Duration::from_millis(1);
                self.schedule(at, Happening::Health { node, term });
            }
            // Nothing is done with it here.
            Effect::AskPeers {
                id,
                question,
                among,
                within,
            } => self.inquire(node, id, &question, among, within),
            Effect::AnswerPeer {
                reply_to,
                answer,
                after,
            } => self.answer_peer(node, reply_to, answer, after),
            Effect::Reopen => {
                self.nodes[node].reopens += 1;
                self.nodes[node].asked_for_look = true;
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
        if let Event::StateChanged { to, .. } = event {
            self.nodes[node].state = to;
        }
        if let Event::HandlerOverrun { .. } = event {
            let running = self.nodes[node]
                .terms
                .values_mut()
                .find(|term| term.running);
            if let Some(term) = running {
                term.overrun = true;
            }
        }
        let now = self.now;
        self.nodes[node].events.push((now, event));
    }

    pub fn shared(&mut self, node: usize, term: TermId) -> &mut SharedTerm {
        self.nodes[node]
            .terms
            .get_mut(&term)
            .expect("effects speak of terms that were started")
    }

    fn start_term(&mut self, node: usize, start: &TermStart) {
        if let Some(after) = self.nodes[node].dies_after {
            self.schedule(self.now + after, Happening::Dies { node });
        }
        let handler = self.nodes[node].handler;
        self.nodes[node].terms.insert(
            start.term,
            SharedTerm {
                handler,
                lease: start.lease,
                proved: start.proved,
                acting: Some(start.lease),
                over: false,
                acting_over: false,
                running: true,
                ending: false,
                cancelled: false,
                aborted: None,
                overrun: false,
                revoked: None,
            },
        );
        self.begin_writing(node, start.term, start.fencing_token);
        if let Some((after, end)) = handler.ends {
            self.end_handler(node, start.term, after, end);
        }
    }

    pub fn handler_ends(&mut self, node: usize, id: TermId, end: HandlerEnd) {
        let Some(term) = self.nodes[node].terms.get_mut(&id) else {
            return;
        };
        if !term.running {
            return;
        }
        let lingers = term
            .handler
            .lingers
            .filter(|_| !term.ending && term.aborted.is_none());
        if let Some(lingers) = lingers {
            term.ending = true;
            self.input(node, Input::HandlerEnding { term: id, end });
            self.end_handler(node, id, lingers, end);
        } else {
            term.running = false;
            self.input(node, Input::HandlerEnded { term: id, end });
        }
    }

    pub fn end_handler(&mut self, node: usize, term: TermId, after: Duration, end: HandlerEnd) {
        let at = self.now + after;
        self.schedule(at, Happening::HandlerEnds { node, term, end });
    }

    fn send_write(&mut self, node: usize, write: Write) {
        self.nodes[node].writes = write.nonce.beat + 1;
        let kind = Kind::of(&write.kind);
        self.send(
            node,
            write.op,
            write.within,
            kind,
            &Request::Write(Box::new(write)),
        );
    }

    fn send(&mut self, node: usize, op: OpId, timeout: Duration, kind: Kind, request: &Request) {
        let now = self.now;
        let sender = &mut self.nodes[node];
        // What is not waited for any more is answered all the same.
        if let Some(dropped) = sender.in_flight.replace(op) {
            sender.unanswered.insert(dropped.0);
        }
        sender.sent.push((now, kind));
        let planned = sender.planned(kind);
        let open = sender.linked && sender.wire.carries_requests();
        let life = sender.life;
        let read = kind == Kind::Read;
        let fate = planned.unwrap_or_else(|| {
            if open {
                self.weather.fate(&mut self.chance)
            } else {
                Fate::Lost
            }
        });
        self.tally.met(kind, fate);
        let (there, back) = (self.latency(), self.latency());
        let arrival = |answered| Happening::Arrive {
            node,
            op,
            request: request.clone(),
            answered,
            life,
        };
        match fate {
            Fate::Delivered => self.schedule(now + there, arrival(Some(back))),
            Fate::Slow(on_its_way) => {
                self.schedule(now + on_its_way, arrival(Some(back)));
            }
            Fate::Lost => {}
            Fate::AckLost => self.schedule(now + there, arrival(None)),
            Fate::Doubted => {
                self.schedule(now + there, arrival(None));
                let answer = Answer::failed(read, FailureKind::Unavailable);
                self.schedule(now + there + back, Happening::Answer { node, op, answer });
            }
            Fate::Ghost(after) => self.schedule(now + timeout + after, arrival(None)),
            Fate::Twice(after) => {
                self.schedule(now + there, arrival(Some(back)));
                self.schedule(now + there + after, arrival(Some(back)));
            }
            Fate::Denied | Fate::Contended => {
                let kind = match fate {
                    Fate::Denied => FailureKind::PermissionDenied,
                    _ => FailureKind::Contended,
                };
                let answer = Answer::failed(read, kind);
                self.schedule(now + there, Happening::Answer { node, op, answer });
            }
        }
        self.schedule(now + timeout, Happening::TimedOut { node, op, read });
    }

    /// An answer needs a way back; the timeout comes all the same.
    pub fn answer(&mut self, node: usize, op: OpId, answer: Answer) {
        if self.hears_answers(node) {
            self.deliver(node, op, answer);
        }
    }

    /// The sender is told that no answer came in time; the answer may come yet.
    pub fn timed_out(&mut self, node: usize, op: OpId, read: bool) {
        if self.nodes[node].in_flight == Some(op) {
            self.nodes[node].unanswered.insert(op.0);
        }
        self.deliver(node, op, Answer::failed(read, FailureKind::Timeout));
    }

    pub fn deliver(&mut self, node: usize, op: OpId, answer: Answer) {
        let node_state = &mut self.nodes[node];
        let taken = node_state.in_flight.take_if(|pending| *pending == op);
        let timeout = matches!(
            &answer,
            Answer::Write(WriteOutcome::Failed(failure)) if failure.kind == FailureKind::Timeout
        ) || matches!(&answer, Answer::Read(read) if matches!(&**read, Err(failure) if failure.kind == FailureKind::Timeout));
        if taken.is_none() && (timeout || !node_state.unanswered.remove(&op.0)) {
            return;
        }
        if taken.is_none() {
            self.tally.late_answers += 1;
        }
        match answer {
            Answer::Write(outcome) => self.input(node, Input::WriteEnded { op, outcome }),
            Answer::Read(outcome) => {
                let outcome = *outcome;
                self.input(node, Input::ReadEnded { op, outcome });
            }
        }
    }
}

/// A slow subscriber of events must not delay a deadline.
fn extends_before_it_tells(effects: &[Effect]) {
    let extend = effects
        .iter()
        .rposition(|it| matches!(it, Effect::Extend { .. }));
    let event = effects.iter().position(|it| matches!(it, Effect::Event(_)));
    let late = extend
        .zip(event)
        .is_some_and(|(extend, event)| event < extend);
    assert!(!late, "{effects:?}");
}
