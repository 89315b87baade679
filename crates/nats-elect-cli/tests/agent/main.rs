//! `nats-elect agent` with real applications: killed, paused and cut off from their agent, no two of
//! them act at once.
#![cfg(target_os = "linux")]
// What is measured here decides nothing.
#![allow(clippy::disallowed_methods)]

mod client;
#[path = "../../../../tests/support/debian.rs"]
mod debian;
mod document;
mod faults;
mod kills;
mod languages;
#[path = "../../../../tests/support/markdown.rs"]
mod markdown;
mod requests;
mod running;
mod sessions;
#[path = "../../../../tests/support/transcript.rs"]
mod transcript;
mod worker;

use std::time::Duration;

/// Long enough for anything that happens at all, on a busy machine.
const SOON: Duration = Duration::from_secs(30);
