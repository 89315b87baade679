//! A process with one member.

use std::collections::{BTreeMap, BTreeSet};

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
    pub handlers: BTreeMap<UnitId, Handler>,
    /// The place of the watch in the stream's log.
    pub cursor: usize,
    /// How far the watch has to come to have caught up.
    pub catch_up: Option<usize>,
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
    /// Its handlers of these shards fail at once.
    pub fails: BTreeSet<u32>,
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
            handlers: BTreeMap::new(),
            cursor: 0,
            catch_up: None,
            watch: 0,
            is_at_end: false,
            wake: 0,
            paused_until: Moment::default(),
            deaf_until: Moment::default(),
            cut_until: Moment::default(),
            reads_until: None,
            fails: BTreeSet::new(),
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
