//! The one place where clocks are read.
//!
//! Leases are counted on a local monotonic clock that goes on while the machine is suspended, where the platform has
//! one: a clock that stops in suspend would let a sleeping leader believe in a lease that others saw expire. A hypervisor that
//! pauses a virtual machine may stop this clock too; nothing in the guest can tell.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point in time on this process's monotonic clock, in nanoseconds since an arbitrary origin.
///
/// Comparable only with moments of the same process (or, in a simulation, of the same virtual clock).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(duration)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Reads the clock: `CLOCK_BOOTTIME` on Linux and Android, which runs on while the machine sleeps.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn now() -> Moment {
    from_timespec(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
}

/// Reads the clock: `CLOCK_MONOTONIC`, the best that this platform offers.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub fn now() -> Moment {
    from_timespec(rustix::time::clock_gettime(
        rustix::time::ClockId::Monotonic,
    ))
}

/// Reads the clock: the standard library's monotonic clock.
#[cfg(not(unix))]
#[expect(
    clippy::disallowed_methods,
    reason = "the one place where clocks are read"
)]
pub fn now() -> Moment {
    use std::sync::LazyLock;
    use std::time::Instant;
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    // Starts above zero: zero stands for "over" in a shared deadline.
    Moment(1 + nanos(ORIGIN.elapsed()))
}

/// The wall clock, in microseconds since the Unix epoch. It decides nothing: a new bucket's sequences start there, so that
/// they stand above those of a bucket of the same name that was deleted.
pub fn unix_micros() -> u64 {
    let since_epoch = wall().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(0))
}

/// The wall clock, for what is told to others and by others. It decides nothing in an election.
#[expect(
    clippy::disallowed_methods,
    reason = "no lease, no order of events rests on it"
)]
pub fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

#[cfg(unix)]
fn from_timespec(time: rustix::time::Timespec) -> Moment {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
}
