//! The polls of a term's futures. A poll that lasts long blocks its thread.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Mutex;

use crate::clock;
use crate::lock::lock;
use nats_elect_core::Moment;

/// The polls under way. There are never more of them than threads.
#[derive(Debug, Default)]
pub(super) struct Polls(Mutex<Vec<Moment>>);

impl Polls {
    /// Runs `future`, and records when it is polled.
    pub async fn watch<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            let _polling = self.begin();
            future.as_mut().poll(context)
        })
        .await
    }

    /// Returns whether a poll that began before that moment is still under way.
    pub fn last_since(&self, moment: Moment) -> bool {
        lock(&self.0).iter().any(|begun| *begun < moment)
    }

    fn begin(&self) -> Polling<'_> {
        let begun = clock::now();
        lock(&self.0).push(begun);
        Polling { polls: self, begun }
    }
}

struct Polling<'a> {
    polls: &'a Polls,
    begun: Moment,
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let mut polls = lock(&self.polls.0);
        // If two polls began at the same moment, removing either is correct.
        if let Some(index) = polls.iter().position(|begun| *begun == self.begun) {
            polls.swap_remove(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_poll_is_under_way_until_it_returns_or_panics() {
        let polls = Polls::default();
        let later = clock::now() + std::time::Duration::from_secs(3600);
        let seen = polls.watch(async { polls.last_since(later) });
        assert_eq!(seen.now_or_never(), Some(true));
        assert!(!polls.last_since(later));
        let mut waiting = pin!(polls.watch(std::future::pending::<()>()));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        assert!(!polls.last_since(later), "it waits, and blocks nobody");
        let panics = AssertUnwindSafe(polls.watch(async { panic!("as the test wants") }));
        let panicked: Option<Result<(), _>> = panics.catch_unwind().now_or_never();
        assert!(panicked.expect("at once").is_err());
        assert!(!polls.last_since(later));
    }

    #[test]
    fn a_poll_that_began_later_does_not_count() {
        let polls = Polls::default();
        let before = clock::now();
        let seen = polls.watch(async { polls.last_since(before) });
        assert_eq!(seen.now_or_never(), Some(false));
    }
}
