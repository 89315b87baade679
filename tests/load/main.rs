//! Leases under floods. These tests need the machine for themselves, so each waits for the one
//! before.
#![cfg(unix)]

mod admin_flood;
mod flood;
mod many_roles;
mod many_units;
mod peer_flood;
#[path = "../it/support/mod.rs"]
#[allow(dead_code, reason = "a part of it serves the tests here")]
mod support;

use tokio::sync::Mutex;

/// Held by the test that has the machine.
static MACHINE: Mutex<()> = Mutex::const_new(());
