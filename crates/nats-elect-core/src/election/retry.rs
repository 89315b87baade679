//! When to try again: jittered exponential backoff, and a circuit breaker that slows attempts down
//! but never ends them.

use std::time::Duration;

use crate::config::RetryConfig;
use crate::moment::Moment;

/// Failures in a row, and the time of the next attempt.
#[derive(Clone, Debug)]
pub struct Retry {
    config: RetryConfig,
    failures: u32,
    /// The request that failed for a reason that does not pass by itself. Only an answer to the
    /// same request shows that the reason is gone: who may read the keys may not write them.
    lasting: Option<Asked>,
    at: Moment,
}

/// What a request asks of the bucket. Permissions may allow one and forbid another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Asked {
    ReadKeys,
    WriteRole,
    WriteFence,
}

/// The effect of a failure or a success on the breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breaker {
    Unchanged,
    Opened,
    Closed,
}

impl Retry {
    pub const fn new(config: RetryConfig) -> Self {
        Self {
            config,
            failures: 0,
            lasting: None,
            at: Moment::from_nanos(0),
        }
    }

    /// When the next attempt is due. It lies in the past while there are no failures.
    pub const fn at(&self) -> Moment {
        self.at
    }

    /// Counts a failed request. While the instance leads, `limit` keeps attempts within the lease.
    pub fn failed(&mut self, now: Moment, chance: f64, limit: Option<Duration>) -> Breaker {
        self.failures = self.failures.saturating_add(1);
        let delay = if self.failures >= self.config.max_attempts {
            self.config.max_backoff
        } else {
            self.backoff()
        };
        let jitter = 1.0 + self.config.jitter * (2.0 * chance - 1.0);
        let delay = delay.mul_f64(jitter.clamp(0.0, 2.0));
        self.at = now + limit.map_or(delay, |limit| delay.min(limit));
        if self.failures == self.config.max_attempts && self.lasting.is_none() {
            Breaker::Opened
        } else {
            Breaker::Unchanged
        }
    }

    /// Counts a failure that does not pass by itself. The next attempt can wait.
    pub fn failed_for_long(&mut self, asked: Asked, now: Moment, chance: f64) -> Breaker {
        let was_open = self.is_open();
        self.lasting = Some(asked);
        self.failures = self.failures.max(self.config.max_attempts - 1);
        let _ = self.failed(now, chance, None);
        if was_open {
            Breaker::Unchanged
        } else {
            Breaker::Opened
        }
    }

    /// Sets the next attempt to a random moment within the first pause, because the request met
    /// another write under way. The pause does not grow, however often that happens. So a flood of
    /// other clients' writes costs a lease only if it leaves no gap.
    pub fn contended(&mut self, now: Moment, chance: f64) {
        self.at = now + self.config.initial_backoff.mul_f64(chance);
    }

    /// Notes that a request was answered.
    pub fn succeeded(&mut self, asked: Asked) -> Breaker {
        let was_open = self.is_open();
        self.lasting.take_if(|lasting| *lasting == asked);
        self.failures = 0;
        self.at = Moment::from_nanos(0);
        if was_open && !self.is_open() {
            Breaker::Closed
        } else {
            Breaker::Unchanged
        }
    }

    /// Waits without counting a failure.
    pub fn wait_until(&mut self, at: Moment) {
        self.at = self.at.max(at);
    }

    /// Makes the next attempt due at once, because the situation changed.
    pub const fn hurry(&mut self) {
        self.at = Moment::from_nanos(0);
    }

    /// Whether attempts are slowed down.
    const fn is_open(&self) -> bool {
        self.lasting.is_some() || self.failures >= self.config.max_attempts
    }

    pub fn hash_state(&self, now: Moment, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;

        let Self {
            failures,
            lasting,
            at,
            config: _,
        } = self;
        (failures, lasting, (*at).max(now)).hash(hasher);
    }

    fn backoff(&self) -> Duration {
        let exponent = i32::try_from(self.failures - 1).unwrap_or(i32::MAX);
        let seconds = self.config.initial_backoff.as_secs_f64()
            * self.config.backoff_multiplier.powi(exponent);
        if seconds >= self.config.max_backoff.as_secs_f64() {
            self.config.max_backoff
        } else {
            Duration::from_secs_f64(seconds)
        }
    }
}

/// The timeout of requests. It is the request timeout, or longer if answers have come later than
/// that.
#[derive(Clone, Debug)]
pub struct AdaptiveTimeout {
    timeout: Duration,
    longest: Duration,
    /// The slowest recent round trip. `None` while answers come in time.
    slow: Option<Duration>,
}

impl AdaptiveTimeout {
    pub fn new(timeout: Duration, ttl: Duration) -> Self {
        Self {
            timeout,
            longest: ttl * 3 / 8,
            slow: None,
        }
    }

    /// The timeout of a request that takes so many round trips.
    pub fn within(&self, round_trips: u32) -> Duration {
        let slow = self.slow.map_or(Duration::ZERO, |slow| slow * 3 / 2);
        self.timeout
            .max(slow.min(self.longest).saturating_mul(round_trips))
    }

    /// Adapts to an answer that took this long, in time or late, to a request of so many round
    /// trips.
    pub fn answered(&mut self, took: Duration, round_trips: u32, late: bool) {
        let took = took / round_trips;
        let slow = match self.slow {
            Some(slow) => took.max(slow / 2),
            None if late => took,
            None => return,
        };
        self.slow = (slow * 3 / 2 > self.timeout).then_some(slow);
    }

    pub fn hash_state(&self, hasher: &mut impl std::hash::Hasher) {
        use std::hash::Hash;

        self.slow.hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady() -> RetryConfig {
        RetryConfig {
            jitter: 0.0,
            ..RetryConfig::default()
        }
    }

    #[test]
    fn the_timeout_grows_with_late_answers_and_shrinks_with_early_ones() {
        let ms = Duration::from_millis;
        let mut adaptive_timeout = AdaptiveTimeout::new(ms(500), ms(15_000));
        adaptive_timeout.answered(ms(499), 1, false);
        assert_eq!(adaptive_timeout.within(1), ms(500));
        adaptive_timeout.answered(ms(2000), 2, true);
        assert_eq!(
            (adaptive_timeout.within(1), adaptive_timeout.within(2)),
            (ms(1500), ms(3000))
        );
        adaptive_timeout.answered(ms(60_000), 1, true);
        assert_eq!(
            adaptive_timeout.within(1),
            ms(5625),
            "three eighths of the ttl"
        );
        for _ in 0..100 {
            adaptive_timeout.answered(ms(5), 1, false);
        }
        assert_eq!(adaptive_timeout.within(1), ms(500));
    }

    #[test]
    fn the_delay_doubles_up_to_its_limit() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(1_000_000_000);
        let mut delays = Vec::new();
        for _ in 0..12 {
            retry.failed(now, 0.5, None);
            delays.push(retry.at().since(now).as_millis());
        }
        assert_eq!(&delays[..4], [50, 100, 200, 400]);
        assert_eq!(delays.last(), Some(&5000));
    }

    #[test]
    fn the_jitter_makes_the_delay_shorter_or_longer() {
        for (chance, delay) in [(0.0, 40), (0.25, 45), (0.5, 50), (1.0, 60)] {
            let mut retry = Retry::new(RetryConfig {
                jitter: 0.2,
                ..RetryConfig::default()
            });
            let now = Moment::from_nanos(1_000_000_000);
            retry.failed(now, chance, None);
            assert_eq!(retry.at().since(now), Duration::from_millis(delay));
        }
    }

    #[test]
    fn the_breaker_opens_once_and_closes_once() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        let opened = (0..30)
            .filter(|_| retry.failed(now, 0.5, None) == Breaker::Opened)
            .count();
        assert_eq!(opened, 1);
        assert_eq!(retry.succeeded(Asked::ReadKeys), Breaker::Closed);
        assert_eq!(retry.succeeded(Asked::ReadKeys), Breaker::Unchanged);
        assert_eq!(retry.at(), Moment::from_nanos(0));
    }

    #[test]
    fn a_lasting_failure_opens_the_breaker_at_once() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        let refused = Asked::WriteRole;
        assert_eq!(retry.failed_for_long(refused, now, 0.5), Breaker::Opened);
        assert_eq!(retry.failed_for_long(refused, now, 0.5), Breaker::Unchanged);
        assert_eq!(retry.at().since(now), steady().max_backoff);
    }

    #[test]
    fn a_lasting_failure_ends_with_an_answer_to_the_same_request() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        retry.failed_for_long(Asked::WriteFence, now, 0.5);
        for other in [Asked::ReadKeys, Asked::WriteRole] {
            assert_eq!(retry.succeeded(other), Breaker::Unchanged);
            assert_eq!(retry.at(), Moment::from_nanos(0), "the next step can go on");
        }
        let again = retry.failed_for_long(Asked::WriteFence, now, 0.5);
        assert_eq!(again, Breaker::Unchanged);
        assert_eq!(retry.succeeded(Asked::WriteFence), Breaker::Closed);
        assert_eq!(retry.succeeded(Asked::ReadKeys), Breaker::Unchanged);
    }

    #[test]
    fn a_leader_never_waits_longer_than_its_limit() {
        let mut retry = Retry::new(RetryConfig::default());
        let limit = Duration::from_millis(80);
        for _ in 0..40 {
            retry.failed(Moment::from_nanos(0), 0.99, Some(limit));
            assert!(retry.at() <= Moment::from_nanos(0) + limit);
        }
    }
}
