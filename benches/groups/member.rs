//! A member in a process of its own. It writes a line for each start and each end of a handler.

use std::io::Write as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nats_elect::{BoxError, Group, MemberConfig, RoleHandler, RoleManager, StopOptions, Term};
use serde::{Deserialize, Serialize};

use crate::clock::Moment;

/// The variable with what a member is to do.
const ORDERS: &str = "NATS_ELECT_BENCH_MEMBER";

/// What a member is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    pub servers: String,
    pub replicas: usize,
    pub name: String,
    pub shards: u32,
    pub ttl: Duration,
}

/// What it tells, one line of JSON each.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Event {
    Started { shard: u32, at: Moment },
    Ended { shard: u32, at: Moment },
}

impl Orders {
    pub fn of_this_process() -> Option<Self> {
        serde_json::from_str(&std::env::var(ORDERS).ok()?).ok()
    }

    pub fn variable(&self) -> (&'static str, String) {
        (ORDERS, serde_json::to_string(self).expect("plain data"))
    }
}

struct Handler(mpsc::Sender<Event>);

impl RoleHandler for Handler {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let shard = term.shard().unwrap_or_default();
        let _ = self.0.send(Event::Started {
            shard,
            at: Moment::now(),
        });
        term.cancelled().await;
        let _ = self.0.send(Event::Ended {
            shard,
            at: Moment::now(),
        });
        Ok(())
    }
}

/// Takes part until its input ends, and then stops.
pub fn run(orders: &Orders) {
    let (tell, told) = mpsc::channel();
    let writer = thread::spawn(move || {
        let mut out = std::io::stdout().lock();
        while let Ok(first) = told.recv() {
            for event in std::iter::once(first).chain(told.try_iter()) {
                let line = serde_json::to_string(&event).expect("plain data");
                let _ = writeln!(out, "{line}");
            }
            let _ = out.flush();
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let manager = RoleManager::builder()
            .servers(&orders.servers)
            .bucket_auto_create()
            .replicas(orders.replicas)
            .instance_id(&orders.name)
            .member(MemberConfig::default().ttl(orders.ttl))
            .group(Group::sharded("partitions", orders.shards, Handler(tell)))
            .start()
            .await
            .expect("start");
        let ended = tokio::task::spawn_blocking(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        });
        let _ = ended.await;
        manager.stop(StopOptions::default()).await.expect("stop");
    });
    drop(runtime);
    let _ = writer.join();
}
