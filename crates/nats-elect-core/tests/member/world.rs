//! The world: time, processes, and the effects of members.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::time::Duration;

use nats_elect_core::assignment::{Epoch, Key, LONGEST_LEASE, Profile, Units};
use nats_elect_core::member::{Input, Member, MemberSettings};
use nats_elect_core::name::{GroupName, InstanceId};
use nats_elect_core::{Bucket, HandlerEnd, Link, Moment, RequestId};
use uuid::Uuid;

use crate::chance::Chance;
use crate::checks::Checks;
use crate::event::{Answer, Due, Event};
use crate::faults::Faults;
use crate::network::TIMEOUT;
use crate::node::{Node, Past};
use crate::stream::Stream;
use crate::tally::Happened;

/// The lines that are told of a failure.
const LINES: usize = 2500;

pub struct World {
    pub now: Moment,
    pub chance: Chance,
    pub stream: Stream,
    pub nodes: Vec<Node>,
    pub faults: Faults,
    pub units: Units,
    /// The leases of all processes.
    pub leases: BTreeSet<Duration>,
    pub checks: Checks,
    pub failure: Option<String>,
    pub replies: Vec<(RequestId, nats_elect_core::member::Reply)>,
    pub maps: usize,
    pub happened: Happened,
    pub collects: usize,
    /// How long it took from the last fault until all was well.
    pub recovery: Duration,
    pub messages: Vec<String>,
    pub logs: bool,
    queue: BinaryHeap<Reverse<Due>>,
    pub events: u64,
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
            leases: BTreeSet::new(),
            checks: Checks::default(),
            failure: None,
            replies: Vec::new(),
            maps: 0,
            happened: Happened::new(),
            collects: 0,
            recovery: Duration::ZERO,
            messages: Vec::new(),
            logs: true,
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

    /// How long the last write under way still takes.
    pub fn under_way(&self) -> Duration {
        let writes = self
            .queue
            .iter()
            .filter(|it| matches!(it.0.2, Event::Arrive(_)));
        let times = writes.map(|it| it.0.0.since(self.now));
        times.max().unwrap_or_default()
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
            self.stream.now = self.now;
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
                if let Some(handler) = handler.filter(|it| it.number == number) {
                    let end = if handler.fails {
                        HandlerEnd::Failed
                    } else {
                        HandlerEnd::Returned
                    };
                    self.log(|| format!("n{node} ends {unit:?}: {end:?}"));
                    self.nodes[node].handlers.remove(&unit);
                    self.step(node, Input::HandlerEnded(unit, end));
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
            Event::Later(later) => self.beat_later(later),
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
        self.saw_if("a message is slow", slow);
        let most = if slow { 1500 } else { 4 };
        self.chance.millis(1, most)
    }

    /// Starts a process, unless it runs.
    pub fn start(&mut self, number: usize) {
        if self.nodes[number].member.is_some() {
            return;
        }
        let (now, (ttl, heartbeat)) = (self.now, self.faults.lease(&mut self.chance));
        let longest = self.leases.iter().chain([&ttl]).max().copied();
        let is_apart = longest.is_some_and(|it| it >= 16 * ttl)
            || ttl >= 16 * self.leases.iter().min().copied().unwrap_or(ttl);
        self.saw_if("leases are sixteen times apart", is_apart);
        self.leases.insert(ttl);
        self.saw_if("units have names", matches!(self.units, Units::Names(_)));
        let node = &mut self.nodes[number];
        let settings = MemberSettings {
            group: Self::group(),
            units: self.units.clone(),
            id: InstanceId::new(&node.id).expect("a name"),
            incarnation: Uuid::from_u128(number as u128 + 1),
            first_beat: (node.start + 1) << 32,
            ttl,
            heartbeat,
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
            ttl,
            ..Node::new(number)
        };
        self.log(|| format!("n{number} starts"));
        if self.faults.is_on(now) && self.chance.permille(self.faults.stale) {
            self.watch_stale(number);
        } else {
            self.rewatch(number);
        }
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
        let passed = self.stream.sequence;
        self.stream.lose(count);
        let last = self.stream.sequence;
        self.log(|| format!("WRITES ARE LOST after #{last}"));
        self.checks.lose(self.now, last);
        for number in 0..self.nodes.len() {
            let goes_on = self.chance.permille(300);
            let skips = self.chance.permille(500);
            let (node, end) = (&mut self.nodes[number], self.stream.log.len());
            node.cursor = node.cursor.min(end);
            node.catch_up = node.catch_up.map(|it| it.min(end));
            node.stale = node.stale.map(|it| it.min(end));
            if goes_on {
                node.passed = if skips { passed } else { 0 };
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
        if is_another {
            node.past = Past {
                waits_until: self.now + LONGEST_LEASE,
                leaves: node.past.leaves,
                ..Past::default()
            };
        }
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
        (node.cursor, node.passed) = (0, 0);
        node.stale = None;
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
        let length = self.stream.log.len();
        let stale = self.nodes[number].stale.map(|it| it.min(length));
        if stale.is_some_and(|it| it <= cursor) {
            return;
        }
        let Some(entry) = self.stream.log.get(cursor) else {
            self.nodes[number].is_at_end = true;
            return;
        };
        let catches_up = self.nodes[number].catch_up.is_some();
        let (key, shown) = (entry.key.clone(), (entry.sequence, entry.value.clone()));
        let seen = &self.stream.log[..stale.unwrap_or(cursor + 1).max(cursor + 1)];
        let is_last = stale.is_some() && !seen[cursor + 1..].iter().any(|it| it.key == key);
        let is_last = is_last || self.stream.is_last(cursor);
        let is_shown = is_last || (!catches_up && self.chance.permille(500));
        let is_shown = is_shown && shown.0 > self.nodes[number].passed;
        self.nodes[number].cursor += 1;
        if is_shown {
            self.answer(number, Answer::Shown(self.stream.bucket, key, Some(shown)));
        }
        let lags = self.faults.is_on(self.now) && self.chance.permille(self.faults.lag);
        self.saw_if("a watch lags", lags);
        let delay = match (is_shown, lags) {
            (false, _) => Duration::ZERO,
            (true, false) => Duration::from_micros(20),
            (true, true) => self.chance.millis(1, 3000),
        };
        self.after(delay, Event::Watch(number, watch));
    }
}

/// Who fails a test tells the last of what happened.
impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let rest = self.messages.len().saturating_sub(LINES);
            println!("{}", self.messages[rest..].join("\n"));
        }
    }
}
