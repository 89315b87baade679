//! The one place where clocks are read.
//!
//! Leases are counted on a local monotonic clock that goes on while the machine is suspended, where
//! the platform has one. With a clock that stops in suspend, a sleeping leader would still trust a
//! lease that others saw expire. A hypervisor that pauses a virtual machine may stop this clock
//! too. Nothing in the guest can detect that.

use std::time::Duration;

use nats_elect_core::Moment;

/// `CLOCK_BOOTTIME`, which runs on while the machine sleeps.
#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
/// `CLOCK_MONOTONIC`, the best that this platform offers.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// Reads the clock.
#[cfg(unix)]
pub fn now() -> Moment {
    let time = rustix::time::clock_gettime(CLOCK);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Moment::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
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
    // The clock starts above zero, because zero means "over" in a shared deadline.
    let nanos = u64::try_from(ORIGIN.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Moment::from_nanos(nanos.saturating_add(1))
}

/// Counts a time down from now on. What this returns tells how much of it is left.
pub fn countdown(time: Duration) -> impl Fn() -> Duration + Send + Sync {
    let begun = now();
    move || time.saturating_sub(now().since(begun))
}

/// Returns the wall clock, in microseconds since the Unix epoch.
///
/// It decides nothing. A new bucket's sequences start there, so that they are above those of a
/// deleted bucket of the same name.
pub fn unix_micros() -> u64 {
    let since_epoch = wall().duration_since(std::time::UNIX_EPOCH);
    since_epoch.map_or(0, |time| u64::try_from(time.as_micros()).unwrap_or(0))
}

/// Returns the wall clock, for times that are exchanged with others. It decides nothing in an
/// election.
#[expect(
    clippy::disallowed_methods,
    reason = "no lease, no order of events rests on it"
)]
pub fn wall() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
