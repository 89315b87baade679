//! Whether NATS takes writes at all: without that no lease can be had, whatever the instances do.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, jetstream};
use nats_elect_testing::NatsCluster;
use tokio::runtime::Runtime;

use super::plan::BUCKET;
use super::{Problem, runtime};
use ::drill::Moment;

const EVERY: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_millis(500);
/// No confirmation for so long is an outage.
const OUTAGE: Duration = Duration::from_millis(800);

/// Writes beside the elections, straight to each node, until it is dropped.
pub struct Probe {
    seen: Arc<Mutex<Seen>>,
    _runtime: Runtime,
}

struct Seen {
    /// When a node last confirmed a write.
    confirmed: Moment,
    outages: Vec<(Moment, Moment)>,
}

impl Probe {
    pub fn start(cluster: &NatsCluster) -> Result<Self, Problem> {
        let runtime = runtime()?;
        let seen = Arc::new(Mutex::new(Seen {
            confirmed: Moment::now(),
            outages: Vec::new(),
        }));
        for node in cluster.nodes() {
            runtime.spawn(write_on(node.url(), Arc::clone(&seen)));
        }
        Ok(Self {
            seen,
            _runtime: runtime,
        })
    }

    /// The times, so far, in which no node confirmed a write.
    pub fn outages(&self) -> Vec<(Moment, Moment)> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.note_silence(Moment::now());
        seen.outages.clone()
    }
}

impl Seen {
    fn note_silence(&mut self, now: Moment) {
        if now.since(self.confirmed) >= OUTAGE {
            self.outages.push((self.confirmed, now));
        }
    }
}

/// Connects to this node alone, again and again.
pub async fn connect(url: &str) -> Option<Client> {
    let options = ConnectOptions::new()
        .retry_on_initial_connect()
        .ignore_discovered_servers()
        .reconnect_delay_callback(|_| EVERY);
    options.connect(url).await.ok()
}

async fn write_on(url: String, seen: Arc<Mutex<Seen>>) {
    let Some(client) = connect(&url).await else {
        return;
    };
    let context = jetstream::new(client.clone());
    // Out of sight of the watches over the roles' keys.
    let subject = format!("$KV.{BUCKET}._probe.{}", client.server_info().port);
    loop {
        tokio::time::sleep(EVERY).await;
        // What is written while there is no connection would be sent later.
        if client.connection_state() != State::Connected {
            continue;
        }
        let write = async {
            let sent = context.publish(subject.clone(), "".into()).await.ok()?;
            sent.await.ok()
        };
        if let Ok(Some(_)) = tokio::time::timeout(TIMEOUT, write).await {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Moment::now();
            seen.note_silence(now);
            seen.confirmed = now;
        }
    }
}
