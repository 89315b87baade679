//! A leader that says whether it is well, and an HTTP server that tells others.
//!
//! ```text
//! cargo run --example health
//! cargo run --example health -- 127.0.0.1:8081     # a second instance
//! curl -i http://127.0.0.1:8080/leaderz/reporter                     # also /livez and /readyz
//! ```
//!
//! It needs `nats-server -js` at `NATS_URL` (by default `nats://127.0.0.1:4222`). The leader writes
//! a report each second. Delete its folder, and it gives the role up.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nats_elect::health::HealthServer;
use nats_elect::{BoxError, RoleConfig, RoleHandler, RoleManager, Term};

/// The folder for reports. The handler and the rest of the application share it through an `Arc`.
struct Outbox {
    folder: PathBuf,
    writable: AtomicBool,
}

impl Outbox {
    /// Looks after the folder, also while this instance does not lead.
    async fn watch(self: Arc<Self>) {
        loop {
            let written = tokio::fs::write(self.folder.join("probe"), "").await;
            self.writable.store(written.is_ok(), Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}

struct Reporter {
    outbox: Arc<Outbox>,
}

impl RoleHandler for Reporter {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        println!("leading");
        let pause = || tokio::time::sleep(Duration::from_secs(1));
        while term.run_until_cancelled(pause()).await.is_some() {
            let report = self.outbox.folder.join("report");
            if let Err(error) = tokio::fs::write(report, "all is well\n").await {
                println!("no report: {error}"); // `healthy` decides whether the term ends.
            }
        }
        println!("no longer leading");
        Ok(())
    }

    /// Answers from memory. A check that takes longer than `health.timeout` counts as failed.
    async fn healthy(&self) -> bool {
        self.outbox.writable.load(Ordering::Relaxed)
    }
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter("info,async_nats=off") // nats-elect itself tells of the connection
        .with_writer(std::io::stderr)
        .init();
    let address = std::env::args().nth(1);
    let address = address.unwrap_or_else(|| "127.0.0.1:8080".into());
    // Before the manager starts: an error afterwards would drop it, and the role would wait for its
    // lease.
    let socket = HealthServer::bind(&address).await?;
    let folder = std::env::temp_dir().join(format!("outbox-{}", address.replace(':', "-")));
    tokio::fs::create_dir_all(&folder).await?;
    println!("reports are in {}", folder.display());
    let writable = AtomicBool::new(true);
    let outbox = Arc::new(Outbox { folder, writable });
    tokio::spawn(Arc::clone(&outbox).watch());

    // Three failed checks in a row end the term: the leader is asked each third of its ttl.
    let config = RoleConfig::default().ttl(Duration::from_secs(6));
    let manager = RoleManager::builder()
        .with_env()
        .bucket("leaders")
        .bucket_auto_create()
        .role("reporter", config, Reporter { outbox })
        .start()
        .await?;
    // The server answers until it is dropped.
    let health = HealthServer::builder().serve(socket, manager.probe())?;
    println!("health is at http://{}/readyz", health.address());
    manager.run_until(tokio::signal::ctrl_c()).await?;
    Ok(())
}
