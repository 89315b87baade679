//! A bound on reports of many roles and on orders to groups, so that they do not cost a leader its
//! heartbeats. They share a thread and a connection.

use std::time::Duration;

use nats_elect_core::Moment;

const SECOND: Duration = Duration::from_secs(1);
/// Bytes of reports: of some thousands of roles, and a third of the capacity of 100 Mbit/s.
pub(super) const REPORTS: usize = 4 << 20;
/// Orders to groups. Each is a map that all members read.
pub(super) const ORDERS: usize = 100;

/// What was granted within the present second.
#[derive(Debug)]
pub(super) struct Ration {
    most: usize,
    since: Moment,
    granted: usize,
}

impl Ration {
    pub const fn new(most: usize, now: Moment) -> Self {
        Self {
            most,
            since: now,
            granted: 0,
        }
    }

    /// Returns whether so much is granted. The last grant of a second may exceed the bound.
    pub fn allows(&mut self, amount: usize, now: Moment) -> bool {
        if now.since(self.since) >= SECOND {
            *self = Self::new(self.most, now);
        }
        let allowed = self.granted < self.most;
        if allowed {
            self.granted += amount;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_reports_are_sent_as_often_as_they_are_asked_for() {
        let now = Moment::from_nanos(1);
        let mut ration = Ration::new(REPORTS, now);
        assert!((0..200).all(|_| ration.allows(10_000, now)));
    }

    #[test]
    fn large_reports_are_sent_a_few_times_in_a_second() {
        let now = Moment::from_nanos(1);
        let mut ration = Ration::new(REPORTS, now);
        for second in 0..3 {
            let now = now + SECOND * second;
            let sent = (0..200).filter(|_| ration.allows(1 << 20, now));
            assert_eq!(sent.count(), 4);
            assert!(!ration.allows(0, now));
        }
    }

    #[test]
    fn a_report_of_any_size_is_sent_once_in_a_second() {
        let now = Moment::from_nanos(1);
        let mut ration = Ration::new(REPORTS, now);
        for second in 0..3 {
            let now = now + SECOND * second;
            assert!(ration.allows(0, now));
            assert!(ration.allows(64 << 20, now));
            assert!(!ration.allows(1, now));
        }
    }
}
