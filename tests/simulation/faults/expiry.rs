//! In buckets with a max age: keys expire late and unevenly, and an expiry may wipe a renewal that came after it was due.

use std::time::Duration;

use crate::world::ms;

/// How expiry misbehaves.
#[derive(Clone, Debug)]
pub struct ExpiryOptions {
    pub latest: Duration,
    /// Late renewals that are wiped, in permille.
    pub wiped: u32,
}

impl Default for ExpiryOptions {
    fn default() -> Self {
        Self {
            latest: ms(300),
            wiped: 500,
        }
    }
}
