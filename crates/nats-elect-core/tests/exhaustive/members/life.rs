//! What happens to members, and what people do.

use std::sync::Arc;

use nats_elect_core::assignment::{Key, Units, Value};
use nats_elect_core::member::{Input, Order, Over, UnitId};
use nats_elect_core::name::UnitName;
use nats_elect_core::{HandlerEnd, RequestId};

use super::action::Action;
use super::configuration::TICK;
use super::fault::Fault;
use super::process::Watch;
use super::properties::{Misconduct, Witness};
use super::stream::{group, map_key};
use super::turn::{Turn, answer};

impl Turn<'_> {
    pub fn take(&mut self, action: Action) {
        if let Some(fault) = fault(&action) {
            self.state.faults.spend(fault);
            self.state.idle = 0;
        }
        match action {
            Action::Advance => {
                self.state.count_idle();
                self.state.now = self.state.now + TICK;
            }
            Action::Wake(index) => self.wake(index),
            Action::Show(index) => self.pass(index, true),
            Action::Skip(index) => self.pass(index, false),
            Action::Arrive(index, at) => self.arrive(index, at, false),
            Action::Silently(index, at) => self.arrive(index, at, true),
            Action::Delay(index, at) => self.delay(index, at),
            Action::LandGhost(at) => {
                let write = self.state.ghosts.remove(at);
                self.state.idle = 0;
                self.witness(Witness::GhostLanded);
                self.store(None, write);
            }
            Action::LateAnswer(index, at) => {
                self.state.idle = 0;
                if let Some(process) = self.process(index) {
                    let (kind, op, outcome) = process.late.remove(at);
                    self.feed(index, [answer(kind, op, outcome)]);
                }
            }
            Action::EndHandler(index, unit) | Action::Return(index, unit) => {
                self.end_handler(index, unit);
            }
            Action::Ignore(index, unit) => {
                let handler = self
                    .process(index)
                    .and_then(|it| it.handlers.get_mut(&unit));
                if let Some(handler) = handler {
                    handler.is_deaf = true;
                }
            }
            Action::Pause(index) => self.set(index, |it| it.paused = true),
            Action::Resume(index) => self.set(index, |it| it.paused = false),
            Action::Lag(index) => self.set(index, |it| it.watch.lags = true),
            Action::CatchUp(index) => self.set(index, |it| it.watch.lags = false),
            Action::Rewatch(index, is_behind) => {
                let last = self.state.stream.last;
                let target = if is_behind { 0 } else { last };
                self.set(index, |it| it.watch = Watch::new(last, target));
                self.catch_up(index);
            }
            Action::Crash(index) => self.end_process(index),
            Action::Start(index) => self.boot(index),
            Action::Leave(index) => self.feed(index, [Input::Leave]),
            Action::Move(index, to) => {
                let order = Order::Move(UnitName::shard(0), to);
                self.feed(index, [Input::Order(RequestId(1), order)]);
            }
            Action::Resize(index) => {
                let order = Order::Resize(Units::Shards(self.configuration.units + 1));
                self.feed(index, [Input::Order(RequestId(1), order)]);
            }
            Action::Spoil(key) => self.touch(&key, Value::Foreign),
            Action::Purge(key) => Arc::make_mut(&mut self.state.stream).purge(&key),
            Action::PutBack(epoch) => {
                let value = self.state.stream.first[&epoch].clone();
                self.touch(&Key::Member(group(), epoch), value);
            }
        }
        self.settle();
        self.look();
    }

    /// What takes no time: requests that nothing can happen to, and heartbeats that tell nothing new on
    /// their way to watches that are not slow. In which order they are shown within a tick makes no
    /// difference, as no time passes.
    pub fn settle(&mut self) {
        self.carry();
        while let Some(index) = self.state.told_nothing() {
            self.pass(index, true);
            self.carry();
        }
    }

    /// Carries out requests that nothing can happen to.
    pub fn carry(&mut self) {
        let may = |fault| self.state.faults.may(fault);
        if self.configuration.in_flight || may(Fault::Late) || may(Fault::Unanswered) {
            return;
        }
        let waits = |state: &super::state::State| {
            let mut all = state.living();
            all.find_map(|(index, it)| (!it.requests.is_empty()).then_some(index))
        };
        while let Some(index) = waits(&self.state) {
            self.arrive(index, 0, false);
        }
    }

    fn set(&mut self, index: usize, change: impl FnOnce(&mut super::process::Process)) {
        self.state.idle = 0;
        if let Some(process) = self.process(index) {
            change(process);
        }
    }

    fn touch(&mut self, key: &Key, value: Value) {
        let over = Over::Anything;
        let stream = Arc::make_mut(&mut self.state.stream);
        let _ = stream.store(key, over, value);
    }

    fn wake(&mut self, index: usize) {
        let now = self.state.now;
        self.feed(index, [Input::Tick]);
        let process = self.process(index);
        let is_idle = process.is_some_and(|it| {
            it.requests.is_empty() && it.member.wakeup().is_some_and(|at| at <= now)
        });
        if is_idle {
            self.misbehaved(Misconduct::WantedToWakeInThePast);
        }
    }

    /// The watch passes what comes next, and shows it or not.
    fn pass(&mut self, index: usize, is_shown: bool) {
        let stream = self.state.stream.clone();
        let Some(process) = self.process(index) else {
            return;
        };
        let Some(next) = process.watch.next(&stream) else {
            return;
        };
        process.watch.position = next.sequence;
        if is_shown {
            let shown = Input::Shown {
                key: next.key.clone(),
                sequence: next.sequence,
                value: next.value.clone(),
            };
            self.feed(index, [shown]);
        }
        self.catch_up(index);
    }

    fn end_handler(&mut self, index: usize, unit: UnitId) {
        let handlers = self.process(index).map(|it| &mut it.handlers);
        if let Some(handler) = handlers.and_then(|it| it.remove(&unit)) {
            if handler.is_deaf {
                self.state.idle = 0;
            }
            let end = HandlerEnd::Returned;
            self.feed(index, [Input::HandlerEnded(unit, end)]);
        }
    }
}

/// What an action spends.
fn fault(action: &Action) -> Option<Fault> {
    let is_map = |key: &Key| *key == map_key();
    Some(match action {
        Action::Silently(..) => Fault::Unanswered,
        Action::Ignore(..) => Fault::Deaf,
        Action::Return(..) => Fault::Returned,
        Action::Pause(_) => Fault::Pause,
        Action::Lag(_) => Fault::Lag,
        Action::Rewatch(_, true) => Fault::Behind,
        Action::Rewatch(_, false) => Fault::Rewatch,
        Action::Crash(_) => Fault::Crash,
        Action::Start(_) => Fault::Start,
        Action::Leave(_) => Fault::Leave,
        Action::Move(..) => Fault::Move,
        Action::Resize(_) => Fault::Resize,
        Action::Spoil(key) if is_map(key) => Fault::SpoilMap,
        Action::Spoil(_) => Fault::SpoilMember,
        Action::Purge(key) if is_map(key) => Fault::PurgeMap,
        Action::Purge(_) => Fault::PurgeMember,
        Action::PutBack(_) => Fault::PutBack,
        Action::Delay(..) => Fault::Late,
        _ => return None,
    })
}
