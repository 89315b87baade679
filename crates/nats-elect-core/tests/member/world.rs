//! The world: time, processes, and the effects of members.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use nats_elect_core::assignment::{Epoch, Key, Profile, Units};
use nats_elect_core::member::{Effect, Fresh, Input, Member, MemberSettings, Order, PlanRequest};
use nats_elect_core::name::{GroupName, InstanceId};
use nats_elect_core::plan::plan;
use nats_elect_core::{Bucket, Link, Moment, RequestId};
use uuid::Uuid;

use crate::chance::Chance;
use crate::checks::{self, Checks};
use crate::event::{Answer, Due, Event, What};
use crate::faults::Faults;
use crate::network::TIMEOUT;
use crate::node::{Handler, Node};
use crate::stream::Stream;

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

    pub fn fail(&mut self, result: Result<(), String>) {
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
            }
            Event::Look(node, start, op, own) if self.is_alive(node, start) => {
                self.looked(node, start, op, &own);
            }
            Event::Read(node, start, op, after, found) if self.is_alive(node, start) => {
                self.read_on(node, op, after, found);
            }
            Event::ReadKey(node, ..) if self.nodes[node].bucket != self.stream.bucket => {}
            Event::ReadKey(node, start, key) => {
                let entry = self.stream.get(&key);
                let shown = entry.map(|it| (it.sequence, it.value.clone()));
                let delay = self.latency();
                let answer = Answer::Shown(self.stream.bucket, key, shown);
                self.after(delay, Event::Answer(node, start, answer));
            }
            Event::HandlerEnds(node, start, unit, number) if self.is_alive(node, start) => {
                let handler = self.nodes[node].handlers.get(&unit);
                if handler.is_some_and(|it| it.number == number) {
                    self.log(|| format!("n{node} ends {unit:?}"));
                    self.nodes[node].handlers.remove(&unit);
                    self.step(node, Input::HandlerEnded(unit));
                }
            }
            Event::Rewatch(node, start) if self.is_alive(node, start) => self.rewatch(node),
            Event::Start(node) => self.start(node),
            Event::Notice(node) => self.notice(node),
            Event::Expire(key, sequence) if self.stream.last_sequence(&key) == sequence => {
                self.log(|| format!("{key} expires"));
                self.stream.purge(&key);
            }
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
        let (now, ttl) = (self.now, self.faults.ttl(&mut self.chance));
        let node = &mut self.nodes[number];
        let settings = MemberSettings {
            group: Self::group(),
            units: self.units.clone(),
            id: InstanceId::new(&node.id).expect("a name"),
            incarnation: Uuid::from_u128(number as u128 + 1),
            first_beat: (node.start + 1) << 32,
            ttl,
            heartbeat: ttl / 3,
            request_timeout: TIMEOUT,
            profile: Profile::default(),
        };
        *node = Node {
            id: node.id.clone(),
            start: node.start + 1,
            watch: node.watch + 1,
            wake: node.wake + 1,
            member: Some(Member::new(settings, now)),
            bucket: self.stream.bucket,
            ..Node::new(number)
        };
        self.log(|| format!("n{number} starts"));
        self.rewatch(number);
        self.link(number);
    }

    /// The process uses the bucket as it is.
    fn link(&mut self, number: usize) {
        let bucket = Bucket {
            epoch: self.nodes[number].bucket,
            max_age: None,
            unique_sequences: true,
        };
        self.step(number, Input::Link(Link::Up(bucket)));
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

    /// The stream loses its last values, which were confirmed. Watches go on, or begin anew some time.
    pub fn lose_writes(&mut self, count: usize) {
        self.stream.lose(count);
        let last = self.stream.sequence;
        self.log(|| format!("WRITES ARE LOST after #{last}"));
        self.checks.lose(self.now, last);
        for number in 0..self.nodes.len() {
            let goes_on = self.chance.permille(300);
            let (node, end) = (&mut self.nodes[number], self.stream.log.len());
            node.cursor = node.cursor.min(end);
            node.catch_up = node.catch_up.map(|it| it.min(end));
            if goes_on {
                continue;
            }
            (node.watch, node.is_at_end) = (node.watch + 1, false);
            let (start, delay) = (node.start, self.chance.millis(1, 3000));
            self.after(delay, Event::Rewatch(number, start));
        }
    }

    fn notice(&mut self, number: usize) {
        let bucket = self.stream.bucket;
        let node = &mut self.nodes[number];
        if node.member.is_none() {
            return;
        }
        let is_another = node.bucket != bucket;
        node.bucket = bucket;
        self.log(|| format!("n{number} notices the other bucket"));
        self.link(number);
        if is_another {
            self.rewatch(number);
        }
    }

    /// The watch begins anew.
    pub fn rewatch(&mut self, number: usize) {
        if self.nodes[number].bucket != self.stream.bucket {
            return;
        }
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
            self.answer(number, Answer::Shown(self.stream.bucket, key, Some(shown)));
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
                let result = self.checks.forgets(number);
                self.fail(result);
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
                let result = self.checks.excuse(now, result);
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
            Effect::Extend { until, .. } => {
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

    pub fn order(&mut self, number: usize, request: u64, order: Order) {
        self.log(|| format!("n{number} is ordered {order:?}"));
        self.step(number, Input::Order(RequestId(request), order));
    }

    pub fn leave(&mut self, number: usize) {
        self.log(|| format!("n{number} leaves"));
        self.step(number, Input::Leave);
    }
}
