//! A candidate of the Go library whose record format ours continues, as it behaves on a key.
//!
//! It claims by Create, renews by Update with the revision of its last one, and gives up only when the third heartbeat in a
//! row has failed, whatever the reason. It follows by a watch, and by a Get every 500 ms. A key that is missing, or whose value
//! is empty, is free. With a priority it updates over a living leader of lower priority. Stopping it deletes the key,
//! whoever wrote it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::kv::{self, Operation};
use futures::StreamExt;
use nats_elect::testing::eventually;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::bucket::Stranger;
use super::clock::Stamp;
use super::journal::Tenure;
use super::{ROLE, SOON, ms};

const POLL: Duration = ms(500);
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
        let reigns = self.reigns();
        reigns.last().is_some_and(|reign| reign.end.is_none())
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

    /// Stops it as with `DeleteKey`: it is no leader any more, then the key is deleted, whoever wrote it.
    pub async fn stop(&self) -> Stamp {
        let end = self.crash();
        self.delete_key().await;
        end
    }

    pub async fn delete_key(&self) {
        self.store.delete(ROLE).await.expect("delete");
    }

    /// For how long it believed to lead while those handlers ran.
    pub fn overlap(&self, tenures: &[Tenure]) -> Duration {
        let now = Stamp::now();
        let mut overlap = Duration::ZERO;
        for reign in self.reigns() {
            for tenure in tenures {
                let start = reign.start.max(tenure.start);
                let end = reign.end.unwrap_or(now).min(tenure.end.unwrap_or(now));
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
    fn end(&mut self, end: Stamp) {
        if let Some(reign) = self.reigns.last_mut() {
            reign.end.get_or_insert(end);
        }
    }
}

struct Running {
    candidacy: Candidacy,
    store: kv::Store,
    mind: Arc<Mutex<Mind>>,
    thaw: watch::Receiver<bool>,
}

impl Running {
    async fn run(mut self) {
        let mut changes = self.store.watch(ROLE).await.expect("a watch");
        let mut poll = tokio::time::interval(POLL);
        loop {
            if let Some((value, revision)) = self.look().await {
                self.lead(value, revision).await;
            }
            tokio::select! {
                _ = changes.next() => {}
                _ = poll.tick() => {}
            }
            self.stand_still().await;
        }
    }

    async fn stand_still(&mut self) {
        self.thaw
            .wait_for(|frozen| !frozen)
            .await
            .expect("its owner");
    }

    /// Reads the key. If it is free, or another of lower priority leads, tries to lead; returns its record and revision if
    /// it does.
    async fn look(&self) -> Option<(Vec<u8>, u64)> {
        let entry = self.store.entry(ROLE).await.ok()?;
        let living =
            entry.filter(|entry| entry.operation == Operation::Put && !entry.value.is_empty());
        let own = serde_json::to_vec(&self.record()).expect("a record");
        let Some(entry) = living else {
            let revision = self.create(&own).await?;
            return Some((own, revision));
        };
        let leader: ForeignRecord = serde_json::from_slice(&entry.value).ok()?;
        let lower = self
            .candidacy
            .priority
            .is_some_and(|own| leader.priority.unwrap_or(0) < own);
        self.mind.lock().expect("no panic").leader = Some(leader);
        if !lower {
            return None;
        }
        let updated = self
            .store
            .update(ROLE, own.clone().into(), entry.revision)
            .await;
        Some((own, updated.ok()?))
    }

    /// Where nothing stands, or over a delete marker of the Key-Value API. The marker of an expiry is none of those.
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

    async fn lead(&mut self, value: Vec<u8>, mut revision: u64) {
        let start = Stamp::now();
        self.mind
            .lock()
            .expect("no panic")
            .reigns
            .push(Reign { start, end: None });
        let mut failed = 0;
        while failed < HEARTBEATS_TO_DOUBT {
            tokio::time::sleep(self.candidacy.heartbeat).await;
            self.stand_still().await;
            match self
                .store
                .update(ROLE, value.clone().into(), revision)
                .await
            {
                Ok(renewed) => (revision, failed) = (renewed, 0),
                Err(_) => failed += 1,
            }
        }
        self.mind.lock().expect("no panic").end(Stamp::now());
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
