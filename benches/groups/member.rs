//! A member in a process of its own. It writes a line for each start and each end of a handler, and
//! reads a line for each order.

use std::io::Write as _;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nats_elect::{
    BoxError, Group, GroupHandle, LastWillConfig, LastWillStatus, MemberConfig, RoleHandler,
    RoleManager, StopOptions, Term,
};
use serde::{Deserialize, Serialize};

use drill::Moment;
use drill::driven::orders;

/// What a member is to do.
#[derive(Debug, Serialize, Deserialize)]
pub struct Orders {
    pub servers: String,
    pub replicas: usize,
    pub name: String,
    pub shards: u32,
    pub ttl: Duration,
    /// Whether it has a companion.
    pub has_will: bool,
}

/// What it is told while it runs, a line each. It stops at the end of its input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    Cordon,
    Resume,
    /// It is to tell who coordinates.
    TellCoordinator,
    /// It is to tell how much of its heap is in use.
    TellHeap,
}

/// What it tells, one line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    Started {
        shard: u32,
        at: Moment,
    },
    Ended {
        shard: u32,
        at: Moment,
    },
    /// It can own shards, and its companion is ready if it has one.
    Joined,
    Coordinator(Option<String>),
    /// Bytes of its heap that are in use.
    Heap(usize),
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
    let writer = thread::spawn(move || write_down(&told));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(take_part(orders, tell));
    drop(runtime);
    let _ = writer.join();
}

async fn take_part(given: &Orders, tell: mpsc::Sender<Event>) {
    let mut ordered = orders(|| {});
    let group = Group::sharded("partitions", given.shards, Handler(tell.clone()));
    let mut builder = RoleManager::builder();
    if given.has_will {
        builder = builder.last_will(LastWillConfig::on());
    }
    let manager = builder
        .servers(&given.servers)
        .bucket_auto_create()
        .replicas(given.replicas)
        .instance_id(&given.name)
        .member(MemberConfig::default().ttl(given.ttl))
        .group(group)
        .start()
        .await
        .expect("start");
    while given.has_will && manager.last_will() != Some(LastWillStatus::Ready) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let group = manager.group("partitions").expect("a group");
    let (joins, joined) = (group.clone(), tell.clone());
    tokio::spawn(async move {
        joins.wait_until(GroupHandle::has_joined).await;
        let _ = joined.send(Event::Joined);
    });
    while let Some(order) = ordered.recv().await {
        match order {
            Order::Cordon => drop(manager.cordon().await.expect("cordon")),
            Order::Resume => manager.resume().await.expect("resume"),
            Order::TellHeap => {
                let _ = tell.send(Event::Heap(crate::HEAP.current_usage()));
            }
            Order::TellCoordinator => {
                let coordinator = group.explain("0").await.and_then(|it| it.coordinator);
                let _ = tell.send(Event::Coordinator(coordinator));
            }
        }
    }
    manager.stop(StopOptions::default()).await.expect("stop");
}

fn write_down(told: &mpsc::Receiver<Event>) {
    let mut out = std::io::stdout().lock();
    while let Ok(first) = told.recv() {
        for event in std::iter::once(first).chain(told.try_iter()) {
            let line = serde_json::to_string(&event).expect("plain data");
            let _ = writeln!(out, "{line}");
        }
        let _ = out.flush();
    }
}
