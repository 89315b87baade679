//! A process that stands for one role in one system, as its driver orders, and tells what happens.

mod etcd;
mod etcd_api;
mod nats;
mod ours;
mod zookeeper;

use std::time::Duration;

pub use drill::driven::tell;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::system::System;
use drill::Moment;

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
}

/// An event that it tells, on a line of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Event {
    /// It could lead from now on, or does. The lease that the system granted, if it has any.
    Stands { granted: Option<Duration> },
    /// The handler started.
    Started(Moment),
    /// The handler ended; the role is not yet free.
    Ended(Moment),
    /// The role is free, as far as this candidate is concerned.
    Left,
    /// The candidate named was not ready.
    Refused,
}

/// The orders of the driver as they come.
pub type OrderBook = mpsc::UnboundedReceiver<Order>;

/// Follows the driver's orders until the input ends.
pub fn run(orders: &Orders) {
    // At their end nobody is left to order or to listen.
    let book = drill::driven::orders(|| std::process::exit(0));
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
            System::ZooKeeper => zookeeper::run(orders, book).await,
        }
    });
}
