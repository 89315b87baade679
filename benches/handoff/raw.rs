//! The floor: what a handoff costs with NATS alone, without fencing, leases or handlers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_nats::ServerAddr;
use async_nats::jetstream::kv::{Config, Operation, Store};
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::clock::Moment;
use crate::nats::Nats;

const KEY: &str = "role";

/// Several clients: one holds a key, the others watch it and create it as soon as it is deleted.
pub struct Raw {
    stores: Vec<Store>,
    holder: Arc<AtomicUsize>,
    created: mpsc::UnboundedReceiver<Moment>,
}

impl Raw {
    /// Connects the clients, each over a connection of its own; the first holds the key.
    pub async fn start(nats: &Nats, clients: usize) -> Self {
        let servers = nats.urls();
        let servers: Vec<ServerAddr> = servers
            .split(',')
            .map(|url| url.parse().expect("an address"))
            .collect();
        let mut stores = Vec::new();
        let holder = Arc::new(AtomicUsize::new(0));
        let (tell, created) = mpsc::unbounded_channel();
        for number in 0..clients {
            let client = async_nats::connect(&servers[..])
                .await
                .expect("a connection");
            let context = async_nats::jetstream::new(client);
            let store = if number == 0 {
                let config = Config {
                    bucket: "raw".to_owned(),
                    history: 1,
                    num_replicas: nats.replicas(),
                    ..Config::default()
                };
                context.create_key_value(config).await.expect("a bucket")
            } else {
                context.get_key_value("raw").await.expect("the bucket")
            };
            if number == 0 {
                store.put(KEY, "held".into()).await.expect("the key");
            }
            tokio::spawn(contend(
                number,
                store.clone(),
                Arc::clone(&holder),
                tell.clone(),
            ));
            stores.push(store);
        }
        // The watches have no other way of saying that they stand.
        tokio::time::sleep(Duration::from_millis(200)).await;
        Self {
            stores,
            holder,
            created,
        }
    }

    /// From the deletion until the first of the others has its creation confirmed.
    pub async fn hand_off(&mut self) -> Duration {
        let holder = self.holder.load(Ordering::SeqCst);
        let began = Moment::now();
        self.stores[holder].delete(KEY).await.expect("a deletion");
        let created = self.created.recv().await.expect("somebody creates it");
        created.since(began)
    }
}

async fn contend(
    number: usize,
    store: Store,
    holder: Arc<AtomicUsize>,
    tell: mpsc::UnboundedSender<Moment>,
) {
    let mut watch = store.watch(KEY).await.expect("a watch");
    while let Some(entry) = watch.next().await {
        let Ok(entry) = entry else { continue };
        if entry.operation != Operation::Delete || holder.load(Ordering::SeqCst) == number {
            continue;
        }
        if store
            .update(KEY, "held".into(), entry.revision)
            .await
            .is_ok()
        {
            let created = Moment::now();
            holder.store(number, Ordering::SeqCst);
            let _ = tell.send(created);
        }
    }
}
