//! A process that stands for one role in one system, as its driver orders, and tells what happens.

mod etcd;
mod etcd_api;
mod etcd_recipe;
mod nats;
mod ours;
mod zookeeper;

use std::io::{BufRead, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::clock::Moment;
use crate::system::System;

const ORDERS: &str = "NATS_ELECT_BENCH_CANDIDATE";

/// The purpose of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    pub system: System,
    /// Where the system's server listens.
    pub address: String,
    /// The name of the candidate.
    pub name: String,
    pub role: String,
    /// How many roles it stands for; more than one are numbered.
    pub roles: u32,
    pub ttl: Duration,
}

/// An order of the driver, on a line of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Take part in the election.
    Stand,
    /// If it leads: end the handler, and free the role. Take no part from then on.
    Leave,
    /// The same, by the end of all that the instance does. Only this library's differs from leaving.
    Stop,
    /// Hand the role to the candidate of this name.
    HandTo(String),
    /// Measure what it costs to ask whether it leads.
    Ask,
}

/// An event that it tells, on a line of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// It could lead from now on, or does. The lease that the system granted, if it has any.
    Stands {
        granted: Option<Duration>,
    },
    /// The handler started.
    Started(Moment),
    /// The handler ended; the role is not yet free.
    Ended(Moment),
    /// The role is free, as far as this candidate is concerned.
    Left,
    /// The candidate named was not ready.
    Refused,
    Asked(Asking),
}

/// The cost of one question whether it leads, and of one reading of the clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Asking {
    pub is_leader: f64,
    pub clock: f64,
}

impl Orders {
    /// Those of this process, if it is a candidate.
    pub fn of_this_process() -> Option<Self> {
        let orders = std::env::var(ORDERS).ok()?;
        Some(serde_json::from_str(&orders).expect("orders of this program"))
    }

    /// The process that follows them.
    pub fn command(&self) -> std::process::Command {
        let program = std::env::current_exe().expect("this program");
        let mut command = std::process::Command::new(program);
        command.env(ORDERS, serde_json::to_string(self).expect("plain values"));
        command
    }
}

/// The orders of the driver as they come.
pub type OrderBook = mpsc::UnboundedReceiver<Order>;

/// Follows the driver's orders until the input ends.
pub fn run(orders: &Orders) {
    let (pass, book) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let order = serde_json::from_str(&line).expect("an order");
            if pass.send(order).is_err() {
                break;
            }
        }
        // Nobody is left to order or to listen.
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        match orders.system {
            System::Ours | System::OursSynced | System::OursWithWill => {
                ours::run(orders, book).await;
            }
            System::Nats => nats::run(orders, book).await,
            System::Etcd => etcd::run(orders, book).await,
            System::EtcdRecipe => etcd_recipe::run(orders, book).await,
            System::ZooKeeper => zookeeper::run(orders, book).await,
        }
    });
}

/// Tells the driver. If it is gone, so is this process.
pub fn tell(event: &Event) {
    let mut line = serde_json::to_string(event).expect("plain values");
    line.push('\n');
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(0);
    }
}
