//! The events of the world, in the order of their times.

use std::time::Duration;

use nats_elect_core::assignment::{Key, Value};
use nats_elect_core::member::{Found, Input, Over, UnitId};
use nats_elect_core::{Moment, OpId};

use crate::faults::Fault;
use crate::versions::Later;

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
    /// The reads of the own key and of the map arrive there.
    Look(usize, u64, OpId, Key),
    HandlerEnds(usize, u64, UnitId, u64),
    Start(usize),
    /// A process notices that the bucket is another one.
    Notice(usize),
    /// The time to live of a value is over.
    Expire(Key, u64),
    Fault(Fault),
    /// A member of a later version writes.
    Later(Later),
    /// The watch begins anew.
    Rewatch(usize, u64),
}

#[derive(Debug)]
pub enum Answer {
    Input(Box<Input>),
    /// What a read or the watch of a bucket shows.
    Shown(u64, Key, Option<(u64, Value)>),
}

/// A write under way.
#[derive(Debug)]
pub struct Sent {
    pub node: usize,
    pub start: u64,
    pub what: What,
    pub key: Key,
    pub over: Over,
    pub bytes: Vec<u8>,
    pub since: Moment,
    pub bucket: u64,
}

#[derive(Clone, Copy, Debug)]
pub enum What {
    /// A write, and the time to live of its value.
    Op(OpId, Option<Duration>),
    /// A heartbeat, and the time for its answer.
    Beat(OpId, Duration),
}

/// An event, with its number among all.
pub struct Due(pub Moment, pub u64, pub Event);

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
