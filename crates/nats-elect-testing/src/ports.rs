//! Free loopback ports that stay free across a restart.

use std::collections::HashSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{LazyLock, Mutex, PoisonError};

use rand::RngExt;

use super::TestingError;

// Below the ephemeral ranges of Linux and macOS. A port from inside could become the source of an
// outgoing connection while its server is down, and then the restart fails.
const FIRST: u16 = 15_000;
const LAST: u16 = 29_999;
const ATTEMPTS: usize = 200;

static RESERVED: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);

/// A port. No other server of this process gets it as long as this value lives.
#[derive(Debug)]
pub(super) struct Port(u16);

impl Port {
    pub(super) fn free() -> Result<Self, TestingError> {
        for _ in 0..ATTEMPTS {
            let port = rand::rng().random_range(FIRST..=LAST);
            let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
            if !reserved.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                reserved.insert(port);
                return Ok(Self(port));
            }
        }
        Err(TestingError::NoPort {
            first: FIRST,
            last: LAST,
        })
    }

    /// Takes the caller's choice, free or not.
    pub(super) fn chosen(port: u16) -> Self {
        RESERVED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(port);
        Self(port)
    }

    pub(super) fn number(&self) -> u16 {
        self.0
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        RESERVED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.0);
    }
}
