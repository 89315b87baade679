//! One event and all that follows from it at once: what the driver of a member does.

use std::collections::{BTreeSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nats_elect_core::assignment::{Epoch, Key, Profile, Units, Value};
use nats_elect_core::member::{
    Effect, Found, Fresh, Input, Look, Member, MemberSettings, Over, UnitId,
};
use nats_elect_core::name::InstanceId;
use nats_elect_core::plan::plan;
use nats_elect_core::{Link, OpId, WriteOutcome};
use uuid::Uuid;

use super::configuration::{Configuration, TICK};
use super::process::{Asks, Handler, Kind, Process, Request, Watch, Write};
use super::properties::{Broken, Misconduct, Witness, Witnessed};
use super::state::State;
use super::stream::{MADE, group, map_key};
use crate::scribe::{BEAT_SHIFT, NAME_MARK};

/// A state on its way to the next.
pub struct Turn<'a> {
    pub configuration: &'a Configuration,
    pub state: State,
    /// What happens, in words, if anybody listens.
    pub tale: Option<Vec<String>>,
}

/// The name of the epoch of this number, or of the start of a process.
fn name(number: u64) -> Uuid {
    Uuid::from_u64_pair(NAME_MARK, number)
}

/// Names of starts are beside those of epochs.
const STARTS: u64 = 1 << 32;

/// More inputs than a member is given at one moment.
const MOST_INPUTS: usize = 100;

impl<'a> Turn<'a> {
    pub fn new(configuration: &'a Configuration, state: &State) -> Self {
        let mut state = state.clone();
        state.witnessed = Witnessed::default();
        Self {
            configuration,
            state,
            tale: None,
        }
    }

    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(tale) = &mut self.tale {
            tale.push(format!("     {}", line()));
        }
    }

    /// A process that runs.
    pub fn process(&mut self, index: usize) -> Option<&mut Process> {
        self.state.members[index].as_mut().map(Arc::make_mut)
    }

    pub fn broke(&mut self, broken: Broken) {
        self.state.broken.get_or_insert(broken);
    }

    pub fn misbehaved(&mut self, misconduct: Misconduct) {
        self.broke(Broken::Conduct(misconduct));
    }

    pub const fn witness(&mut self, witness: Witness) {
        self.state.witnessed.add(witness);
    }

    /// A process starts.
    pub fn boot(&mut self, index: usize) {
        self.state.starts += 1;
        let start = self.state.starts;
        let settings = MemberSettings {
            group: group(),
            units: Units::Shards(self.configuration.units),
            id: InstanceId::new("n").expect("a name"),
            incarnation: name(STARTS | start),
            first_beat: start << BEAT_SHIFT,
            ttl: 3 * TICK,
            heartbeat: TICK,
            request_timeout: TICK / 4,
            profile: Profile::default(),
        };
        let last = self.state.stream.last;
        self.state.members[index] = Some(Arc::new(Process {
            member: Member::new(settings, self.state.now),
            requests: Vec::new(),
            late: Vec::new(),
            handlers: [].into(),
            paused: false,
            watch: Watch::new(last, last),
        }));
        self.feed(index, [Input::Link(Link::Up(MADE))]);
        self.catch_up(index);
    }

    /// Tells that the watch has caught up, if it has.
    pub fn catch_up(&mut self, index: usize) {
        let stream = self.state.stream.clone();
        let Some(process) = self.process(index) else {
            return;
        };
        let next = process.watch.next(&stream);
        let is_behind = |target| next.is_some_and(|it| it.sequence <= target);
        if process.watch.target.is_some_and(|it| !is_behind(it)) {
            process.watch.target = None;
            self.feed(index, [Input::CaughtUp]);
        }
    }

    /// Feeds inputs, and what their effects bring at once.
    pub fn feed(&mut self, index: usize, inputs: impl IntoIterator<Item = Input>) {
        let mut inputs = VecDeque::from_iter(inputs);
        let mut count = 0;
        while let Some(input) = inputs.pop_front() {
            count += 1;
            if count > MOST_INPUTS {
                return self.misbehaved(Misconduct::AsksWithoutEnd);
            }
            self.say(|| format!("{index} takes {input:?}"));
            let fresh = Fresh {
                epoch: name(self.state.epochs + 1).into_bytes(),
                chance: 0.5,
            };
            let now = self.state.now;
            let Some(process) = self.process(index) else {
                return;
            };
            let member = &mut process.member;
            let held = member.epoch();
            let step = AssertUnwindSafe(|| member.step(now, fresh, input));
            let Ok(effects) = catch_unwind(step) else {
                return self.misbehaved(Misconduct::Panicked);
            };
            if held.is_some() && member.epoch() != held {
                self.witness(Witness::LeaseLost);
            }
            for effect in effects {
                self.obey(index, effect, &mut inputs);
            }
        }
    }

    fn obey(&mut self, index: usize, effect: Effect, inputs: &mut VecDeque<Input>) {
        match effect {
            Effect::Beat {
                op,
                key,
                over,
                value,
                ..
            } => {
                if over == Over::Sequence(0) {
                    self.state.epochs += 1;
                }
                self.send(index, op, Kind::Beat, key, over, &value);
            }
            Effect::Write {
                op,
                key,
                over,
                value,
                ..
            } => self.send(index, op, Kind::Other, key, over, &value),
            Effect::Look { op, own, .. } => {
                let found = Ok(Look {
                    bucket: Some(MADE.epoch),
                    own: self.state.stream.get(&own),
                    map: self.state.stream.get(&map_key()),
                });
                inputs.push_back(Input::Looked { op, found });
            }
            Effect::Reopen | Effect::Rewatch => self.misbehaved(Misconduct::ForgotWhatStands),
            Effect::Read(key) => inputs.push_back(match self.state.stream.get(&key) {
                Some((sequence, value)) => Input::Shown {
                    key,
                    sequence,
                    value,
                },
                None => Input::Missing(key),
            }),
            Effect::Collect { op, .. } => {
                let asks = Asks::Collect;
                self.request(index, Request { op, asks });
            }
            Effect::Plan(request) => inputs.push_back(Input::Planned {
                base: request.base.sequence(),
                owners: request.owners(&plan(&request.fleet())),
            }),
            Effect::Start { unit, token, until } => {
                self.start_handler(index, unit, token.sequence, until);
            }
            Effect::Cancel { unit, until } => {
                let process = self.process(index);
                if let Some(it) = process.and_then(|it| it.handlers.get_mut(&unit)) {
                    (it.is_told, it.until) = (true, until);
                }
            }
            Effect::Extend { until, .. } => {
                let handlers = self.process(index).map(|it| it.handlers.values_mut());
                for it in handlers.into_iter().flatten().filter(|it| !it.is_told) {
                    it.until = until;
                }
            }
            Effect::Reply(..) => {}
            Effect::Left => {
                self.witness(Witness::Left);
                self.end_process(index);
            }
        }
    }

    fn start_handler(
        &mut self,
        index: usize,
        unit: UnitId,
        token: u64,
        until: nats_elect_core::Moment,
    ) {
        self.witness(Witness::Begun);
        if unit.generation > 1 {
            self.witness(Witness::Grown);
        }
        let before = self.state.tokens.insert(unit.clone(), token);
        if before.is_some_and(|it| it >= token) {
            self.broke(Broken::TokenOrder);
        }
        let Some(process) = self.process(index) else {
            return;
        };
        let Some(epoch) = process.member.epoch() else {
            return self.misbehaved(Misconduct::StartedWithoutALease);
        };
        let handler = Handler {
            epoch,
            until,
            is_told: false,
            is_deaf: false,
        };
        let former = process.handlers.insert(unit, handler);
        let is_moved = former.is_none() && before.is_some();
        if former.is_some() {
            self.misbehaved(Misconduct::StartedASecondHandler);
        }
        if self.state.over.contains(&epoch) {
            self.misbehaved(Misconduct::StartedWhatIsOver);
        }
        if is_moved && self.state.living().count() == self.configuration.members {
            self.witness(Witness::Moved);
        }
    }

    fn send(&mut self, index: usize, op: OpId, kind: Kind, key: Key, over: Over, bytes: &[u8]) {
        let condition = match over {
            Over::Anything => None,
            Over::Sequence(over) => Some(over.to_string()),
        };
        let condition = condition.as_deref();
        let headers = condition.map(|it| ("Nats-Expected-Last-Subject-Sequence", it));
        let value = Value::read(&key, u64::MAX, bytes, headers, MADE.epoch);
        let is_foreign = value == Value::Foreign && !bytes.is_empty();
        if key == map_key() && is_foreign {
            self.misbehaved(Misconduct::WroteAForeignMap);
        }
        let asks = Asks::Write(kind, Write { key, over, value });
        self.request(index, Request { op, asks });
    }

    fn request(&mut self, index: usize, request: Request) {
        if let Some(process) = self.process(index) {
            process.requests.push(request);
        }
    }

    /// A request takes effect, and is answered.
    pub fn arrive(&mut self, index: usize, at: usize, is_silent: bool) {
        let Some(process) = self.process(index) else {
            return;
        };
        let Request { op, asks } = process.requests.remove(at);
        let (kind, write) = match asks {
            Asks::Collect => {
                let entries = self.state.stream.standing.values();
                let found = entries.filter_map(|it| match it.key {
                    Key::Map(_) => None,
                    Key::Member(_, epoch) => Some(Found {
                        epoch,
                        sequence: it.sequence,
                        value: it.value.clone(),
                    }),
                });
                let found = Some(found.collect());
                return self.feed(index, [Input::Collected { op, found }]);
            }
            Asks::Write(kind, write) => (kind, write),
        };
        let outcome = self.store(Some(index), write);
        if is_silent {
            if let Some(process) = self.process(index) {
                process.late.push((kind, op, outcome));
            }
            return self.time_out(index, op, kind);
        }
        self.feed(index, [answer(kind, op, outcome)]);
    }

    fn time_out(&mut self, index: usize, op: OpId, kind: Kind) {
        let failure = nats_elect_core::Failure {
            kind: nats_elect_core::event::FailureKind::Timeout,
            detail: String::new(),
        };
        self.feed(index, [answer(kind, op, WriteOutcome::Failed(failure))]);
    }

    /// A request does not arrive in time.
    pub fn delay(&mut self, index: usize, at: usize) {
        let Some(process) = self.process(index) else {
            return;
        };
        let Request { op, asks } = process.requests.remove(at);
        match asks {
            Asks::Collect => self.feed(index, [Input::Collected { op, found: None }]),
            Asks::Write(kind, write) => {
                self.state.ghosts.push(write);
                self.time_out(index, op, kind);
            }
        }
    }

    /// The server takes a write.
    pub fn store(&mut self, by: Option<usize>, write: Write) -> WriteOutcome {
        let Write { key, over, value } = write;
        let is_map = matches!(value, Value::Map(_));
        let over_foreign = is_map
            && self
                .state
                .stream
                .get(&map_key())
                .is_some_and(|it| it.1 == Value::Foreign);
        let is_end = value == Value::Ended;
        let stream = Arc::make_mut(&mut self.state.stream);
        match stream.store(&key, over, value) {
            Err(current) => {
                if is_map {
                    self.witness(Witness::Refused);
                }
                let current = Some(current);
                WriteOutcome::Conflict { current }
            }
            Ok(revision) => {
                if over_foreign {
                    self.witness(Witness::Collected);
                }
                if let (Key::Member(_, epoch), true) = (&key, is_end) {
                    self.ended(by, *epoch);
                }
                WriteOutcome::Acked { revision }
            }
        }
    }

    /// An epoch is over.
    fn ended(&mut self, by: Option<usize>, epoch: Epoch) {
        let now = self.state.now;
        let handlers = self.state.living().flat_map(|(_, it)| it.acting(now));
        let acts = handlers.map(|(_, it)| it.epoch).any(|it| it == epoch);
        let owner = self
            .state
            .living()
            .find(|(_, it)| it.member.epoch() == Some(epoch));
        let is_another = owner.is_some_and(|(it, _)| by.is_some_and(|by| by != it));
        if is_another {
            self.witness(Witness::Ended);
        }
        self.state.over.insert(epoch);
        if acts {
            self.misbehaved(Misconduct::ToldOverWhatActs);
        }
    }

    pub fn end_process(&mut self, index: usize) {
        self.state.members[index] = None;
    }

    /// What must hold after every event.
    pub fn look(&mut self) {
        let now = self.state.now;
        let acting: Vec<&UnitId> = self
            .state
            .living()
            .flat_map(|(_, it)| it.acting(now))
            .map(|(unit, _)| unit)
            .collect();
        let units: BTreeSet<_> = acting.iter().collect();
        let generations: BTreeSet<_> = acting.iter().map(|it| it.generation).collect();
        let are_two = units.len() < acting.len() || generations.len() > 1;
        let overruns = self
            .state
            .living()
            .any(|(_, it)| it.handlers.values().any(|it| it.until <= now));
        if are_two {
            self.broke(Broken::TwoAct);
        }
        if overruns {
            self.witness(Witness::Overrun);
        }
        let state = &mut self.state;
        let positions = state.members.iter().flatten().map(|it| it.watch.position);
        let passed = positions.min().unwrap_or(u64::MAX);
        let stream = Arc::make_mut(&mut state.stream);
        stream.forget(passed);
        // A key never comes back to a sequence that it has left, except to none by a purge.
        state.ghosts.retain(|it| match it.over {
            Over::Sequence(over) => over == 0 || stream.sequence(&it.key) == over,
            Over::Anything => stream.get(&it.key).is_none_or(|it| it.1 != Value::Ended),
        });
    }
}

pub fn answer(kind: Kind, op: OpId, outcome: WriteOutcome) -> Input {
    match kind {
        Kind::Beat => Input::BeatEnded { op, outcome },
        Kind::Other => Input::Written { op, outcome },
    }
}
