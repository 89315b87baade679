//! `nats-elect exec`, as processes on a real server: killed, paused and cut off, it never runs its
//! command twice at a time.
#![cfg(target_os = "linux")]

mod command;
mod faults;
mod history;
mod instance;
mod relatives;
mod running;
mod slots;
mod soak;
mod waiting;

use std::time::Duration;

/// A lease that tests can wait for.
const TTL: Duration = Duration::from_millis(1500);
/// Long enough for anything that happens at all, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
