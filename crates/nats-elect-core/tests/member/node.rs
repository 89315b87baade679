//! A process with one member.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::assignment::Epoch;
use nats_elect_core::member::{Member, UnitId};
use nats_elect_core::token::FencingToken;

#[derive(Debug)]
pub struct Node {
    pub number: usize,
    /// The id of its instance.
    pub id: String,
    /// Counts the starts.
    pub start: u64,
    /// The creation time of the bucket that it knows.
    pub bucket: u64,
    pub member: Option<Member>,
    /// Its lease.
    pub ttl: Duration,
    pub handlers: BTreeMap<UnitId, Handler>,
    /// The place of the watch in the stream's log.
    pub cursor: usize,
    /// How far the watch has to come to have caught up.
    pub catch_up: Option<usize>,
    /// Up to this sequence it shows nothing: where writes were lost, sequences are given again.
    pub passed: u64,
    pub watch: u64,
    /// Whether it has shown all there is.
    pub is_at_end: bool,
    pub wake: u64,
    pub paused_until: Moment,
    /// The watch shows nothing until then.
    pub deaf_until: Moment,
    /// Nothing that it sends arrives until then.
    pub cut_until: Moment,
    /// Its reads of all members' keys show what was stored so far: they are answered by a server that
    /// led the stream then.
    pub reads_until: Option<usize>,
    /// Its watch is one of a server that is behind: it shows what had been stored when the log was so
    /// long, and nothing more.
    pub stale: Option<usize>,
    /// The server refuses its writes of the map.
    pub is_refused: bool,
    /// Its handlers of these shards take longer to end than their lease.
    pub slow: BTreeSet<u32>,
    /// Its handlers of these shards fail at once.
    pub fails: BTreeSet<u32>,
    /// What it did and was shown since its start, as far as rules are about it.
    pub past: Past,
}

/// What a process did and was shown since its start.
#[derive(Debug, Default)]
pub struct Past {
    /// When it sent each heartbeat, by its number.
    pub beats: BTreeMap<u64, Moment>,
    /// The heartbeats of its own that it was shown.
    pub shown: BTreeSet<u64>,
    /// All epochs that it claimed.
    pub claimed: BTreeSet<Epoch>,
    /// What it acknowledged last, as this epoch.
    pub acknowledged: Option<(Epoch, u64)>,
    pub leaves: bool,
    /// Until then it waits for leases of another bucket.
    pub waits_until: Moment,
}

#[derive(Clone, Debug)]
pub struct Handler {
    pub number: u64,
    pub epoch: Epoch,
    pub token: FencingToken,
    pub until: Moment,
    pub is_told: bool,
    /// It ends by itself, as a failure.
    pub fails: bool,
}

impl Node {
    pub fn new(number: usize) -> Self {
        Self {
            number,
            id: format!("n{number}"),
            start: 0,
            bucket: 0,
            member: None,
            ttl: Duration::ZERO,
            handlers: BTreeMap::new(),
            cursor: 0,
            catch_up: None,
            passed: 0,
            watch: 0,
            is_at_end: false,
            wake: 0,
            paused_until: Moment::default(),
            deaf_until: Moment::default(),
            cut_until: Moment::default(),
            reads_until: None,
            stale: None,
            is_refused: false,
            slow: BTreeSet::new(),
            fails: BTreeSet::new(),
            past: Past::default(),
        }
    }

    pub fn epoch(&self) -> Option<Epoch> {
        self.member.as_ref()?.epoch()
    }

    /// The handlers that act.
    pub fn acting(&self, now: Moment) -> impl Iterator<Item = (&UnitId, &Handler)> {
        self.handlers.iter().filter(move |(_, it)| now < it.until)
    }
}
