//! A handler shares state with its application, and is tested without a server.
//!
//! ```text
//! cargo run --example shared_state -- /tmp/spool     # then: touch /tmp/spool/{1..9}, and rm them
//! cargo test --example shared_state --features testing
//! ```
//!
//! It needs `nats-server -js` at `NATS_URL` (by default `nats://127.0.0.1:4222`). Every instance
//! counts the files in the folder. Only the leader raises the alarm when they are too many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use nats_elect::{BoxError, RoleConfig, RoleHandler, RoleManager, Term};
use tokio::sync::watch;

/// The decision: a plain struct that knows nothing of elections, clocks or channels.
#[derive(Default)]
struct Alarm(bool);

impl Alarm {
    /// Raises at 8 files and clears at 3, so that it does not flap. Returns the change, if any.
    fn see(&mut self, files: usize) -> Option<&'static str> {
        let raise = if self.0 { files > 3 } else { files >= 8 };
        let before = std::mem::replace(&mut self.0, raise);
        (before != raise).then_some(if raise { "raised" } else { "cleared" })
    }
}

/// The handler: it takes each count to the decision, and tells the outcome.
struct Watchman {
    files: watch::Receiver<usize>, // From the application: only the newest count matters.
    notices: Arc<AtomicU32>,       // To the application.
}

impl RoleHandler for Watchman {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        println!("leading");
        // Each term has an alarm of its own, and begins with the newest count.
        let (mut files, mut alarm) = (self.files.clone(), Alarm::default());
        loop {
            let count = *files.borrow_and_update();
            if let Some(change) = alarm.see(count) {
                println!("alarm {change}: {count} files");
                self.notices.fetch_add(1, Ordering::Relaxed);
            }
            let Some(Ok(())) = term.run_until_cancelled(files.changed()).await else {
                return Ok(()); // The term winds down, or the application has dropped the sender.
            };
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter("info,async_nats=off") // nats-elect itself tells of the connection
        .with_writer(std::io::stderr)
        .init();
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    std::fs::create_dir_all(&folder)?;
    let count = move || std::fs::read_dir(&folder).map_or(0, Iterator::count);
    let (counts, files) = watch::channel(count());
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            counts.send_replace(count());
        }
    });
    let notices = Arc::<AtomicU32>::default();
    let given = Arc::clone(&notices);
    let watchman = Watchman { files, notices };
    let manager = RoleManager::builder()
        .with_env()
        .bucket("leaders")
        .bucket_auto_create()
        .role("watchman", RoleConfig::default(), watchman)
        .start()
        .await?;
    manager.run_until(tokio::signal::ctrl_c()).await?;
    println!("{} notices given here", given.load(Ordering::Relaxed));
    Ok(())
}

#[test]
fn the_alarm_is_raised_once_and_cleared_once() {
    let mut alarm = Alarm::default();
    let changes = [7, 8, 9, 4, 3, 7].map(|files| alarm.see(files));
    let (up, down) = (Some("raised"), Some("cleared"));
    assert_eq!(changes, [None, up, None, None, down, None]);
}

/// The handler itself, in a term that the test holds.
#[tokio::test]
async fn the_watchman_watches_until_its_term_winds_down() {
    use nats_elect::testing::TestTerm;

    let (counts, files) = watch::channel(0);
    let notices = Arc::<AtomicU32>::default();
    let given = Arc::clone(&notices);
    let watchman = Watchman { files, notices };
    let term = TestTerm::new("watchman");
    let told = async |times| {
        while given.load(Ordering::Relaxed) < times {
            tokio::task::yield_now().await;
        }
    };
    let story = async {
        counts.send_replace(8);
        told(1).await;
        counts.send_replace(3);
        told(2).await;
        term.cancel();
    };
    let (led, ()) = tokio::join!(term.lead(&watchman), story);
    assert!(matches!(led, Some(Ok(()))), "{led:?}");
}
