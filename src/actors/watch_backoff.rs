//! The pause before another watch, after a watch has ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::backoff::Backoff;
use nats_elect_core::Moment;

/// The pause between attempts to watch. It doubles from the first value to the second.
const RETRY: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// The number of watches in a row that ended with their connection before they had caught up. They
/// may have caused that by the messages that they received: headers that the client cannot read cost
/// it the connection, and a watch begins with the last message of each key. The connection is then
/// worth more than the watch, which waits. The pause doubles from the first value to the second.
const BROKEN: u32 = 3;
const REST: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(60));

/// The pace of successive watches.
#[derive(Debug)]
pub(super) struct WatchBackoff {
    failures: u32,
    /// The number of watches in a row that ended with their connection before they had caught up.
    broken: u32,
    started: Moment,
    /// Whether the last watch on this connection has caught up, if there was one.
    caught_up: Option<Arc<AtomicBool>>,
}

impl WatchBackoff {
    pub const fn new(now: Moment) -> Self {
        Self {
            failures: 0,
            broken: 0,
            started: now,
            caught_up: None,
        }
    }

    /// Records that a watch began. Returns what is set once it has caught up.
    pub fn begun(&mut self, now: Moment) -> Arc<AtomicBool> {
        self.started = now;
        Arc::clone(self.caught_up.insert(Arc::default()))
    }

    /// Records that the connection was lost, if it had a watch. One that had caught up had shown what
    /// was stored when it began: the client can read it.
    pub fn connection_lost(&mut self) {
        if let Some(caught_up) = self.caught_up.take() {
            let was_read = caught_up.load(Ordering::Relaxed);
            self.broken = if was_read { 0 } else { self.broken + 1 };
        }
    }

    /// Records that the connection is back. Returns the pause before the next watch, if the
    /// connection broke with each of the last watches.
    pub fn reconnected(&mut self) -> Option<Duration> {
        self.failures = 0;
        Some(REST.after(self.broken.checked_sub(BROKEN)?))
    }

    /// Records that the watch ended by itself. Returns the pause before the next one.
    pub fn ended(&mut self, now: Moment) -> Duration {
        if now.since(self.started) > RETRY.longest() * 2 {
            // The watch worked for a while, so this is a new problem.
            self.failures = 0;
        }
        let wait = RETRY.after(self.failures);
        self.failures += 1;
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn failing_watches_slow_down_until_one_succeeds() {
        let mut watch_backoff = WatchBackoff::new(ms(0));
        let waits: Vec<_> = (0..8)
            .map(|_| watch_backoff.ended(ms(1)).as_millis())
            .collect();
        assert_eq!(waits, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
        watch_backoff.begun(ms(10_000));
        assert_eq!(watch_backoff.ended(ms(14_001)).as_millis(), 50);
    }

    #[test]
    fn a_connection_that_breaks_with_every_watch_is_left_alone_for_a_while() {
        let mut watch_backoff = WatchBackoff::new(ms(0));
        for (broken, rest) in [(1, None), (2, None), (3, Some(2)), (4, Some(4))] {
            watch_backoff.begun(ms(broken * 10_000));
            if broken % 2 == 0 {
                // What ends first, the watch or the connection, is by chance.
                watch_backoff.ended(ms(broken * 10_000));
            }
            watch_backoff.connection_lost();
            watch_backoff.connection_lost();
            assert_eq!(watch_backoff.reconnected(), rest.map(Duration::from_secs));
        }
        let caught_up = watch_backoff.begun(ms(90_000));
        caught_up.store(true, Ordering::Relaxed);
        watch_backoff.connection_lost();
        assert_eq!(watch_backoff.reconnected(), None, "it could be read");
    }

    #[test]
    fn servers_that_restart_one_after_another_cost_no_pause() {
        let mut watch_backoff = WatchBackoff::new(ms(0));
        for restart in 0..10 {
            let caught_up = watch_backoff.begun(ms(restart * 500));
            caught_up.store(true, Ordering::Relaxed);
            watch_backoff.connection_lost();
            assert_eq!(watch_backoff.reconnected(), None);
        }
    }
}
