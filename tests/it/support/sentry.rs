//! Who says that it leads, asked all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use nats_elect::RoleHandle;

use super::clock::Stamp;
use super::ms;

/// Asks some instances over and over whether they lead a role, on a thread of its own and by one
/// clock.
pub struct Sentry {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Watched>,
}

/// What a sentry saw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    /// For how long two or more said at once that they lead.
    pub overlap: Duration,
    /// In how many rounds of questions they did.
    pub rounds_with_two: u64,
    /// In how many somebody did.
    pub rounds_with_any: u64,
}

impl Sentry {
    pub fn of(handles: Vec<RoleHandle>) -> Self {
        let over = Arc::<AtomicBool>::default();
        let stop = Arc::clone(&over);
        let thread = thread::spawn(move || {
            let mut watched = Watched::default();
            let mut two_since = None;
            while !stop.load(Ordering::Relaxed) {
                // Who says so before and after this moment, says so in it.
                let before = handles.iter().filter(|one| one.is_leader());
                let before: Vec<_> = before.collect();
                let now = Stamp::now();
                let leaders = before.iter().filter(|one| one.is_leader()).count();
                watched.rounds_with_any += u64::from(leaders > 0);
                if leaders > 1 {
                    watched.rounds_with_two += 1;
                    watched.overlap += now.since(two_since.unwrap_or(now));
                    two_since = Some(now);
                } else {
                    two_since = None;
                }
                thread::sleep(ms(1) / 4);
            }
            watched
        });
        Self { over, thread }
    }

    pub fn end(self) -> Watched {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}
