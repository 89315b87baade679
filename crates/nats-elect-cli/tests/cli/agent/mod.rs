//! `nats-elect agent` with real applications: killed, paused and cut off from their agent, no two of
//! them act at once.
// What is measured here decides nothing.
#![allow(clippy::disallowed_methods)]

mod client;
mod document;
mod faults;
mod kills;
mod languages;
mod requests;
mod running;
mod sessions;
mod worker;
