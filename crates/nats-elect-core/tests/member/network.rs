//! Writes, reads and their answers, on their way and at the server.

use std::time::Duration;

use nats_elect_core::assignment::{Key, Value};
use nats_elect_core::member::{Found, Input, Look, Over};
use nats_elect_core::{Failure, OpId, WriteOutcome, event::FailureKind};

use crate::event::{Answer, Event, Sent, What};
use crate::rules;
use crate::stream::{CONDITION, Entry, brief};
use crate::world::World;

/// After this time without an answer a write has failed.
pub const TIMEOUT: Duration = Duration::from_secs(1);

fn timeout() -> Failure {
    Failure {
        kind: FailureKind::Timeout,
        detail: String::new(),
    }
}

fn ended(what: What, outcome: WriteOutcome) -> Input {
    match what {
        What::Op(op, _) => Input::Written { op, outcome },
        What::Beat(op, _) => Input::BeatEnded { op, outcome },
    }
}

impl World {
    pub fn send(&mut self, number: usize, what: What, key: Key, over: Over, bytes: Vec<u8>) {
        let within = match what {
            What::Op(..) => TIMEOUT,
            What::Beat(_, within) => within,
        };
        let start = self.nodes[number].start;
        let answer = Answer::Input(ended(what, WriteOutcome::Failed(timeout())).into());
        self.after(within, Event::Answer(number, start, answer));
        if matches!(key, Key::Map(_)) && self.nodes[number].is_refused {
            return;
        }
        let is_map = matches!(key, Key::Map(_)) && !bytes.is_empty();
        if let What::Beat(..) = what {
            self.beats(number, &key, &bytes);
        } else if is_map {
            self.writes_map(number, over, &bytes);
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
        if is_map && is_on && self.chance.permille(self.faults.amid) {
            self.saw("a process is paused amid its write of a map");
            let until = self.now + self.chance.millis(500, 12_000);
            self.nodes[number].paused_until = until;
            let delay = self.chance.millis(1, 15_000);
            return self.after(delay, Event::Arrive(write));
        }
        if is_cut || (is_on && self.chance.permille(self.faults.lost)) {
            self.saw("a message is lost");
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

    /// A map is sent.
    fn writes_map(&mut self, number: usize, over: Over, bytes: &[u8]) {
        let condition = match over {
            Over::Anything => None,
            Over::Sequence(over) => Some(over.to_string()),
        };
        let headers = condition.as_deref().map(|it| (CONDITION, it));
        let (key, bucket) = (Self::map_key(), self.nodes[number].bucket);
        let value = Value::read(&key, u64::MAX, bytes, headers, bucket);
        if let (Value::Map(map), true) = (value, bucket == self.stream.bucket) {
            let has_lost = self.checks.has_lost();
            let result = rules::writes(&self.stream, &self.nodes[number], &map, has_lost);
            let result = self.checks.excuse(self.now, result);
            self.fail(result);
        }
    }

    /// A heartbeat is sent.
    fn beats(&mut self, number: usize, key: &Key, bytes: &[u8]) {
        let value = Value::read(key, u64::MAX, bytes, [], self.stream.bucket);
        let Value::Member(record) = value else {
            return self.fail(Err(format!("n{number} sends no record")));
        };
        self.saw_record(number, &record);
        let node = &self.nodes[number];
        let result = rules::acknowledges(self.now, &self.stream, node, &record);
        let is_here = node.bucket == self.stream.bucket;
        let result = if is_here { result } else { Ok(()) };
        let result = self.checks.excuse(self.now, result);
        self.fail(result);
        let past = &mut self.nodes[number].past;
        past.beats.insert(record.beat, self.now);
        past.claimed.insert(record.epoch);
        past.acknowledged = Some((record.epoch, record.follows));
    }

    pub fn arrive(&mut self, write: &Sent) {
        let current = self.stream.last_sequence(&write.key);
        let condition = match write.over {
            Over::Anything => None,
            Over::Sequence(over) => Some(over),
        };
        let (node, key) = (write.node, &write.key);
        let former = self.stream.get(key).cloned();
        let outcome = if condition.is_some_and(|over| over != current) {
            self.log(|| format!("refused: n{node} {key} over {condition:?}, is {current}"));
            self.saw_if(
                "a map is refused",
                matches!(key, Key::Map(_)) && !write.bytes.is_empty(),
            );
            WriteOutcome::Conflict {
                current: Some(current),
            }
        } else {
            let expires = matches!(write.what, What::Op(_, Some(_)));
            let ttl = expires.then_some(("Nats-TTL", "3600s"));
            let (bytes, headers) = (&write.bytes, ttl.as_slice());
            let entry = self.stream.store_with(key, bytes, condition, headers);
            let (sequence, value) = (entry.sequence, entry.value.clone());
            if expires {
                // Far too early: nothing may rest on the time.
                let delay = self.chance.millis(0, 5000);
                self.after(delay, Event::Expire(key.clone(), sequence));
            }
            self.show_all();
            self.log(|| format!("#{sequence} n{node} {}", brief(key, &value)));
            self.saw_stored(write, former.as_ref(), &value);
            let is_here = write.bucket == self.stream.bucket;
            let is_beat = is_here && condition != Some(0);
            if let (Key::Member(_, epoch), Value::Member(_), true) = (key, &value, is_beat) {
                let is_end = |it: &&Entry| matches!(it.value, Value::Ended | Value::Expiring);
                let end = former.as_ref().filter(is_end);
                let over_lost = end.is_none_or(|it| self.stream.has_lost_at(key, it.sequence));
                let result = self.checks.goes_on(*epoch, over_lost);
                self.fail(result);
            }
            if let (Key::Member(_, epoch), Value::Ended) = (key, &value) {
                let result = self.checks.over(self.now, *epoch, &self.nodes);
                let stricter = rules::ends(
                    self.now,
                    &self.stream,
                    &self.nodes[node],
                    former.as_ref(),
                    write,
                );
                let result = result.and(if is_here { stricter } else { Ok(()) });
                let result = self.checks.excuse(self.now, result);
                self.fail(result);
            }
            if let Value::Map(map) = &value {
                let result = rules::follows(&self.stream, map, self.checks.lost_until);
                let result = result.and_then(|()| rules::enters(&self.stream, map));
                let result = self.checks.excuse(self.now, result);
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
        let answer = Answer::Input(ended(write.what, outcome).into());
        self.after(delay, Event::Answer(node, write.start, answer));
    }

    /// Sends the reads of the own key and of the map.
    pub fn look(&mut self, number: usize, op: OpId, within: Duration, own: Key) {
        let start = self.nodes[number].start;
        let found = Err(timeout());
        let answer = Answer::Input(Input::Looked { op, found }.into());
        self.after(within, Event::Answer(number, start, answer));
        let is_lost = self.faults.is_on(self.now) && self.chance.permille(self.faults.lost);
        if !is_lost && self.nodes[number].cut_until <= self.now {
            let delay = self.latency();
            self.after(delay, Event::Look(number, start, op, own));
        }
    }

    pub fn looked(&mut self, number: usize, start: u64, op: OpId, own: &Key) {
        let read = |key: &Key| {
            let entry = self.stream.get(key)?;
            Some((entry.sequence, entry.value.clone()))
        };
        let (own, map) = (read(own), read(&Self::map_key()));
        if let Some((_, Value::Member(it))) = &own {
            self.nodes[number].past.shown.insert(it.beat);
        }
        let look = Look {
            bucket: Some(self.stream.bucket),
            own,
            map,
        };
        let input = Input::Looked {
            op,
            found: Ok(look),
        };
        let delay = self.latency();
        self.after(
            delay,
            Event::Answer(number, start, Answer::Input(input.into())),
        );
    }

    pub fn read(&mut self, number: usize, key: Key) {
        let start = self.nodes[number].start;
        let is_lost = self.faults.is_on(self.now) && self.chance.permille(self.faults.lost);
        if !is_lost && self.nodes[number].cut_until <= self.now {
            let delay = self.latency();
            self.after(delay, Event::ReadKey(number, start, key));
        }
    }

    pub fn read_on(&mut self, number: usize, op: OpId, after: u64, mut found: Vec<Found>) {
        if self.nodes[number].bucket != self.stream.bucket {
            return;
        }
        let start = self.nodes[number].start;
        let is_lost = self.faults.is_on(self.now) && self.chance.permille(self.faults.lost);
        let until = self.nodes[number].reads_until;
        let entry = self.stream.next_member(after, until);
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
        for it in &found {
            if let Value::Member(it) = &it.value {
                self.nodes[number].past.shown.insert(it.beat);
            }
        }
        let found = (!is_lost).then_some(found);
        let input = Input::Collected { op, found };
        self.after(
            delay,
            Event::Answer(number, start, Answer::Input(input.into())),
        );
    }

    pub fn answer(&mut self, number: usize, answer: Answer) {
        match answer {
            Answer::Input(input) => self.step(number, *input),
            Answer::Shown(bucket, ..) if bucket != self.nodes[number].bucket => {}
            Answer::Shown(_, key, Some((sequence, value))) => {
                if let Value::Member(it) = &value {
                    self.nodes[number].past.shown.insert(it.beat);
                }
                let shown = Input::Shown {
                    key,
                    sequence,
                    value,
                };
                self.step(number, shown);
            }
            Answer::Shown(_, key, None) => self.step(number, Input::Missing(key)),
        }
    }
}
