//! In buckets with a max age: keys expire late and unevenly, or early where the server's clock
//! jumps, and an expiry may wipe a renewal that came after it was due.

use std::time::Duration;

use crate::checkers::Note;
use crate::world::{World, ms};

/// A key expires so late at most.
pub const LATEST: Duration = ms(300);
/// Late renewals that are wiped, in permille.
pub const WIPED: u32 = 500;

/// The server takes the role's key for older than it is.
#[derive(Clone, Copy, Debug)]
pub struct EarlyExpiry;

impl EarlyExpiry {
    pub fn strike(world: &mut World) {
        let ages = world.bucket.made.max_age.is_some();
        let Some(role) = world.bucket.role().filter(|_| ages) else {
            return;
        };
        let revision = role.revision;
        world.wipe(revision);
        // Without a marker, and once the fence record has expired, nothing tells a newcomer, or
        // whoever was cut off, that anybody led. That is why the docs say that the server's clock
        // matters in such buckets.
        if !world.bucket.expiry_markers {
            world.tell(&Note::HistoryLost {
                reused: false,
                noticed: false,
            });
        }
    }
}
