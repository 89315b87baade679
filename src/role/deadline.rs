//! A deadline that any thread can read and only its owner moves.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::clock;
use nats_elect_core::Moment;

const OVER: u64 = 0;

/// The time until which something is valid.
///
/// Once any thread has seen the deadline as over, it stays over. An answer of `false` is never
/// taken back, whatever arrives later.
#[derive(Debug)]
pub(crate) struct Deadline(AtomicU64);

impl Deadline {
    pub const fn over() -> Self {
        Self(AtomicU64::new(OVER))
    }

    pub fn at(until: Moment) -> Self {
        Self(AtomicU64::new(until.as_nanos()))
    }

    /// Starts a new deadline, whatever the old one was.
    pub fn begin(&self, until: Moment) {
        self.0.store(until.as_nanos(), Ordering::Release);
    }

    /// Returns whether the deadline lies ahead of the clock now.
    pub fn is_ahead(&self) -> bool {
        loop {
            let until = self.0.load(Ordering::Acquire);
            if until == OVER {
                return false;
            }
            if clock::now().as_nanos() < until {
                return true;
            }
            // The owner may have moved the deadline meanwhile. Look again then.
            if self.replace(until, OVER) {
                return false;
            }
        }
    }

    /// Moves the deadline, unless it is over. Returns whether it was moved.
    pub fn move_to(&self, until: Moment) -> bool {
        while self.is_ahead() {
            let current = self.0.load(Ordering::Acquire);
            if current != OVER && self.replace(current, until.as_nanos()) {
                return true;
            }
        }
        false
    }

    fn replace(&self, current: u64, new: u64) -> bool {
        let replaced = self
            .0
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire);
        replaced.is_ok()
    }

    /// Ends the deadline.
    pub fn revoke(&self) {
        self.0.store(OVER, Ordering::Release);
    }

    /// Returns the time left. It is zero once the deadline is over.
    pub fn remaining(&self) -> Duration {
        match self.0.load(Ordering::Acquire) {
            OVER => Duration::ZERO,
            until => Moment::from_nanos(until).since(clock::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ahead() -> Moment {
        clock::now() + Duration::from_secs(3600)
    }

    fn behind() -> Moment {
        clock::now() - Duration::from_nanos(1)
    }

    #[test]
    fn a_deadline_is_ahead_until_the_clock_passes_it() {
        assert!(Deadline::at(ahead()).is_ahead());
        assert!(!Deadline::at(behind()).is_ahead());
        assert!(!Deadline::over().is_ahead());
    }

    #[test]
    fn a_late_extension_is_refused_whether_or_not_a_reader_saw_the_end() {
        for is_seen in [false, true] {
            let deadline = Deadline::at(behind());
            assert!(!is_seen || !deadline.is_ahead());
            assert!(!deadline.move_to(ahead()));
            assert_eq!(deadline.remaining(), Duration::ZERO);
            assert!(!deadline.is_ahead());
        }
    }

    #[test]
    fn a_revoked_deadline_stays_over_until_it_begins_anew() {
        let deadline = Deadline::at(ahead());
        deadline.revoke();
        assert!(!deadline.move_to(ahead()));
        deadline.begin(ahead());
        assert!(deadline.is_ahead());
    }

    #[test]
    fn no_reader_sees_a_deadline_as_valid_again_after_it_was_over() {
        let deadline = Deadline::at(clock::now() + Duration::from_micros(200));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut seen_over = false;
                    for _ in 0..50_000 {
                        let ahead = deadline.is_ahead();
                        assert!(!(seen_over && ahead), "it came back");
                        seen_over |= !ahead;
                    }
                });
            }
            scope.spawn(|| {
                while deadline.move_to(clock::now() + Duration::from_nanos(300)) {
                    std::hint::spin_loop();
                }
            });
        });
    }
}
