//! Attempts to write to a bucket of NATS, as they pass.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use futures::StreamExt;

use crate::debian::Problem;
use drill::Moment;

/// Sees those that are refused, too.
pub struct Writes(Arc<Mutex<Vec<Moment>>>);

impl Writes {
    /// Watches from now on.
    pub fn watch(address: &str) -> Result<Self, Problem> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (address, passing) = (address.to_owned(), Arc::clone(&seen));
        let (ready, is_ready) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        thread::spawn(move || {
            runtime.block_on(async {
                let client = async_nats::connect(address).await.expect("a connection");
                let subscribed = client.subscribe("$KV.peers.>").await;
                let mut subscription = subscribed.expect("a subscription");
                client.flush().await.expect("a connection");
                let _ = ready.send(());
                while subscription.next().await.is_some() {
                    let mut passing = passing.lock().unwrap_or_else(PoisonError::into_inner);
                    passing.push(Moment::now());
                }
            });
        });
        is_ready.recv()?;
        Ok(Self(seen))
    }

    /// How many there were from the end of one handler until the next one started and late claims
    /// were refused. The next heartbeat comes later.
    pub fn between(&self, ended: Moment, started: Moment) -> usize {
        const LATE: Duration = Duration::from_millis(100);
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_within = |at: &&Moment| **at >= ended && at.since(started) <= LATE;
        seen.iter().filter(is_within).count()
    }
}
