//! What becomes of a message on its way.

use std::ops::Range;
use std::time::Duration;

use nats_elect_core::WriteKind;

use crate::chance::Chance;

/// What happens to one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delivered,
    /// It never arrives.
    Lost,
    /// It takes effect, its answer never arrives.
    AckLost,
    /// It takes effect, but its sender is told that the server could not take it.
    Doubted,
    /// It arrives long after everybody gave it up, and takes effect then if its expectation holds.
    Ghost(Duration),
    /// It takes so long on its way, but arrives before its sender gives it up.
    Slow(Duration),
    /// It arrives, and so much later once more.
    Twice(Duration),
    /// The server refuses it for want of permission.
    Denied,
    /// The server can't take it just now, for another write to the key is under way.
    Contended,
}

/// Which request a fate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Claim,
    Fence,
    Renew,
    Release,
    Read,
}

impl Kind {
    pub const WRITES: [Self; 4] = [Self::Claim, Self::Fence, Self::Renew, Self::Release];

    pub const fn of(write: &WriteKind) -> Self {
        match write {
            WriteKind::Claim { .. } => Self::Claim,
            WriteKind::Fence { .. } => Self::Fence,
            WriteKind::Renew { .. } => Self::Renew,
            WriteKind::Release { .. } => Self::Release,
        }
    }
}

/// Which ways between a process and the server are open. The client does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    Whole,
    /// Nothing arrives on either side.
    Cut,
    /// What it sends is lost.
    Mute,
    /// What is sent to it is lost: its writes take effect, and it hears neither answers nor the
    /// watch.
    Deaf,
}

impl Wire {
    pub const fn carries_requests(self) -> bool {
        matches!(self, Self::Whole | Self::Deaf)
    }

    pub const fn carries_answers(self) -> bool {
        matches!(self, Self::Whole | Self::Mute)
    }
}

/// What messages meet by chance, in permille of them.
#[derive(Clone, Debug)]
pub struct Weather {
    pub latency: Range<Duration>,
    /// Messages that are held up for half a second.
    pub stalled: u32,
    pub watch_delay: Range<Duration>,
    pub lost: u32,
    pub ack_lost: u32,
    pub ghost: u32,
    pub ghost_delay: Range<Duration>,
    pub twice: u32,
    pub contended: u32,
    pub doubted: u32,
    pub watch_lost: u32,
    pub watch_twice: u32,
    pub stale_read: u32,
    /// By how much reads may be stale.
    pub staleness: Duration,
    /// Late renewals that an expiry wipes, where keys expire.
    pub wiped: u32,
    /// By how much an expiry is late.
    pub expiry_late: Range<Duration>,
}

impl Weather {
    pub const fn fair() -> Self {
        Self {
            latency: Duration::from_micros(200)..Duration::from_micros(800),
            stalled: 0,
            watch_delay: Duration::from_micros(200)..Duration::from_micros(800),
            lost: 0,
            ack_lost: 0,
            ghost: 0,
            ghost_delay: Duration::from_millis(50)..Duration::from_millis(500),
            twice: 0,
            contended: 0,
            doubted: 0,
            watch_lost: 0,
            watch_twice: 0,
            stale_read: 0,
            staleness: Duration::ZERO,
            wiped: 0,
            expiry_late: Duration::ZERO..Duration::ZERO,
        }
    }

    pub fn fate(&self, chance: &mut Chance) -> Fate {
        if chance.permille(self.lost) {
            Fate::Lost
        } else if chance.permille(self.ack_lost) {
            Fate::AckLost
        } else if chance.permille(self.ghost) {
            Fate::Ghost(chance.within(&self.ghost_delay))
        } else if chance.permille(self.twice) {
            Fate::Twice(chance.within(&self.ghost_delay))
        } else if chance.permille(self.contended) {
            Fate::Contended
        } else if chance.permille(self.doubted) {
            Fate::Doubted
        } else {
            Fate::Delivered
        }
    }
}
