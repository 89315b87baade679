//! An HTTP service whose instances share keys: each instance takes any request, and passes it on to
//! the instance that owns the key.
//!
//! ```text
//! cargo run --example routing -- 127.0.0.1:3000
//! cargo run --example routing -- 127.0.0.1:3001            # a second instance, and a third
//! curl -X PUT -d 'red' http://127.0.0.1:3000/keys/apple/1
//! curl http://127.0.0.1:3001/keys/apple                    # the same answer from each of them
//! ```
//!
//! It needs `nats-server -js` at `NATS_URL` (by default `nats://127.0.0.1:4222`). Ctrl-C gives the
//! shards of an instance to the others, and requests go on meanwhile.
//!
//! The address of an instance is its instance id. So each instance finds the others by what the
//! group tells: `routing.rs` passes requests on, `owned.rs` serves those of the shards that this
//! instance owns.

mod owned;
mod routing;
#[cfg(test)]
mod tests;

use std::env::args;
use std::future::IntoFuture;
use std::time::Duration;

use nats_elect::{BoxError, Group, RoleManager};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::sync::mpsc;

use crate::owned::{Access, Owned};
use crate::routing::Service;

/// The group whose shards the keys belong to.
const GROUP: &str = "keys";
const SHARDS: u32 = 64;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let address = args().nth(1).unwrap_or("127.0.0.1:3000".into());
    let listener = TcpListener::bind(&address).await?;
    let (log, mut accesses) = mpsc::unbounded_channel();
    let owned = Owned::new(&address, log);
    let manager = RoleManager::builder()
        .with_env()
        .bucket("routing")
        .bucket_auto_create()
        .instance_id(&address)
        .group(Group::sharded(GROUP, SHARDS, owned.clone()))
        .start()
        .await?;
    let service = Service::new(manager.group(GROUP)?, owned);
    let server = axum::serve(listener, service.routes()).with_graceful_shutdown(async {
        let _ = ctrl_c().await;
    });
    let server = tokio::spawn(server.into_future());
    tokio::spawn(async move {
        while let Some(access) = accesses.recv().await {
            match access {
                Access::Began {
                    instance,
                    key,
                    token,
                } => println!("{instance} serves {key} with token {token}"),
                Access::Ended { instance, key } => println!("{instance} has served {key}"),
            }
        }
    });
    println!("listens at http://{address}");
    manager.run_until(ctrl_c()).await?;
    // A client that does not finish its request delays the end by 5 s at most.
    let _ = tokio::time::timeout(Duration::from_secs(5), server).await;
    Ok(())
}
