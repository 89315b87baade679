//! At most one run of the command for a role in this process, and none once the wait for the first
//! one was given up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One turn after the other.
#[derive(Clone, Debug)]
pub struct Turns {
    turns: Arc<Semaphore>,
    were_taken: Arc<AtomicBool>,
}

impl Turns {
    pub fn new() -> Self {
        Self {
            turns: Arc::new(Semaphore::new(1)),
            were_taken: Arc::default(),
        }
    }

    /// Waits for the end of the turn before. Nothing once there are no turns any more.
    pub async fn take(&self) -> Option<OwnedSemaphorePermit> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.ok()?;
        self.were_taken.store(true, Ordering::Release);
        Some(turn)
    }

    pub fn are_free(&self) -> bool {
        self.turns.available_permits() > 0
    }

    /// Whether there has ever been one.
    pub fn were_taken(&self) -> bool {
        self.were_taken.load(Ordering::Acquire)
    }

    /// Gives no turn any more, unless there has been one. Returns whether that is so.
    pub fn end_unless_taken(&self) -> bool {
        let Ok(_turn) = self.turns.try_acquire() else {
            return false;
        };
        if !self.were_taken() {
            self.turns.close();
        }
        self.turns.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::Turns;

    #[test]
    fn a_turn_waits_for_the_end_of_the_one_before() {
        let turns = Turns::new();
        let first = turns.take().now_or_never().flatten().expect("a turn");
        assert!(!turns.are_free());
        assert!(turns.take().now_or_never().is_none());
        drop(first);
        assert!(turns.take().now_or_never().flatten().is_some());
    }

    #[test]
    fn turns_end_only_before_the_first_one() {
        let turns = Turns::new();
        assert!(turns.end_unless_taken());
        assert!(turns.take().now_or_never().expect("no wait").is_none());
        let turns = Turns::new();
        let first = turns.take().now_or_never().flatten();
        assert!(first.is_some() && !turns.end_unless_taken());
        drop(first);
        assert!(turns.were_taken() && !turns.end_unless_taken());
    }
}
