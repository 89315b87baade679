//! A member in a process of its own. It writes a line for each start and each end of a handler, and
//! reads a line for each order.

use std::io::{BufRead as _, Write as _};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nats_elect::placement::{Balanced, PolicySettings};
use nats_elect::{
    BoxError, Group, GroupHandle, LastWillConfig, LastWillStatus, MemberConfig, RoleHandler,
    RoleManager, StopOptions, Term,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

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
    /// Shards wait for so many members when the fleet starts.
    pub least: u32,
    pub ttl: Duration,
    /// Whether it has a companion.
    pub has_will: bool,
}

/// What it is told while it runs, a line each. It stops at the end of its input.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Order {
    Cordon,
    Resume,
    /// It is to tell who plans.
    TellPlanner,
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
    Planner(Option<String>),
    /// Bytes of its heap that are in use.
    Heap(usize),
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
    let writer = thread::spawn(move || write_down(&told));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let (order, ordered) = unbounded_channel();
    thread::spawn(move || read_orders(&order));
    runtime.block_on(take_part(orders, tell, ordered));
    drop(runtime);
    let _ = writer.join();
}

async fn take_part(
    orders: &Orders,
    tell: mpsc::Sender<Event>,
    mut ordered: UnboundedReceiver<Order>,
) {
    let policy = PolicySettings::new(Duration::from_secs(1)).min_members(orders.least);
    let group = Group::sharded("partitions", orders.shards, Handler(tell.clone()))
        .policy(Balanced::new(policy));
    let mut builder = RoleManager::builder();
    if orders.has_will {
        builder = builder.last_will(LastWillConfig::on());
    }
    let manager = builder
        .servers(&orders.servers)
        .bucket_auto_create()
        .replicas(orders.replicas)
        .instance_id(&orders.name)
        .member(MemberConfig::default().ttl(orders.ttl))
        .group(group)
        .start()
        .await
        .expect("start");
    while orders.has_will && manager.last_will() != Some(LastWillStatus::Ready) {
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
            Order::TellPlanner => {
                let planner = group.plan().await.and_then(|plan| plan.planner);
                let _ = tell.send(Event::Planner(planner));
            }
        }
    }
    manager.stop(StopOptions::default()).await.expect("stop");
}

fn read_orders(order: &UnboundedSender<Order>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let _ = order.send(serde_json::from_str(&line).expect("an order"));
    }
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
