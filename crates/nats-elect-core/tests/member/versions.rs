//! Members of a later version, last wills, and watches at servers that are behind.

use std::time::Duration;

use nats_elect_core::assignment::{Epoch, Value, ended};
use nats_elect_core::member::Over;
use nats_elect_core::{Moment, OpId};

use crate::event::{Event, Sent, What};
use crate::faults::{Fault, Hand};
use crate::world::World;

/// A member of a later version.
#[derive(Clone, Copy, Debug)]
pub struct Later {
    pub epoch: Epoch,
    /// How many heartbeats are left. After the last one it leaves, or dies.
    pub left: usize,
}

/// No map of a later version is written after this time: somebody goes back before the faults end.
const LAST_MAP: Duration = Duration::from_secs(45);

/// The time after which somebody looks whether all have gone back.
const AGAIN: Duration = Duration::from_secs(5);

impl World {
    /// A companion ends the epoch of a process that is about to die.
    pub fn will(&mut self, number: usize) {
        let has_will = self.faults.is_on(self.now) && self.chance.permille(self.faults.wills);
        let Some(epoch) = self.nodes[number].epoch().filter(|_| has_will) else {
            return;
        };
        self.saw("a last will is carried out");
        let delay = self.chance.millis(1, 2000);
        let write = Sent {
            node: number,
            start: 0,
            what: What::Op(OpId(0), None),
            key: Self::member_key(epoch),
            over: Over::Anything,
            bytes: ended(epoch),
            since: self.now,
            bucket: self.nodes[number].bucket,
        };
        self.after(delay, Event::Arrive(write));
    }

    /// The watch begins anew at a server that is behind, and some time later at another one.
    pub fn watch_stale(&mut self, number: usize) {
        if self.nodes[number].member.is_none() {
            return;
        }
        self.saw(Fault::Stale.name());
        self.rewatch(number);
        let length = self.stream.log.len();
        let behind = self.chance.below(length.min(40) + 1);
        let node = &mut self.nodes[number];
        node.stale = Some(length - behind);
        node.catch_up = node.stale;
        let (start, delay) = (node.start, self.chance.millis(10, 5000));
        self.after(delay, Event::Rewatch(number, start));
    }

    /// A member of a later version joins.
    pub fn join_later(&mut self) {
        self.saw("a member of a later version is there");
        let (high, low) = (self.chance.next(), self.chance.next());
        let bytes = uuid::Uuid::from_u64_pair(high, low).into_bytes();
        let left = self.chance.below(5);
        let epoch = Epoch::new(bytes);
        self.beat_later(Later { epoch, left });
    }

    /// It writes its record, or ends.
    pub fn beat_later(&mut self, later: Later) {
        let Later { epoch, left } = later;
        let key = Self::member_key(epoch);
        let ends = left == 0 && self.chance.permille(500);
        let value = if ends {
            ended(epoch)
        } else {
            format!(r#"{{"v":2,"epoch":"{epoch}"}}"#).into_bytes()
        };
        let is_over = self.stream.was_over(&key);
        if !is_over {
            self.stream.store(&key, &value, None);
            self.show_all();
        }
        if let (Some(left), false) = (left.checked_sub(1), is_over) {
            self.after(Duration::from_secs(1), Event::Later(Later { epoch, left }));
        }
    }

    /// A member of a later version writes a map that nobody else can follow.
    pub fn write_later_map(&mut self) {
        let key = Self::map_key();
        let over = self.stream.last_sequence(&key);
        let start = Moment::from_nanos(1_000_000_000);
        let is_map = self
            .stream
            .get(&key)
            .is_some_and(|it| matches!(it.value, Value::Map(_)));
        if !is_map || self.now > start + LAST_MAP {
            return;
        }
        self.saw("a map of a later version is there");
        let bucket = self.stream.bucket;
        let value = format!(r#"{{"v":2,"bucket":{bucket},"over":{over}}}"#);
        self.stream.store(&key, value.as_bytes(), Some(over));
        self.show_all();
        let delay = self.chance.millis(1000, 10_000);
        self.after(delay, Event::Fault(Fault::GoBack));
    }

    /// Somebody goes back: no process of the later version is left, its map is overwritten, and all
    /// others begin anew. It may come back, from a backup or a server that is behind.
    pub fn go_back(&mut self) {
        let key = Self::map_key();
        let value = self.stream.get(&key).map(|it| &it.value);
        let is_there = value == Some(&Value::LaterMap);
        if is_there {
            self.touch(&key, Hand::Rubbish);
        }
        let is_left = (0..self.nodes.len()).filter(|it| is_there || self.is_shown_later_map(*it));
        let is_left: Vec<_> = is_left.collect();
        for number in &is_left {
            self.crash(*number);
            let delay = self.chance.millis(1, 1000);
            self.after(delay, Event::Start(*number));
        }
        self.after(AGAIN, Event::Fault(Fault::GoBack));
    }

    /// Whether a process says that it leaves, and nobody asked it to.
    fn is_shown_later_map(&self, number: usize) -> bool {
        let node = &self.nodes[number];
        let key = node.epoch().map(Self::member_key);
        let entry = key.and_then(|key| self.stream.get(&key));
        let leaves = entry.is_some_and(|it| matches!(&it.value, Value::Member(it) if it.leaves));
        leaves && !node.past.leaves
    }
}
