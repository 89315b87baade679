//! The world: time, network, processes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use uuid::Uuid;

use nats_elect_core::assignment::{Epoch, Key, MemberRecord, Units, Value};
use nats_elect_core::member::{
    Effect, Found, Input, Lease, Member, MemberSettings, Order, Over, PlanRequest, UnitId,
};
use nats_elect_core::name::{GroupName, InstanceId};
use nats_elect_core::plan::plan;
use nats_elect_core::record::Nonce;
use nats_elect_core::{Failure, Moment, OpId, RequestId, WriteOutcome, event::FailureKind};

use crate::chance::Chance;
use crate::checks::{self, Checks};
use crate::faults::{Fault, Faults};
use crate::lease::Keeping;
use crate::node::{Handler, Node};
use crate::stream::{Stream, brief};

/// After this time without an answer a write has failed.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Something that happens at a time.
#[derive(Debug)]
pub enum Event {
    /// A write arrives at the server.
    Arrive(Sent),
    /// An answer arrives at a start of a process.
    Answer(usize, u64, Answer),
    /// The watch shows what comes next.
    Watch(usize, u64),
    Wake(usize, u64),
    /// The reads of a collect go on after a sequence.
    Read(usize, u64, OpId, u64, Vec<Found>),
    /// A single read arrives at the server.
    ReadKey(usize, u64, Key),
    HandlerEnds(usize, u64, UnitId, u64),
    Start(usize),
    /// A process notices that the bucket is another one.
    Notice(usize),
    Fault(Fault),
}

#[derive(Debug)]
pub enum Answer {
    Input(Box<Input>),
    /// A heartbeat or a claim was stored, refused, or got no answer.
    Beat(u64, Option<u64>),
    /// What a read or the watch shows.
    Shown(Key, Option<(u64, Value)>),
}

/// A write under way.
#[derive(Debug)]
pub struct Sent {
    node: usize,
    start: u64,
    what: What,
    key: Key,
    over: Over,
    bytes: Vec<u8>,
    since: Moment,
    bucket: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Op(OpId),
    Beat(u64),
}

struct Due(Moment, u64, Event);

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub struct World {
    pub now: Moment,
    pub chance: Chance,
    pub stream: Stream,
    pub nodes: Vec<Node>,
    pub faults: Faults,
    pub units: Units,
    pub checks: Checks,
    pub failure: Option<String>,
    pub replies: Vec<(RequestId, nats_elect_core::member::Reply)>,
    pub maps: usize,
    pub collects: usize,
    /// How long it took from the last fault until all was well.
    pub recovery: Duration,
    pub messages: Vec<String>,
    pub logs: bool,
    queue: BinaryHeap<Reverse<Due>>,
    events: u64,
    /// The events of this moment.
    moments: usize,
}

impl World {
    pub fn new(seed: u64, nodes: usize, units: Units) -> Self {
        Self {
            now: Moment::from_nanos(1_000_000_000),
            chance: Chance::new(seed),
            stream: Stream::new(1_764_000_000_000_000_000),
            nodes: (0..nodes).map(Node::new).collect(),
            faults: Faults::default(),
            units,
            checks: Checks::default(),
            failure: None,
            replies: Vec::new(),
            maps: 0,
            collects: 0,
            recovery: Duration::ZERO,
            messages: Vec::new(),
            logs: false,
            queue: BinaryHeap::new(),
            events: 0,
            moments: 0,
        }
    }

    pub fn group() -> GroupName {
        GroupName::new("g").expect("a name")
    }

    pub fn map_key() -> Key {
        Key::Map(Self::group())
    }

    pub fn member_key(epoch: Epoch) -> Key {
        Key::Member(Self::group(), epoch)
    }

    pub fn log(&mut self, message: impl FnOnce() -> String) {
        if self.logs {
            let millis = self
                .now
                .since(Moment::from_nanos(1_000_000_000))
                .as_micros()
                / 100;
            let message = format!("{:>7}.{} {}", millis / 10, millis % 10, message());
            self.messages.push(message);
        }
    }

    pub fn at(&mut self, at: Moment, event: Event) {
        self.events += 1;
        self.queue.push(Reverse(Due(at, self.events, event)));
    }

    pub fn after(&mut self, delay: Duration, event: Event) {
        self.at(self.now + delay, event);
    }

    fn fail(&mut self, result: Result<(), String>) {
        if let (Err(why), None) = (result, &self.failure) {
            self.log(|| format!("FAILURE {why}"));
            self.failure = Some(why);
        }
    }

    /// Runs for a time, or until something fails.
    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.failure.is_none()
            && let Some(Reverse(due)) = self.queue.peek()
            && due.0 <= end
            && let Some(Reverse(Due(at, _, event))) = self.queue.pop()
        {
            self.moments = if at > self.now { 0 } else { self.moments + 1 };
            self.now = self.now.max(at);
            if self.moments > 3000 * self.nodes.len() {
                self.fail(Err(format!("time stands still: {event:?}")));
            }
            self.handle(event);
        }
        self.now = self.now.max(end);
    }

    fn handle(&mut self, event: Event) {
        let node = match &event {
            Event::Answer(node, ..)
            | Event::Watch(node, _)
            | Event::Wake(node, _)
            | Event::Notice(node)
            | Event::HandlerEnds(node, ..) => Some(*node),
            _ => None,
        };
        if let Some(until) = node.map(|it| self.nodes[it].paused_until)
            && until > self.now
        {
            // The process is paused: what comes for it waits.
            return self.at(until, event);
        }
        match event {
            Event::Arrive(sent) => self.arrive(&sent),
            Event::Answer(node, start, answer) if self.is_alive(node, start) => {
                self.answer(node, answer);
            }
            Event::Watch(node, watch) if self.nodes[node].watch == watch => self.watch(node),
            Event::Wake(node, wake) if self.nodes[node].wake == wake => {
                self.step(node, Input::Tick);
                self.keep(node);
            }
            Event::Read(node, start, op, after, found) if self.is_alive(node, start) => {
                self.read_on(node, op, after, found);
            }
            Event::ReadKey(node, ..) if self.nodes[node].bucket != self.stream.bucket => {}
            Event::ReadKey(node, start, key) => {
                let entry = self.stream.get(&key);
                let shown = entry.map(|it| (it.sequence, it.value.clone()));
                let delay = self.latency();
                self.after(delay, Event::Answer(node, start, Answer::Shown(key, shown)));
            }
            Event::HandlerEnds(node, start, unit, number) if self.is_alive(node, start) => {
                let handler = self.nodes[node].handlers.get(&unit);
                if handler.is_some_and(|it| it.number == number) {
                    self.log(|| format!("n{node} ends {unit:?}"));
                    self.nodes[node].handlers.remove(&unit);
                    self.step(node, Input::HandlerEnded(unit));
                }
            }
            Event::Start(node) => self.start(node),
            Event::Notice(node) => self.notice(node),
            Event::Fault(fault) => self.fault(fault),
            _ => {}
        }
    }

    fn is_alive(&self, node: usize, start: u64) -> bool {
        self.nodes[node].member.is_some() && self.nodes[node].start == start
    }

    /// The stream has grown: watches go on.
    pub fn show_all(&mut self) {
        for number in 0..self.nodes.len() {
            if std::mem::take(&mut self.nodes[number].is_at_end) {
                let (watch, delay) = (self.nodes[number].watch, self.chance.millis(0, 2));
                self.after(delay, Event::Watch(number, watch));
            }
        }
    }

    pub fn latency(&mut self) -> Duration {
        let slow = self.faults.is_on(self.now) && self.chance.permille(self.faults.slow);
        let most = if slow { 1500 } else { 4 };
        self.chance.millis(1, most)
    }

    /// Starts a process, unless it runs.
    pub fn start(&mut self, number: usize) {
        if self.nodes[number].member.is_some() {
            return;
        }
        let settings = MemberSettings {
            group: Self::group(),
            bucket: self.stream.bucket,
            units: self.units.clone(),
        };
        let (now, ttl) = (self.now, self.faults.ttl(&mut self.chance));
        let node = &mut self.nodes[number];
        *node = Node {
            id: node.id.clone(),
            start: node.start + 1,
            watch: node.watch + 1,
            wake: node.wake + 1,
            member: Some(Member::new(settings, now)),
            ttl,
            bucket: self.stream.bucket,
            ..Node::new(number)
        };
        self.log(|| format!("n{number} starts"));
        self.rewatch(number);
        self.claim(number);
        self.keep(number);
    }

    /// No fault goes on.
    pub fn heal(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        (node.paused_until, node.deaf_until, node.cut_until) = (self.now, self.now, self.now);
        self.start(number);
        self.step(number, Input::Tick);
    }

    /// The process dies.
    pub fn crash(&mut self, number: usize) {
        self.log(|| format!("n{number} crashes"));
        let node = &mut self.nodes[number];
        node.member = None;
        node.keeping = None;
        node.handlers.clear();
        (node.watch, node.wake) = (node.watch + 1, node.wake + 1);
    }

    /// The bucket is made anew. Who was there notices it some time.
    pub fn make_bucket_anew(&mut self, most_millis: usize) {
        self.log(|| "THE BUCKET IS MADE ANEW".to_owned());
        self.stream = Stream::new(self.stream.bucket + 1);
        for number in 0..self.nodes.len() {
            self.nodes[number].watch += 1;
            self.nodes[number].is_at_end = false;
            let delay = self.chance.millis(1, most_millis);
            self.after(delay, Event::Notice(number));
        }
    }

    fn notice(&mut self, number: usize) {
        let bucket = self.stream.bucket;
        let node = &mut self.nodes[number];
        if node.member.is_none() || node.bucket == bucket {
            return;
        }
        node.bucket = bucket;
        node.keeping = None;
        self.log(|| format!("n{number} notices the other bucket"));
        self.step(number, Input::Forget { bucket });
        self.rewatch(number);
        self.claim(number);
        self.step(number, Input::Tick);
    }

    /// The watch begins anew.
    pub fn rewatch(&mut self, number: usize) {
        let end = self.stream.log.len();
        let node = &mut self.nodes[number];
        node.watch += 1;
        node.is_at_end = false;
        node.cursor = 0;
        node.catch_up = Some(end);
        let watch = node.watch;
        let delay = self.latency();
        self.after(delay, Event::Watch(number, watch));
    }

    fn watch(&mut self, number: usize) {
        let node = &self.nodes[number];
        let (cursor, watch) = (node.cursor, node.watch);
        if node.member.is_none() {
            return;
        }
        if node.deaf_until > self.now {
            return self.at(node.deaf_until, Event::Watch(number, watch));
        }
        if node.catch_up.is_some_and(|it| it <= cursor) {
            self.nodes[number].catch_up = None;
            self.step(number, Input::CaughtUp);
        }
        let Some(entry) = self.stream.log.get(cursor) else {
            self.nodes[number].is_at_end = true;
            return;
        };
        let catches_up = self.nodes[number].catch_up.is_some();
        let (key, shown) = (entry.key.clone(), (entry.sequence, entry.value.clone()));
        let is_shown = self.stream.is_last(cursor) || (!catches_up && self.chance.permille(500));
        self.nodes[number].cursor += 1;
        if is_shown {
            self.answer(number, Answer::Shown(key, Some(shown)));
        }
        let lags = self.faults.is_on(self.now) && self.chance.permille(self.faults.lag);
        let delay = match (is_shown, lags) {
            (false, _) => Duration::ZERO,
            (true, false) => Duration::from_micros(20),
            (true, true) => self.chance.millis(1, 3000),
        };
        self.after(delay, Event::Watch(number, watch));
    }

    /// Passes an input to a member, and carries out the effects.
    pub fn step(&mut self, number: usize, input: Input) {
        let now = self.now;
        let Some(member) = self.nodes[number].member.as_mut() else {
            return;
        };
        let effects = member.step(now, input);
        let wakeup = member.wakeup();
        for effect in effects {
            self.carry_out(number, effect);
        }
        let keeping = self.nodes[number].keeping.as_ref();
        let beat = keeping.map(|it| {
            let timeout = it.flying.map(|(_, at)| at);
            let is_answered = it.sequence > 0 || it.sent.is_empty();
            let next = timeout.or(is_answered.then_some(it.next_beat));
            next.map_or(it.over(), |next| next.min(it.over()))
        });
        if let Some(at) = wakeup.into_iter().chain(beat).min() {
            self.nodes[number].wake += 1;
            let wake = self.nodes[number].wake;
            self.at(at.max(now), Event::Wake(number, wake));
        }
        if self.nodes.len() < 10 {
            let alone = checks::alone(now, &self.nodes);
            self.fail(alone);
        }
    }

    fn carry_out(&mut self, number: usize, effect: Effect) {
        let start = self.nodes[number].start;
        match effect {
            Effect::TellNow => {
                if let Some(keeping) = &mut self.nodes[number].keeping {
                    keeping.again = true;
                }
                self.beat(number);
            }
            Effect::Write {
                op,
                key,
                over,
                value,
            } => self.send(number, What::Op(op), key, over, value),
            Effect::Read(key) => self.read(number, key),
            Effect::Collect(op) => {
                self.collects += 1;
                let delay = self.latency();
                self.after(delay, Event::Read(number, start, op, 0, Vec::new()));
            }
            Effect::Plan(request) => self.plan(number, &request),
            Effect::Start { unit, token, until } => {
                self.log(|| format!("n{number} starts {unit:?} by {}", token.sequence));
                self.events += 1;
                let Some(epoch) = self.nodes[number].epoch() else {
                    return self.fail(Err(format!("n{number} begins without an epoch")));
                };
                let handler_number = self.events;
                let handler = Handler {
                    number: handler_number,
                    epoch,
                    token,
                    until,
                    is_told: false,
                };
                let result = self.checks.start(&unit, token, epoch);
                self.fail(result);
                let former = self.nodes[number].handlers.insert(unit.clone(), handler);
                if former.is_some() {
                    self.fail(Err(format!("n{number} begins {unit:?} twice")));
                }
                if self.faults.is_on(self.now) && self.chance.permille(self.faults.returns) {
                    let delay = self.chance.millis(1, 5000);
                    self.after(
                        delay,
                        Event::HandlerEnds(number, start, unit, handler_number),
                    );
                }
            }
            Effect::Cancel { unit, until } => {
                self.log(|| format!("n{number} tells {unit:?} to end"));
                let delay = self.faults.ending(self.now, &mut self.chance);
                if let Some(handler) = self.nodes[number].handlers.get_mut(&unit) {
                    (handler.is_told, handler.until) = (true, until);
                    let handler = handler.number;
                    self.after(delay, Event::HandlerEnds(number, start, unit, handler));
                }
            }
            Effect::Extend(until) => {
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
                self.crash(number);
            }
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

    fn send(&mut self, number: usize, what: What, key: Key, over: Over, bytes: Vec<u8>) {
        let start = self.nodes[number].start;
        if let What::Op(op) = what {
            let outcome = WriteOutcome::Failed(Failure {
                kind: FailureKind::Timeout,
                detail: String::new(),
            });
            let input = Input::Written { op, outcome };
            let answer = Answer::Input(input.into());
            self.after(TIMEOUT, Event::Answer(number, start, answer));
        }
        let write = Sent {
            node: number,
            start,
            what,
            key,
            over,
            bytes,
            since: self.now,
            bucket: self.nodes[number].bucket,
        };
        let is_on = self.faults.is_on(self.now);
        let is_cut = self.nodes[number].cut_until > self.now;
        if is_cut || (is_on && self.chance.permille(self.faults.lost)) {
            // It is lost, or waits for long in a socket.
            if self.chance.permille(500) {
                let delay = self.chance.millis(1000, 20_000);
                self.after(delay, Event::Arrive(write));
            }
            return;
        }
        let delay = self.latency();
        self.after(delay, Event::Arrive(write));
    }

    fn arrive(&mut self, write: &Sent) {
        let current = self.stream.last_sequence(&write.key);
        let condition = match write.over {
            Over::Anything => None,
            Over::Sequence(over) => Some(over),
        };
        let (node, key) = (write.node, &write.key);
        let outcome = if condition.is_some_and(|over| over != current) {
            self.log(|| format!("refused: n{node} {key} over {condition:?}, is {current}"));
            WriteOutcome::Conflict {
                current: Some(current),
            }
        } else {
            let entry = self.stream.store(key, &write.bytes, condition);
            let (sequence, value) = (entry.sequence, entry.value.clone());
            self.show_all();
            self.log(|| format!("#{sequence} n{node} {}", brief(key, &value)));
            if let (Key::Member(_, epoch), Value::Ended) = (key, &value) {
                let result = self.checks.over(self.now, *epoch, &self.nodes);
                self.fail(result);
            }
            self.maps += usize::from(matches!(value, Value::Map(_)));
            let is_foreign = matches!((key, &value), (Key::Map(_), Value::Foreign));
            if is_foreign && !write.bytes.is_empty() && write.bucket == self.stream.bucket {
                self.fail(Err(format!("n{node} wrote a foreign map")));
            }
            WriteOutcome::Acked { revision: sequence }
        };
        let is_lost = self.faults.is_on(self.now) && self.chance.permille(self.faults.lost);
        let delay = self.latency();
        if write.bucket != self.stream.bucket {
            return;
        }
        if is_lost || (write.since + TIMEOUT < self.now + delay && self.chance.permille(500)) {
            return;
        }
        let answer = match write.what {
            What::Op(op) => Answer::Input(Input::Written { op, outcome }.into()),
            What::Beat(beat) => match outcome {
                WriteOutcome::Acked { revision } => Answer::Beat(beat, Some(revision)),
                _ => Answer::Beat(beat, None),
            },
        };
        self.after(delay, Event::Answer(node, write.start, answer));
    }

    pub fn read(&mut self, number: usize, key: Key) {
        let start = self.nodes[number].start;
        let is_lost = self.faults.is_on(self.now) && self.chance.permille(self.faults.lost);
        if !is_lost && self.nodes[number].cut_until <= self.now {
            let delay = self.latency();
            self.after(delay, Event::ReadKey(number, start, key));
        }
    }

    fn read_on(&mut self, number: usize, op: OpId, after: u64, mut found: Vec<Found>) {
        if self.nodes[number].bucket != self.stream.bucket {
            return;
        }
        let start = self.nodes[number].start;
        let is_lost = self.faults.is_on(self.now) && self.chance.permille(self.faults.lost);
        let entry = self.stream.next_member(after);
        let next = entry.map(|it| (it.sequence, it.key.clone(), it.value.clone()));
        let delay = self.latency();
        if let (Some((sequence, Key::Member(_, epoch), value)), false) = (next, is_lost) {
            found.push(Found {
                epoch,
                sequence,
                value,
            });
            return self.after(delay, Event::Read(number, start, op, sequence, found));
        }
        let found = (!is_lost).then_some(found);
        let input = Input::Collected { op, found };
        self.after(
            delay,
            Event::Answer(number, start, Answer::Input(input.into())),
        );
    }

    fn answer(&mut self, number: usize, answer: Answer) {
        match answer {
            Answer::Input(input) => self.step(number, *input),
            Answer::Beat(beat, stored) => self.beat_ended(number, beat, stored),
            Answer::Shown(key, Some((sequence, value))) => {
                let own = match &key {
                    Key::Member(_, epoch) if self.nodes[number].epoch() == Some(*epoch) => {
                        Some(value.clone())
                    }
                    _ => None,
                };
                self.step(
                    number,
                    Input::Shown {
                        key,
                        sequence,
                        value,
                    },
                );
                if let Some(value) = own {
                    self.shown_own(number, sequence, &value);
                }
            }
            Answer::Shown(key, None) => self.step(number, Input::Missing(key)),
        }
    }

    pub fn order(&mut self, number: usize, request: u64, order: Order) {
        self.log(|| format!("n{number} is ordered {order:?}"));
        self.step(number, Input::Order(RequestId(request), order));
    }

    pub fn leave(&mut self, number: usize) {
        self.log(|| format!("n{number} leaves"));
        self.nodes[number].leaves = true;
        self.step(number, Input::Leave);
    }
}

/// The lease.
impl World {
    fn claim(&mut self, number: usize) {
        let (high, low) = (self.chance.next(), self.chance.next());
        let epoch = Epoch::new(Uuid::from_u64_pair(high, low).into_bytes());
        let node = &mut self.nodes[number];
        if node.leaves {
            return;
        }
        node.keeping = Some(Keeping {
            epoch,
            ttl: node.ttl,
            claimed: self.now,
            sequence: 0,
            shown: 0,
            until: Moment::default(),
            sent: std::collections::BTreeMap::new(),
            flying: None,
            again: true,
            next_beat: self.now,
        });
        self.log(|| format!("n{number} claims {epoch}"));
        self.beat(number);
    }

    /// What is due of the lease.
    fn keep(&mut self, number: usize) {
        let now = self.now;
        let Some(keeping) = &mut self.nodes[number].keeping else {
            return;
        };
        let epoch = keeping.epoch;
        if keeping.over() <= now {
            return self.lose(number, epoch);
        }
        if keeping.flying.is_some_and(|(_, at)| at <= now) {
            // No answer: what is stored tells.
            keeping.flying = None;
            keeping.next_beat = now + Duration::from_millis(100);
            self.read(number, Self::member_key(epoch));
            self.read(number, Self::map_key());
        }
        self.beat(number);
        self.step(number, Input::Tick);
    }

    fn lose(&mut self, number: usize, epoch: Epoch) {
        self.log(|| format!("n{number} loses {epoch}"));
        self.nodes[number].keeping = None;
        self.step(number, Input::LeaseLost(epoch));
        self.claim(number);
        self.step(number, Input::Tick);
    }

    /// Sends a heartbeat or the claim, if one is due and none is under way.
    fn beat(&mut self, number: usize) {
        let (now, incarnation) = (self.now, Uuid::from_u128(number as u128 + 1));
        let node = &mut self.nodes[number];
        let Some(acknowledgement) = node.member.as_ref().map(Member::acknowledgement) else {
            return;
        };
        let Some(keeping) = &mut node.keeping else {
            return;
        };
        let is_first = keeping.sequence == 0;
        if keeping.flying.is_some()
            || !(keeping.again || keeping.next_beat <= now)
            || (is_first && !keeping.sent.is_empty())
        {
            return;
        }
        node.beat += 1;
        let nonce = Nonce {
            incarnation,
            beat: node.beat,
        };
        let id = InstanceId::new(&node.id).expect("a name");
        let mut record = MemberRecord::new(keeping.epoch, id, nonce, keeping.ttl);
        keeping.sent.insert(node.beat, (now, acknowledgement.stamp));
        if is_first {
            record.waits = acknowledgement.waits;
        } else {
            acknowledgement.tell(&mut record);
        }
        keeping.flying = Some((node.beat, now + TIMEOUT));
        keeping.again = false;
        keeping.next_beat = now + keeping.ttl / 3;
        let (what, over) = (What::Beat(node.beat), Over::Sequence(keeping.sequence));
        let key = Self::member_key(keeping.epoch);
        self.send(number, what, key, over, record.to_json());
    }

    fn beat_ended(&mut self, number: usize, beat: u64, stored: Option<u64>) {
        let Some(keeping) = &mut self.nodes[number].keeping else {
            return;
        };
        let epoch = keeping.epoch;
        if !keeping.sent.contains_key(&beat) {
            return;
        }
        if keeping.flying.is_some_and(|(it, _)| it == beat) {
            keeping.flying = None;
        }
        match stored {
            Some(sequence) => {
                keeping.sequence = keeping.sequence.max(sequence);
                let is_deaf = self.nodes[number].deaf_until > self.now;
                if is_deaf {
                    self.read(number, Self::member_key(epoch));
                    self.read(number, Self::map_key());
                }
            }
            None => self.read(number, Self::member_key(epoch)),
        }
        self.beat(number);
        self.step(number, Input::Tick);
    }

    /// The own key was shown.
    fn shown_own(&mut self, number: usize, sequence: u64, value: &Value) {
        let Some(keeping) = &mut self.nodes[number].keeping else {
            return;
        };
        if sequence <= keeping.shown {
            return;
        }
        let epoch = keeping.epoch;
        let sent = match value {
            Value::Member(it) => keeping.sent.get(&it.beat).copied(),
            _ => None,
        };
        let Some((sent, stamp)) = sent else {
            if sequence > keeping.sequence {
                self.lose(number, epoch);
            }
            return;
        };
        keeping.shown = sequence;
        keeping.sequence = keeping.sequence.max(sequence);
        let until = sent + keeping.ttl;
        if until <= self.now || (keeping.is_held() && keeping.until <= self.now) {
            return;
        }
        keeping.until = keeping.until.max(until);
        let lease = Lease {
            epoch,
            until: keeping.until,
            sequence,
            stamp,
        };
        self.step(number, Input::Leased(lease));
    }
}
