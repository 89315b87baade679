//! A leader keeps its cursor in `term.store()`: the server refuses the writes of an older term.
//!
//! ```text
//! cargo run --example store
//! ```
//!
//! It needs `nats-server -js`, version 2.12 or later, at `NATS_URL` (by default
//! `nats://127.0.0.1:4222`). Run it in two terminals and stop the leader with Ctrl-C: the other
//! instance goes on with the next record.

use std::time::Duration;

use nats_elect::{BoxError, FencedError, FencedStore, RoleConfig, RoleManager, Term, handler_fn};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    tracing_subscriber::fmt()
        .with_env_filter("info,async_nats=off") // nats-elect itself tells of the connection
        .with_writer(std::io::stderr)
        .init();
    let manager = RoleManager::builder()
        .with_env()
        .bucket("leaders")
        .bucket_auto_create()
        .role("importer", RoleConfig::default(), handler_fn(lead))
        .start()
        .await?;
    println!("{} stands for election", manager.instance_id());
    manager.run_until(tokio::signal::ctrl_c()).await?;
    Ok(())
}

async fn lead(term: Term) -> Result<(), BoxError> {
    let store = term.store();
    let (mut done, mut revision) = read(&store).await?;
    println!("leading: {done} records are done");
    // The work comes first, then the cursor. A crash in between repeats a record, and loses none.
    while let Some(next) = term.run_until_cancelled(import_after(done)).await {
        match store.update("cursor", next.to_string(), revision).await {
            Ok(written) => (done, revision) = (next, written),
            // A newer term exists, or the lease is over. Nothing was written: stop leading.
            Err(error @ (FencedError::Superseded { .. } | FencedError::NotLeader)) => {
                println!("{error}");
                break;
            }
            // `Conflict`: another write of this term moved the cursor. `Unconfirmed`: this write
            // may have been stored. The term goes on in both cases, and a read tells from where.
            Err(error @ (FencedError::Conflict { .. } | FencedError::Unconfirmed { .. })) => {
                println!("{error}");
                (done, revision) = read(&store).await?;
            }
            // Any other error ends the term: another instance leads, or this one tries anew.
            Err(error) => return Err(error.into()),
        }
    }
    println!("no longer leading: {done} records are done");
    Ok(())
}

/// Reads how many records are done, and the revision over which that may be written.
async fn read(store: &FencedStore) -> Result<(u64, u64), BoxError> {
    match store.get("cursor").await? {
        Some(entry) => Ok((String::from_utf8(entry.value)?.parse()?, entry.revision)),
        None => Ok((0, store.create("cursor", "0").await?)),
    }
}

/// Stands for the import of one record, which can be done twice without harm. Returns its number.
async fn import_after(done: u64) -> u64 {
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("record {}", done + 1);
    done + 1
}
