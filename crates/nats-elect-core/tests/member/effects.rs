//! What a process does that a member asks for.

use std::time::Duration;

use nats_elect_core::assignment::LONGEST_LEASE;
use nats_elect_core::member::{Effect, Fresh, Input, Order, PlanRequest, UnitId};
use nats_elect_core::plan::plan;
use nats_elect_core::token::FencingToken;
use nats_elect_core::{Moment, RequestId};
use uuid::Uuid;

use crate::checks;
use crate::event::{Answer, Event, What};
use crate::node::Handler;
use crate::rules;
use crate::tally;
use crate::world::World;

impl World {
    /// Passes an input to a member, and carries out the effects.
    pub fn step(&mut self, number: usize, input: Input) {
        let now = self.now;
        let Some(member) = self.nodes[number].member.as_mut() else {
            return;
        };
        let (high, low) = (self.chance.next(), self.chance.next());
        let fresh = Fresh {
            epoch: Uuid::from_u64_pair(high, low).into_bytes(),
            chance: f64::from(u32::try_from(low >> 32).expect("32 bits")) / 2f64.powi(32),
        };
        let effects = member.step(now, fresh, input);
        let wakeup = member.wakeup();
        for effect in effects {
            self.carry_out(number, effect);
        }
        if let Some(at) = wakeup {
            self.nodes[number].wake += 1;
            let wake = self.nodes[number].wake;
            self.at(at.max(now), Event::Wake(number, wake));
        }
        if self.nodes.len() < 10 {
            let alone = checks::alone(now, &self.nodes);
            let alone = self.checks.excuse(now, alone);
            self.fail(alone);
        }
    }

    fn carry_out(&mut self, number: usize, effect: Effect) {
        let (start, now) = (self.nodes[number].start, self.now);
        match effect {
            Effect::Beat {
                op,
                within,
                key,
                over,
                value,
            } => self.send(number, What::Beat(op, within), key, over, value),
            Effect::Look { op, within, own } => self.look(number, op, within, own),
            Effect::Reopen => {
                let delay = self.latency();
                self.after(delay, Event::Notice(number));
            }
            Effect::Rewatch => {
                self.log(|| format!("n{number} forgets what it knows"));
                self.saw("lost writes are noticed");
                // Its own former value, put back, looks as if its heartbeats were lost.
                let own = self.nodes[number].past.acknowledged.map(|it| it.0);
                if !own.is_some_and(|it| self.stream.is_put_back(&Self::member_key(it))) {
                    let result = self.checks.forgets(number);
                    self.fail(result);
                }
                let past = &mut self.nodes[number].past;
                past.waits_until = now + LONGEST_LEASE;
                past.acknowledged = None;
                self.rewatch(number);
            }
            Effect::Write {
                op,
                key,
                over,
                value,
                ttl,
            } => self.send(number, What::Op(op, ttl), key, over, value),
            Effect::Read(key) => self.read(number, key),
            Effect::Collect { op, .. } => {
                self.collects += 1;
                let delay = self.latency();
                self.after(delay, Event::Read(number, start, op, 0, Vec::new()));
            }
            Effect::Plan(request) => self.plan(number, &request),
            Effect::Start { unit, token, until } => self.start_handler(number, unit, token, until),
            Effect::Cancel { unit, until } => {
                self.log(|| format!("n{number} tells {unit:?} to end"));
                let mut delay = self.faults.ending(self.now, &mut self.chance);
                let shard = unit.unit().name().as_shard();
                if shard.is_some_and(|it| self.nodes[number].slow.contains(&it)) {
                    delay = self.nodes[number].ttl;
                }
                self.saw_if("a handler ends late", delay > Duration::from_millis(30));
                self.saw_if("a handler ends after its deadline", now + delay > until);
                if let Some(handler) = self.nodes[number].handlers.get_mut(&unit) {
                    (handler.is_told, handler.until) = (true, until);
                    let handler = handler.number;
                    self.after(delay, Event::HandlerEnds(number, start, unit, handler));
                }
            }
            Effect::Extend { until, proved } => {
                let node = &self.nodes[number];
                let result = rules::extends(node, node.ttl, until, proved);
                let result = self.checks.excuse(now, result);
                self.fail(result);
                for handler in self.nodes[number].handlers.values_mut() {
                    if !handler.is_told {
                        handler.until = until;
                    }
                }
            }
            Effect::Reply(request, reply) => {
                self.log(|| format!("n{number} replies {reply:?}"));
                self.replies.push((request, reply));
            }
            Effect::Left => {
                self.log(|| format!("n{number} has left"));
                self.saw("a member leaves");
                let result = rules::leaves(now, &self.nodes[number]);
                self.fail(result);
                self.crash(number);
            }
        }
    }

    fn start_handler(&mut self, number: usize, unit: UnitId, token: FencingToken, until: Moment) {
        let (start, now) = (self.nodes[number].start, self.now);
        self.log(|| format!("n{number} starts {unit:?} by {}", token.sequence));
        self.events += 1;
        let Some(epoch) = self.nodes[number].epoch() else {
            return self.fail(Err(format!("n{number} begins without an epoch")));
        };
        let handler_number = self.events;
        let has_faults = self.faults.is_on(self.now);
        let returns = has_faults && self.chance.permille(self.faults.returns);
        let shard = unit.unit().name().as_shard();
        let fails = shard.is_some_and(|it| self.nodes[number].fails.contains(&it));
        let handler = Handler {
            number: handler_number,
            epoch,
            token,
            until,
            is_told: false,
            fails: fails || (returns && self.chance.permille(500)),
        };
        let waits = tally::waits(&self.stream, token.sequence, &unit);
        self.saw_if("a unit waits for its former owner", waits);
        self.saw_if("a handler ends by itself", returns);
        self.saw_if("a handler fails", handler.fails);
        let result = self.checks.start(&unit, token, epoch);
        let node = &self.nodes[number];
        let result = result.and(rules::begins(now, &self.stream, node, &unit, &handler));
        let result = self.checks.excuse(now, result);
        self.fail(result);
        let former = self.nodes[number].handlers.insert(unit.clone(), handler);
        if former.is_some() {
            self.fail(Err(format!("n{number} begins {unit:?} twice")));
        }
        if returns || fails {
            let delay = self.chance.millis(1, if fails { 2 } else { 5000 });
            let event = Event::HandlerEnds(number, start, unit, handler_number);
            self.after(delay, event);
        }
    }

    fn plan(&mut self, number: usize, request: &PlanRequest) {
        let owners = request.owners(&plan(&request.fleet()));
        let base = request.base.sequence();
        let input = Input::Planned { base, owners };
        let start = self.nodes[number].start;
        let delay = self.chance.millis(1, 10);
        self.after(
            delay,
            Event::Answer(number, start, Answer::Input(input.into())),
        );
    }

    pub fn order(&mut self, number: usize, request: u64, order: Order) {
        self.log(|| format!("n{number} is ordered {order:?}"));
        self.step(number, Input::Order(RequestId(request), order));
    }

    pub fn leave(&mut self, number: usize) {
        self.log(|| format!("n{number} leaves"));
        self.nodes[number].past.leaves = true;
        self.step(number, Input::Leave);
    }
}
