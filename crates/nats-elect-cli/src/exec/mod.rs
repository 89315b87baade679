//! A command that runs only while this instance leads.
//!
//! Three processes of this program stand behind one command. `exec` itself takes part in the
//! election (`handler`). For each run of the command it starts a *guard* (`guard`), which is told
//! each new end of the lease over a socket, and kills the command by itself when that comes, or
//! when `exec` is gone. The guard starts a *starter* (`starter`) in a process group of its own,
//! which waits until both know its group, and then becomes the command.
//!
//! So there are two who kill independently of each other, `exec` (`guarded`) and the guard, and no
//! moment in which the command runs and one of them does not know it.
//!
//! With several roles there is a run for each that is led, and its end leaves the others alone
//! (`spared`). The slots of a role are a sharded group of which each instance owns one unit at most.
//! `turns` has one run of a role's command at a time in this process, also when its slot changes.
//! `waiting` tells whether others lead, or have all slots. `listener` serves health and metrics.
//! `report` tells on stderr what is done.

pub mod alarm;
#[cfg(target_os = "linux")]
mod children;
mod frames;
mod guard;
pub mod guarded;
pub mod handler;
pub mod killing;
pub mod listener;
pub mod processes;
pub mod report;
pub mod signals;
pub mod spared;
mod starter;
pub mod turns;
pub mod waiting;

use rustix::time::{ClockId, clock_gettime};

/// A point on the clock that `exec` and its guard share, in nanoseconds: one that goes on while the
/// machine sleeps, where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;

    pub fn now() -> Self {
        let now = clock_gettime(Self::CLOCK);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        Self(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0))
    }

    pub fn plus(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    pub fn minus(self, duration: std::time::Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }

    /// The time from an earlier point to this one; zero if that was not earlier.
    pub const fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    pub fn is_over(self) -> bool {
        Self::now() >= self
    }
}

fn nanos(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
