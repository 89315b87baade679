//! When the handlers of units are asked whether they are well, and what follows from the answers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nats_elect_core::Moment;

/// The health checks of handlers. Each handler has a key.
#[derive(Default)]
pub(super) struct HealthChecks<K> {
    next: Option<Moment>,
    /// The checks that are not answered yet.
    asked: BTreeSet<K>,
    /// How many checks of a handler have failed in a row.
    failed: BTreeMap<K, u32>,
}

impl<K: Ord + Clone + Send + 'static> HealthChecks<K> {
    /// When handlers are to be checked next.
    pub const fn next(&self) -> Option<Moment> {
        self.next
    }

    /// Whether it is time for the next checks. The first ones come an interval after there are handlers.
    pub fn is_due(&mut self, now: Moment, interval: Duration, has_handlers: bool) -> bool {
        if !has_handlers {
            self.next = None;
            return false;
        }
        let next = *self.next.get_or_insert(now + interval);
        if now < next {
            return false;
        }
        self.next = Some(now + interval);
        true
    }

    /// Begins a check, if the handler has one and its last one is answered. Tells the answer.
    pub fn ask<F: Future<Output = bool> + Send + 'static>(
        &mut self,
        of: K,
        check: impl FnOnce() -> Option<F>,
        tell: impl FnOnce(K, bool) + Send + 'static,
    ) {
        if self.asked.contains(&of) {
            return;
        }
        let Some(check) = check() else {
            return;
        };
        self.asked.insert(of.clone());
        tokio::spawn(async move {
            let healthy = check.await;
            tell(of, healthy);
        });
    }

    /// Takes an answer. Returns whether this was the last failure that a handler may have in a row.
    pub fn answered(&mut self, of: K, healthy: bool, most: u32) -> bool {
        self.asked.remove(&of);
        let failed = self.failed.remove(&of).unwrap_or(0) + 1;
        if healthy || failed >= most {
            return !healthy;
        }
        self.failed.insert(of, failed);
        false
    }

    /// A handler has ended. The next one begins with none of its failures.
    pub fn forget(&mut self, of: &K) {
        self.failed.remove(of);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Moment {
        Moment::from_nanos(1) + Duration::from_secs(secs)
    }

    #[test]
    fn handlers_are_checked_an_interval_after_the_first_of_them_begins_and_then_regularly() {
        let mut checks = HealthChecks::<u32>::default();
        let mut due = |second, has_handlers| {
            let is_due = checks.is_due(at(second), Duration::from_secs(5), has_handlers);
            (is_due, checks.next())
        };
        assert_eq!(due(1, false), (false, None));
        assert_eq!(due(2, true), (false, Some(at(7))));
        assert_eq!(due(6, true), (false, Some(at(7))));
        assert_eq!(due(8, true), (true, Some(at(13))));
        assert_eq!(due(9, false), (false, None));
    }

    #[test]
    fn three_failures_in_a_row_are_the_last_and_a_handler_that_ended_leaves_none_behind() {
        let mut checks = HealthChecks::default();
        let mut fails = |of| checks.answered(of, false, 3);
        assert_eq!(
            [1, 1, 2, 1, 1].map(&mut fails),
            [false, false, false, true, false]
        );
        checks.answered(1, true, 3);
        assert_eq!([1, 1].map(|of| checks.answered(of, false, 3)), [false; 2]);
        checks.forget(&1);
        assert!(!checks.answered(1, false, 3));
    }
}
