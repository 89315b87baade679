//! Waiting for a point in time, also across a sleep of the machine.

use std::time::Duration;

use super::Instant;

/// Timers stand still while the machine sleeps, so the clock is looked at this often.
const TICK: Duration = Duration::from_millis(50);

/// A point in time to wait for; it can be put off.
#[derive(Debug)]
pub struct Alarm(Instant);

impl Alarm {
    pub const fn at(at: Instant) -> Self {
        Self(at)
    }

    pub const fn set(&mut self, at: Instant) {
        self.0 = at;
    }

    /// Resolves when the time has come.
    pub async fn rings(&self) {
        while !self.0.is_over() {
            let left = Duration::from_nanos(self.0.0.saturating_sub(Instant::now().0));
            tokio::time::sleep(left.min(TICK)).await;
        }
    }
}
