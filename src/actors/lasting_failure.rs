//! Counts trouble again while it lasts.

use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::event::FailureKind;

/// Several times in the least time over which a dashboard looks at a counter.
const AGAIN: Duration = Duration::from_secs(5);

/// When trouble that lasts was last counted. A counter that grew once, perhaps before it was first read, would tell
/// that it has passed.
#[derive(Debug, Default)]
pub(super) struct LastingFailure {
    counted: Option<Moment>,
}

impl LastingFailure {
    /// Takes what the trouble is now, whose beginning was counted elsewhere. Returns what to count once more.
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
    fn trouble_is_counted_again_as_long_as_it_lasts_and_anew_when_it_comes_back() {
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
