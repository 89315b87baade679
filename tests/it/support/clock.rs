//! Stamps that all processes of a machine can compare.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// A moment since the machine's start, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Stamp {
    pub fn now() -> Self {
        let time = clock_gettime(CLOCK);
        let whole = Duration::from_secs(time.tv_sec.try_into().expect("a time after the start"));
        let nanos = Duration::from_nanos(time.tv_nsec.try_into().expect("nanoseconds"));
        Self((whole + nanos).as_nanos().try_into().expect("centuries"))
    }

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}
