//! A candidate of the Go library whose record format ours continues, as it behaves on a key.
//!
//! It claims by Create, once when it starts, and from then on by up to four attempts whenever it
//! finds the key free: missing, or its value empty, or its bucket gone. Attempts that meet do not
//! know of each other, and the last one to fail makes a follower of who has just won. It renews by
//! Update with the revision of its last one, and gives up when the third heartbeat in a row has
//! failed, whatever the reason. With a priority it updates over a living leader of lower priority.
//! Stopping it deletes the key, whoever wrote it.
//!
//! It follows by a watch that loses most of what happens ([`Losses`]), and by a Get every 500 ms,
//! which does the work.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_nats::jetstream::kv::{self, Entry, Operation};
use futures::StreamExt;
use nats_elect_testing::eventually;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::MissedTickBehavior;
use uuid::Uuid;

use super::bucket::Stranger;
use super::clock::Stamp;
use super::journal::RecordedTerm;
use super::{ROLE, SOON, ms};

/// How often it looks at the key.
pub const POLL: Duration = ms(500);
/// How long it waits at most before it claims what it found free.
pub const JITTER: Duration = ms(100);
const LEAST_JITTER: Duration = ms(10);
const ATTEMPTS: u32 = 4;
const BACKOFF: Duration = ms(50);
const HEARTBEATS_TO_DOUBT: usize = 3;

/// A record, as that library reads and writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForeignRecord {
    pub id: String,
    pub token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<BTreeMap<String, String>>,
    /// What a later version of it might add.
    #[serde(flatten, skip_deserializing)]
    pub more: BTreeMap<String, Value>,
}

/// What a candidate is to be.
#[derive(Clone, Debug)]
pub struct Candidacy {
    id: String,
    heartbeat: Duration,
    priority: Option<i64>,
    more: BTreeMap<String, Value>,
}

/// A running candidate. Dropping it is a crash.
pub struct Foreign {
    candidacy: Candidacy,
    store: kv::Store,
    mind: Arc<Mutex<Mind>>,
    frozen: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// What it thinks.
#[derive(Debug, Default)]
struct Mind {
    reigns: Vec<Reign>,
    leader: Option<ForeignRecord>,
}

/// A time in which it believed to lead.
#[derive(Clone, Copy, Debug)]
pub struct Reign {
    pub start: Stamp,
    pub end: Option<Stamp>,
}

impl Candidacy {
    pub fn new(id: &str, heartbeat: Duration) -> Self {
        Self {
            id: id.to_owned(),
            heartbeat,
            priority: None,
            more: BTreeMap::new(),
        }
    }

    /// With the flag that takes over from lower priorities.
    pub fn priority(mut self, priority: i64) -> Self {
        self.priority = Some(priority);
        self
    }

    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.more.insert(name.to_owned(), value);
        self
    }

    pub async fn start(self, stranger: &Stranger) -> Foreign {
        let store = stranger.store().await;
        let (frozen, thaw) = watch::channel(false);
        let mind = Arc::<Mutex<Mind>>::default();
        let running = Running {
            candidacy: self.clone(),
            store: store.clone(),
            mind: Arc::clone(&mind),
            thaw,
        };
        Foreign {
            candidacy: self,
            store,
            mind,
            frozen,
            task: tokio::spawn(running.run()),
        }
    }
}

impl Foreign {
    /// Whether it believes to lead.
    pub fn believes(&self) -> bool {
        self.mind.lock().expect("no panic").believes()
    }

    pub fn reigns(&self) -> Vec<Reign> {
        self.mind.lock().expect("no panic").reigns.clone()
    }

    /// The last record of another that it understood.
    pub fn leader(&self) -> Option<ForeignRecord> {
        self.mind.lock().expect("no panic").leader.clone()
    }

    /// Waits until it believes to lead for the time number `index`, from 0.
    pub async fn reigned(&self, index: usize) -> Reign {
        let what = format!("leadership {index} of {}", self.candidacy.id);
        eventually(SOON, &what, async || self.reigns().into_iter().nth(index)).await
    }

    /// Waits until it has understood that this one leads.
    pub async fn wait_until_following(&self, leader: &str) -> ForeignRecord {
        let what = format!("{} following {leader}", self.candidacy.id);
        eventually(SOON, &what, async || {
            let known = self.leader().filter(|known| known.id == leader);
            known.filter(|_| !self.believes())
        })
        .await
    }

    /// It stands still, and believes what it believed.
    pub fn freeze(&self) {
        self.frozen.send_replace(true);
    }

    pub fn thaw(&self) {
        self.frozen.send_replace(false);
    }

    /// Its process is gone; returns when that was.
    pub fn crash(&self) -> Stamp {
        self.task.abort();
        let end = Stamp::now();
        self.mind.lock().expect("no panic").end(end);
        end
    }

    /// Stops it as with `DeleteKey`: it is no leader any more, then the key is deleted, whoever
    /// wrote it.
    pub async fn stop(&self) -> Stamp {
        let end = self.crash();
        self.delete_key().await;
        end
    }

    pub async fn delete_key(&self) {
        self.store.delete(ROLE).await.expect("delete");
    }

    /// For how long it believed to lead while those handlers ran.
    pub fn overlap(&self, terms: &[RecordedTerm]) -> Duration {
        let now = Stamp::now();
        let mut overlap = Duration::ZERO;
        for reign in self.reigns() {
            for recorded in terms {
                let start = reign.start.max(recorded.start);
                let end = reign.end.unwrap_or(now).min(recorded.end.unwrap_or(now));
                overlap += end.since(start);
            }
        }
        overlap
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Mind {
    fn believes(&self) -> bool {
        self.reigns.last().is_some_and(|reign| reign.end.is_none())
    }

    /// It leads from now on; returns which time it is.
    fn begin(&mut self) -> usize {
        let start = Stamp::now();
        self.end(start);
        self.reigns.push(Reign { start, end: None });
        self.reigns.len()
    }

    /// Whether that time goes on.
    fn is_in(&self, reign: usize) -> bool {
        self.reigns.len() == reign && self.believes()
    }

    fn end(&mut self, end: Stamp) {
        if let Some(reign) = self.reigns.last_mut() {
            reign.end.get_or_insert(end);
        }
    }
}

/// What its watch hears. Each turn of its loop begins to listen anew and hears nothing else, while
/// those who listened in earlier turns go on taking what comes, each in its turn, until they have
/// taken two messages that nobody asks for.
#[derive(Default)]
struct Losses {
    turn: u64,
    /// Those who wait for a message: the turn, and what was lost with it.
    waiting: VecDeque<(u64, u32)>,
}

impl Losses {
    const ROOM: u32 = 2;

    fn begin_turn(&mut self) {
        self.turn += 1;
        self.waiting.push_back((self.turn, 0));
    }

    /// Takes a message; whether this turn hears it.
    fn hears(&mut self) -> bool {
        let (turn, lost) = self.waiting.pop_front().expect("the turn's own");
        let heard = turn == self.turn;
        let lost = lost + u32::from(!heard);
        if lost < Self::ROOM {
            self.waiting.push_back((turn, lost));
        }
        heard
    }
}

#[derive(Clone)]
struct Running {
    candidacy: Candidacy,
    store: kv::Store,
    mind: Arc<Mutex<Mind>>,
    thaw: watch::Receiver<bool>,
}

impl Running {
    async fn run(mut self) {
        let mut tasks = JoinSet::new();
        if let Some(led) = self.attempt().await {
            // Who leads from the start watches nothing.
            self.lead(led).await;
        }
        let mut changes = self.store.watch_with_history(ROLE).await.expect("a watch");
        let mut losses = Losses::default();
        let mut poll = tokio::time::interval(POLL);
        poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
        poll.reset();
        loop {
            losses.begin_turn();
            let claims = loop {
                tokio::select! {
                    Some(Ok(change)) = changes.next() => if losses.hears() {
                        break self.heard(&change);
                    },
                    _ = poll.tick() => break !self.believes() && self.looks_free().await,
                    Some(_) = tasks.join_next() => {}
                }
            };
            self.stand_still().await;
            if claims {
                tasks.spawn(self.clone().claim());
            }
        }
    }

    async fn stand_still(&mut self) {
        self.thaw
            .wait_for(|frozen| !frozen)
            .await
            .expect("its owner");
    }

    fn mind(&self) -> MutexGuard<'_, Mind> {
        self.mind.lock().expect("no panic")
    }

    fn believes(&self) -> bool {
        self.mind().believes()
    }

    /// Whether it is to claim the role after this change.
    fn heard(&self, change: &Entry) -> bool {
        if change.value.is_empty() {
            return true;
        }
        let Ok(leader) = serde_json::from_slice::<ForeignRecord>(&change.value) else {
            return false;
        };
        let mut mind = self.mind();
        if mind.believes() {
            if leader.id != self.candidacy.id {
                mind.end(Stamp::now());
            }
            return false;
        }
        let known = mind.leader.replace(leader.clone());
        known.is_some_and(|known| known.id == leader.id) && self.outranks(&leader)
    }

    /// Whether there is nothing that it could read.
    async fn looks_free(&self) -> bool {
        let Ok(Some(entry)) = self.store.entry(ROLE).await else {
            return true;
        };
        if entry.operation != Operation::Put || entry.value.is_empty() {
            return true;
        }
        if let Ok(leader) = serde_json::from_slice(&entry.value) {
            self.mind().leader = Some(leader);
        }
        false
    }

    fn outranks(&self, leader: &ForeignRecord) -> bool {
        let own = self.candidacy.priority;
        own.is_some_and(|own| leader.priority.unwrap_or(0) < own)
    }

    /// Tries a few times. If all fail it follows, also if another attempt of its own has just led
    /// it to leadership.
    async fn claim(mut self) {
        let jitter = rand::random_range(LEAST_JITTER..JITTER);
        tokio::time::sleep(jitter).await;
        for attempt in 0..ATTEMPTS {
            self.stand_still().await;
            if let Some(led) = self.attempt().await {
                return self.lead(led).await;
            }
            if attempt + 1 < ATTEMPTS {
                tokio::time::sleep(BACKOFF * 2_u32.pow(attempt)).await;
            }
        }
        self.mind().end(Stamp::now());
    }

    /// Creates the key, or takes it over; returns its record and revision.
    async fn attempt(&self) -> Option<(Vec<u8>, u64)> {
        let own = serde_json::to_vec(&self.record()).expect("a record");
        if let Some(revision) = self.create(&own).await {
            return Some((own, revision));
        }
        self.candidacy.priority?;
        let entry = self.store.entry(ROLE).await.ok()??;
        let leader: ForeignRecord = serde_json::from_slice(&entry.value).ok()?;
        if !self.outranks(&leader) {
            self.mind().leader = Some(leader);
            return None;
        }
        let value = own.clone().into();
        let updated = self.store.update(ROLE, value, entry.revision).await;
        Some((own, updated.ok()?))
    }

    /// Where nothing stands, or over a delete marker of the Key-Value API. The marker of an expiry
    /// is none of those.
    async fn create(&self, value: &[u8]) -> Option<u64> {
        let write = async |over| self.store.update(ROLE, value.to_vec().into(), over).await;
        if let Ok(revision) = write(0).await {
            return Some(revision);
        }
        let subject = format!("{}{ROLE}", self.store.prefix);
        let last = self
            .store
            .stream
            .get_last_raw_message_by_subject(&subject)
            .await;
        let marker = last
            .ok()
            .filter(|last| last.headers.get("KV-Operation").is_some())?;
        write(marker.sequence).await.ok()
    }

    async fn lead(&mut self, (value, mut revision): (Vec<u8>, u64)) {
        let reign = self.mind().begin();
        let mut beats = tokio::time::interval(self.candidacy.heartbeat);
        beats.reset();
        let mut failed = 0;
        while failed < HEARTBEATS_TO_DOUBT {
            beats.tick().await;
            if *self.thaw.borrow() {
                self.stand_still().await;
                // One beat was due meanwhile, the next one is a whole one away.
                beats.reset();
            }
            if !self.mind().is_in(reign) {
                return;
            }
            let renewed = self.store.update(ROLE, value.clone().into(), revision);
            match renewed.await {
                Ok(renewed) => (revision, failed) = (renewed, 0),
                Err(_) => failed += 1,
            }
        }
        self.mind().end(Stamp::now());
    }

    fn record(&self) -> ForeignRecord {
        ForeignRecord {
            id: self.candidacy.id.clone(),
            token: Uuid::from_u128(rand::random()).to_string(),
            priority: self.candidacy.priority,
            meta: None,
            more: self.candidacy.more.clone(),
        }
    }
}
