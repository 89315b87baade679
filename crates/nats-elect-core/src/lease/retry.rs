//! When to try again: jittered exponential backoff, and a circuit breaker that slows attempts down
//! but never ends them.

use std::time::Duration;

use crate::config::RetrySettings;
use crate::event::BucketRequest;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::unhashed::Unhashed;

/// Failures in a row and the time of the next attempt, for each kind of request. Reads may succeed
/// while writes fail: permissions may allow one and forbid another, and so does a full disk.
#[derive(Clone, Debug, Hash)]
pub struct Retry {
    config: Unhashed<RetrySettings>,
    kinds: [Failing; 3],
    /// No request of any kind is sent before: the last one failed. It is a short pause, as a read
    /// tells what became of a write.
    any_at: Moment,
}

/// So many failures in a row open the circuit breaker.
const MOST_FAILURES: u32 = 10;

/// So many requests in a row of an instance without a lease may meet another write under way. A
/// server that goes on to say so and stores nothing is out of order, such as a stream's former
/// leader without a quorum.
const MOST_CONTENDED: u32 = 3;

/// How requests of one kind fail.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Failing {
    /// How many failed in a row.
    failures: u32,
    /// The last one failed for a reason that does not pass by itself.
    lasting: bool,
    /// How many met another write under way since one was last shown to be stored.
    contended: u32,
    /// When the next attempt is due.
    at: Moment,
}

/// The place of a request's kind.
const fn kind(request: BucketRequest) -> usize {
    match request {
        BucketRequest::Read => 0,
        BucketRequest::Claim | BucketRequest::Heartbeat | BucketRequest::Release => 1,
        BucketRequest::Fence => 2,
    }
}

impl Retry {
    pub fn new(config: RetrySettings) -> Self {
        Self {
            config: Unhashed(config),
            kinds: Default::default(),
            any_at: Moment::default(),
        }
    }

    /// The longest pause.
    pub const fn longest(&self) -> Duration {
        self.config.0.max_backoff
    }

    /// When the next attempt of this kind is due. It lies in the past while there are no failures.
    pub fn at(&self, request: BucketRequest) -> Moment {
        self.kinds[kind(request)].at.max(self.any_at)
    }

    /// Counts a failed request. While a lease is at stake, `limit` keeps attempts within the lease.
    /// After a `lasting` failure, which does not pass by itself, the next attempt can wait.
    pub fn failed(
        &mut self,
        request: BucketRequest,
        now: Moment,
        chance: f64,
        limit: Option<Duration>,
        lasting: bool,
    ) {
        let kind = &mut self.kinds[kind(request)];
        if lasting {
            kind.lasting = true;
            kind.failures = kind.failures.max(MOST_FAILURES - 1);
        }
        kind.failures = kind.failures.saturating_add(1);
        let delay = backoff(&self.config, kind.failures);
        let jitter = 1.0 + self.config.jitter * (2.0 * chance - 1.0);
        let limit = limit.unwrap_or(self.config.max_backoff);
        let after = |pause: Duration| now + pause.mul_f64(jitter.clamp(0.0, 2.0)).min(limit);
        kind.at = after(delay);
        self.any_at = self.any_at.max(after(self.config.initial_backoff));
    }

    /// Sets the next attempt to a random moment within the first pause, because the request met
    /// another write under way. The pause does not grow, however often that happens, if writes are
    /// shown meanwhile or while the instance `holds` a lease, which bounds how long that lasts. So a
    /// flood of other clients' writes costs a lease only if it leaves no gap.
    ///
    /// Returns false, and sets nothing, if none was shown for too many such requests. Then it is a
    /// failure as any other.
    pub fn contended(
        &mut self,
        request: BucketRequest,
        now: Moment,
        chance: f64,
        holds: bool,
    ) -> bool {
        let at = now + self.config.initial_backoff.mul_f64(chance);
        let kind = &mut self.kinds[kind(request)];
        kind.contended = kind.contended.saturating_add(1);
        let passes = holds || kind.contended <= MOST_CONTENDED;
        if passes {
            kind.at = at;
            self.any_at = at;
        }
        passes
    }

    /// Notes that a request was answered.
    pub fn succeeded(&mut self, request: BucketRequest) {
        mutated!(ReadsResetWrites => self.kinds = Default::default());
        self.kinds[kind(request)] = Failing::default();
        self.any_at = Moment::default();
    }

    /// Notes that another instance's write was stored. So the server takes writes, although this
    /// instance may still lack the permission.
    pub fn others_succeed(&mut self) {
        self.any_at = Moment::default();
        for request in [BucketRequest::Claim, BucketRequest::Fence] {
            let kind = &mut self.kinds[kind(request)];
            kind.contended = 0;
            if !kind.lasting {
                *kind = Failing::default();
            }
        }
    }

    /// Forgets all failures, because there is a new link: the reason of any may be over.
    pub fn begin_anew(&mut self) {
        self.kinds = Default::default();
        self.any_at = Moment::default();
    }

    /// Waits without counting a failure.
    pub fn wait_until(&mut self, request: BucketRequest, at: Moment) {
        let kind = &mut self.kinds[kind(request)];
        kind.at = kind.at.max(at);
    }

    /// Forgets since when attempts are due, for model checkers.
    pub fn forget_what_is_over(&mut self, now: Moment) {
        for kind in &mut self.kinds {
            kind.at = kind.at.max(now);
        }
        self.any_at = self.any_at.max(now);
    }

    /// Makes the next attempt of each kind due at once, because the situation changed.
    pub fn hurry(&mut self) {
        for kind in &mut self.kinds {
            kind.at = Moment::default();
        }
        self.any_at = Moment::default();
    }

    /// Whether the circuit breaker is open: attempts of a kind are slowed down.
    pub fn is_open(&self) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|kind| kind.lasting || kind.failures >= MOST_FAILURES)
    }
}

/// The pause after so many failures in a row, without jitter.
fn backoff(config: &RetrySettings, failures: u32) -> Duration {
    if failures >= MOST_FAILURES {
        return config.max_backoff;
    }
    let doubled = config.initial_backoff * (1 << (failures - 1));
    doubled.min(config.max_backoff)
}

/// The timeout of requests. It is the request timeout, or longer if answers have come later than
/// that.
#[derive(Clone, Debug, Hash)]
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steady() -> RetrySettings {
        RetrySettings {
            jitter: 0.0,
            ..RetrySettings::default()
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
            retry.failed(BucketRequest::Read, now, 0.5, None, false);
            delays.push(retry.at(BucketRequest::Read).since(now).as_millis());
        }
        assert_eq!(&delays[..4], [50, 100, 200, 400]);
        assert_eq!(delays.last(), Some(&4000));
    }

    #[test]
    fn the_jitter_makes_the_delay_shorter_or_longer_but_not_than_the_longest() {
        for (chance, delay, last) in [(0.0, 40, 3200), (0.25, 45, 3600), (1.0, 60, 4000)] {
            let mut retry = Retry::new(RetrySettings {
                jitter: 0.2,
                ..RetrySettings::default()
            });
            let now = Moment::from_nanos(1_000_000_000);
            retry.failed(BucketRequest::Claim, now, chance, None, false);
            let ms = Duration::from_millis;
            assert_eq!(retry.at(BucketRequest::Claim).since(now), ms(delay));
            for _ in 0..20 {
                retry.failed(BucketRequest::Claim, now, chance, None, false);
            }
            assert_eq!(retry.at(BucketRequest::Claim).since(now), ms(last));
        }
    }

    #[test]
    fn the_breaker_opens_with_the_tenth_failure_and_closes_with_a_success() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        for failures in 1..30 {
            retry.failed(BucketRequest::Read, now, 0.5, None, false);
            assert_eq!(retry.is_open(), failures >= MOST_FAILURES);
        }
        retry.succeeded(BucketRequest::Read);
        assert!(!retry.is_open());
        assert_eq!(retry.at(BucketRequest::Read), Moment::from_nanos(0));
    }

    #[test]
    fn reads_that_succeed_do_not_hurry_writes_that_fail() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        for failures in 1..30 {
            retry.failed(BucketRequest::Claim, now, 0.5, None, false);
            let at = retry.at(BucketRequest::Claim);
            let look = retry.at(BucketRequest::Read).since(now);
            assert_eq!(look, steady().initial_backoff);
            retry.succeeded(BucketRequest::Read);
            assert_eq!(retry.is_open(), failures >= MOST_FAILURES);
            assert_eq!(retry.at(BucketRequest::Claim), at);
            assert_eq!(retry.at(BucketRequest::Read), Moment::from_nanos(0));
        }
        assert_eq!(
            retry.at(BucketRequest::Claim).since(now),
            steady().max_backoff
        );
        retry.succeeded(BucketRequest::Claim);
        assert!(!retry.is_open());
    }

    /// Otherwise a read that is answered late makes the claim wait until the read is too old for it.
    #[test]
    fn a_read_that_is_answered_late_ends_the_pause_that_its_timeout_made_for_a_claim() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        retry.failed(BucketRequest::Claim, now, 0.5, None, false);
        let at = retry.at(BucketRequest::Claim);
        retry.failed(BucketRequest::Read, at, 0.5, None, false);
        assert_eq!(
            retry.at(BucketRequest::Claim),
            at + steady().initial_backoff
        );
        retry.succeeded(BucketRequest::Read);
        assert_eq!(retry.at(BucketRequest::Claim), at);
    }

    #[test]
    fn a_lasting_failure_opens_the_breaker_at_once() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        let refused = BucketRequest::Claim;
        retry.failed(refused, now, 0.5, None, true);
        assert!(retry.is_open());
        assert_eq!(retry.at(refused).since(now), steady().max_backoff);
    }

    #[test]
    fn a_lasting_failure_ends_with_an_answer_to_the_same_request() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        retry.failed(BucketRequest::Fence, now, 0.5, None, true);
        for other in [BucketRequest::Read, BucketRequest::Claim] {
            retry.succeeded(other);
            assert_eq!(retry.at(other), now, "the next step can go on");
        }
        retry.others_succeed();
        assert!(retry.is_open());
        retry.succeeded(BucketRequest::Fence);
        assert!(!retry.is_open());
    }

    #[test]
    fn a_write_of_another_instance_shows_that_writes_succeed_again() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        for _ in 0..10 {
            retry.failed(BucketRequest::Claim, now, 0.5, None, false);
        }
        assert!(retry.is_open());
        retry.others_succeed();
        assert!(!retry.is_open());
        assert_eq!(retry.at(BucketRequest::Claim), now);
    }

    #[test]
    fn writes_that_always_meet_another_fail_from_the_fourth_on_unless_one_is_shown() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        let mut contended = |holds| -> Vec<bool> {
            let passes = (0..5).map(|_| retry.contended(BucketRequest::Claim, now, 0.5, holds));
            let passes = passes.collect();
            retry.others_succeed();
            passes
        };
        for _ in 0..2 {
            assert_eq!(contended(false), [true, true, true, false, false]);
            assert_eq!(contended(true), [true; 5], "the lease ends it");
        }
    }

    #[test]
    fn a_new_link_forgets_also_lasting_failures() {
        let mut retry = Retry::new(steady());
        let now = Moment::from_nanos(0);
        retry.failed(BucketRequest::Claim, now, 0.5, None, true);
        retry.begin_anew();
        assert!(!retry.is_open());
        assert_eq!(retry.at(BucketRequest::Claim), now);
    }

    #[test]
    fn a_leader_never_waits_longer_than_its_limit() {
        let mut retry = Retry::new(RetrySettings::default());
        let limit = Duration::from_millis(80);
        for _ in 0..40 {
            retry.failed(
                BucketRequest::Claim,
                Moment::from_nanos(0),
                0.99,
                Some(limit),
                false,
            );
            assert!(retry.at(BucketRequest::Claim) <= Moment::from_nanos(0) + limit);
        }
    }
}
