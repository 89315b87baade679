//! Elections on real servers: what the application sees, and what stands in the bucket.
//!
//! Every fault prints a line `RECOVERED <test> ttl=<ms> after=<ms>`, from the fault to the next handler's start:
//! `cargo test --test it -- --nocapture | grep RECOVERED` makes a table of them.
#![cfg(unix)]

mod bucket;
mod cluster;
mod configuration;
mod crash;
mod election;
mod handlers;
mod hostile;
mod lifecycle;
mod network;
mod observability;
mod permissions;
mod privileges;
mod proofs;
mod secrets;
mod security;
mod security_environment;
mod security_tls;
mod support;
