//! Pauses between attempts.

use std::time::Duration;

/// Pauses that double from the first to the longest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest }
    }

    /// The longest pause.
    pub const fn longest(self) -> Duration {
        self.longest
    }

    /// The pause after so many pauses before it.
    pub fn after(self, pauses: u32) -> Duration {
        let doubled = 1_u32.checked_shl(pauses).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.longest)
    }

    /// The same, shortened at random to at least half. After an outage every instance of every
    /// fleet tries at once: their attempts spread out.
    pub fn spread_after(self, pauses: u32) -> Duration {
        self.after(pauses).mul_f64(rand::random_range(0.5..1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_from_the_first_to_the_longest() {
        let ms = Duration::from_millis;
        let backoff = Backoff::new(ms(20), ms(1000));
        let pauses = [0, 1, 2, 5, 6, 31, 32, u32::MAX].map(|n| backoff.after(n));
        let expected = [20, 40, 80, 640, 1000, 1000, 1000, 1000].map(ms);
        assert_eq!(pauses, expected);
    }

    #[test]
    fn a_spread_pause_is_at_least_half_as_long() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8));
        for pauses in 0..100 {
            let (whole, spread) = (backoff.after(pauses), backoff.spread_after(pauses));
            assert!(whole / 2 <= spread && spread <= whole, "{spread:?}");
        }
    }
}
