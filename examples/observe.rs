//! Prints who leads what in the bucket `leaders`, and every change: `cargo run --example observe`,
//! for instance beside `cargo run --example single_role`.

use futures::StreamExt;
use nats_elect::{Change, LeaderInfo, Observer};

#[tokio::main]
async fn main() -> Result<(), nats_elect::BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter("info,async_nats=off") // nats-elect itself tells of the connection
        .with_writer(std::io::stderr)
        .init();
    let url = std::env::var("NATS_URL").unwrap_or_else(|_| "nats://127.0.0.1:4222".into());
    let observer = Observer::builder()
        .servers(&url)
        .bucket("leaders")
        .start_timeout(std::time::Duration::from_secs(3))
        .start();
    let observer = observer.await.unwrap_or_else(|error| {
        eprintln!("{error}\nis a NATS server with JetStream and the bucket `leaders` at {url}? set NATS_URL if it is elsewhere");
        std::process::exit(1);
    });
    // Before the first look, so that nothing falls between.
    let mut changes = observer.changes();
    for (role, seen) in observer.roles() {
        let leader = name(seen.leader.as_ref());
        let left = seen.remaining.map_or(0, |left| left.as_millis());
        let proved = if seen.confirmed {
            ""
        } else {
            " (no heartbeat seen yet)"
        };
        println!(
            "{role}: {}, leader {leader}{proved}, {left} ms left",
            seen.standing
        );
    }
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            _ = tokio::signal::ctrl_c() => None,
        };
        match change {
            Some(Change::Role(change)) => {
                let (from, to) = (name(change.from.as_ref()), name(change.to.as_ref()));
                println!("{}: {from} -> {to}, {}", change.role, change.cause);
            }
            Some(other) => println!("{other:?}"),
            None => return Ok(()),
        }
    }
}

fn name(leader: Option<&LeaderInfo>) -> &str {
    match leader {
        None => "nobody",
        Some(leader) if leader.instance_id.is_empty() => "somebody unknown",
        Some(leader) => &leader.instance_id,
    }
}
