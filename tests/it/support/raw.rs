//! The floor that handoffs are measured against: NATS alone, without leases, fences and handlers.

use std::time::Duration;

use async_nats::jetstream::{self, kv, stream::StorageType};
use futures::StreamExt;

use super::clock::Stamp;

/// One client deletes a key, another sees it go and makes it anew.
pub struct RawHandoffs {
    holder: kv::Store,
    contender: kv::Store,
    watch: kv::Watch,
}

impl RawHandoffs {
    pub async fn start(url: &str) -> Self {
        let context = async || jetstream::new(async_nats::connect(url).await.expect("connect"));
        let config = kv::Config {
            bucket: "raw".to_owned(),
            history: 1,
            storage: StorageType::Memory,
            ..Default::default()
        };
        let holder = context().await.create_key_value(config).await;
        let holder = holder.expect("a bucket");
        holder.put("role", "held".into()).await.expect("put");
        let contender = context().await.get_key_value("raw").await;
        let contender = contender.expect("the bucket");
        let mut watch = contender.watch_with_history("role").await.expect("a watch");
        watch.next().await.expect("what stands").expect("a message");
        Self {
            holder,
            contender,
            watch,
        }
    }

    /// From the deletion until the new value is confirmed.
    pub async fn hand_off(&mut self) -> Duration {
        let began = Stamp::now();
        self.holder.delete("role").await.expect("delete");
        let deleted = self.watch.next().await.expect("a change");
        let over = deleted.expect("a message").revision;
        let made = self.contender.update("role", "held".into(), over).await;
        made.expect("nobody else contends");
        let took = Stamp::now().since(began);
        self.watch
            .next()
            .await
            .expect("our own")
            .expect("a message");
        took
    }
}
