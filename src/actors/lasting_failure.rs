//! A repeated count of trouble while it lasts.

use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::event::FailureKind;

/// The interval of the count. It fits several times into the shortest period over which a dashboard
/// looks at a counter.
const AGAIN: Duration = Duration::from_secs(5);

/// The moment when lasting trouble was last counted. A counter that grew only once, perhaps before
/// it was first read, would suggest that the trouble has passed.
#[derive(Debug, Default)]
pub(super) struct LastingFailure {
    counted: Option<Moment>,
}

impl LastingFailure {
    /// Takes the present trouble, whose beginning was counted elsewhere. Returns the trouble to
    /// count once more.
    pub fn again(&mut self, lasting: Option<FailureKind>, now: Moment) -> Option<FailureKind> {
        if lasting.is_none() {
            self.counted = None;
            return None;
        }
        let counted = self.counted.get_or_insert(now);
        if now.since(*counted) < AGAIN {
            return None;
        }
        *counted = now;
        lasting
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    #[test]
    fn lasting_trouble_is_counted_repeatedly_and_anew_when_it_returns() {
        let mut lasting_failure = LastingFailure::default();
        let at = |secs| Moment::from_nanos(1) + Duration::from_secs(secs);
        let mut counted = |seconds: Range<u64>, lasting| {
            let again = |second: &u64| lasting_failure.again(lasting, at(*second)).is_some();
            seconds.filter(again).collect::<Vec<_>>()
        };
        let missing = Some(FailureKind::BucketMissing);
        assert_eq!(counted(0..13, missing), [5, 10]);
        assert!(counted(13..30, None).is_empty());
        assert_eq!(counted(30..36, missing), [35]);
    }
}
