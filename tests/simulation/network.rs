//! What becomes of a message on its way.

use std::ops::Range;
use std::time::Duration;

use super::chance::Chance;
use nats_elect::internals::WriteKind;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delivered,
    /// It never arrives.
    Lost,
    /// It takes effect, its answer never arrives.
    AckLost,
    /// It arrives long after everybody gave it up, and takes effect then if its expectation holds.
    Ghost(Duration),
    /// The server refuses it for want of permission.
    Denied,
}

/// Which request a planned fate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Claim,
    Fence,
    Renew,
    Release,
    Read,
}

impl Kind {
    pub const fn of(write: &WriteKind) -> Self {
        match write {
            WriteKind::Claim { .. } => Self::Claim,
            WriteKind::Fence { .. } => Self::Fence,
            WriteKind::Renew { .. } => Self::Renew,
            WriteKind::Release { .. } => Self::Release,
        }
    }
}

/// Faults that come by chance, each in permille of the messages.
#[derive(Clone, Debug)]
pub struct Weather {
    pub latency: Range<Duration>,
    pub watch_delay: Range<Duration>,
    pub lost: u32,
    pub ack_lost: u32,
    pub ghost: u32,
    pub ghost_delay: Range<Duration>,
    pub watch_lost: u32,
    pub stale_read: u32,
}

impl Weather {
    pub const fn fair() -> Self {
        Self {
            latency: Duration::from_micros(200)..Duration::from_micros(800),
            watch_delay: Duration::from_micros(200)..Duration::from_micros(800),
            lost: 0,
            ack_lost: 0,
            ghost: 0,
            ghost_delay: Duration::from_millis(50)..Duration::from_millis(500),
            watch_lost: 0,
            stale_read: 0,
        }
    }

    pub const fn foul() -> Self {
        Self {
            latency: Duration::from_micros(200)..Duration::from_millis(12),
            watch_delay: Duration::from_micros(200)..Duration::from_millis(40),
            lost: 40,
            ack_lost: 40,
            ghost: 40,
            ghost_delay: Duration::from_millis(20)..Duration::from_millis(600),
            watch_lost: 100,
            stale_read: 20,
        }
    }

    pub fn fate(&self, chance: &mut Chance) -> Fate {
        if chance.permille(self.lost) {
            Fate::Lost
        } else if chance.permille(self.ack_lost) {
            Fate::AckLost
        } else if chance.permille(self.ghost) {
            Fate::Ghost(chance.within(&self.ghost_delay))
        } else {
            Fate::Delivered
        }
    }
}
