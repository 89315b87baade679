//! Free loopback ports that stay free across a restart.

use std::collections::HashSet;
use std::env;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use rand::RngExt;

use super::TestingError;

// Below the ephemeral ranges of Linux and macOS. A port from inside could become the source of an
// outgoing connection while its server is down, and then the restart fails.
const FIRST: u16 = 15_000;
const LAST: u16 = 29_999;
const ATTEMPTS: usize = 200;
/// How many ports a test has that cargo-nextest runs, and how many such parts there are.
const PART: u16 = 250;
const PARTS: u16 = (LAST - FIRST) / PART;

static RESERVED: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

fn reserved() -> MutexGuard<'static, HashSet<u16>> {
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port. No other server of this process gets it as long as this value lives.
#[derive(Debug)]
pub(super) struct Port(u16);

impl Port {
    pub(super) fn free() -> Result<Self, TestingError> {
        for _ in 0..ATTEMPTS {
            let port = rand::rng().random_range(choice());
            let mut reserved = reserved();
            if !reserved.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                reserved.insert(port);
                return Ok(Self(port));
            }
        }
        Err(TestingError::BadAddress(format!(
            "no free port on 127.0.0.1 in {FIRST}..={LAST}; stop what occupies them"
        )))
    }

    /// Takes the caller's choice, free or not.
    pub(super) fn chosen(port: u16) -> Self {
        reserved().insert(port);
        Self(port)
    }

    pub(super) fn number(&self) -> u16 {
        self.0
    }
}

/// The ports to choose from. cargo-nextest runs each test in a process of its own, in a slot that no
/// other running test has: those of one slot are not taken by another while their server is down.
fn choice() -> RangeInclusive<u16> {
    let slot = env::var("NEXTEST_TEST_GLOBAL_SLOT").ok();
    match slot.and_then(|slot| slot.parse::<u16>().ok()) {
        Some(slot) => {
            let first = FIRST + slot % PARTS * PART;
            first..=first + PART - 1
        }
        None => FIRST..=LAST,
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        reserved().remove(&self.0);
    }
}
