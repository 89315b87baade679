//! A candidate by hand: a key that is created, watched and deleted. It has no lease, no fencing and
//! no handler: the floor of what an election over NATS can cost.

use async_nats::jetstream::kv::{Config, Operation, Store};
use futures::StreamExt;

use super::{Event, Order, OrderBook, Orders, tell};
use drill::Moment;

pub async fn run(orders: &Orders, mut book: OrderBook) {
    let client = async_nats::connect(&orders.address)
        .await
        .expect("a connection");
    let context = async_nats::jetstream::new(client);
    let config = Config {
        bucket: "peers".to_owned(),
        history: 1,
        ..Config::default()
    };
    let store = context.create_key_value(config).await.expect("a bucket");
    while let Some(order) = book.recv().await {
        let Order::Stand = order else { continue };
        lead(&store, &orders.role).await;
        while !matches!(book.recv().await, Some(Order::Leave)) {}
        tell(&Event::Ended(Moment::now()));
        store.delete(&orders.role).await.expect("a deletion");
        tell(&Event::Left);
    }
}

/// Returns when the key is this candidate's.
async fn lead(store: &Store, key: &str) {
    let mut watch = store.watch(key).await.expect("a watch");
    let mut is_led = store.create(key, "held".into()).await.is_ok();
    if is_led {
        tell(&Event::Started(Moment::now()));
    }
    tell(&Event::Stands { granted: None });
    while !is_led {
        let entry = watch
            .next()
            .await
            .expect("an open watch")
            .expect("an entry");
        if entry.operation != Operation::Delete {
            continue;
        }
        let created = store.update(key, "held".into(), entry.revision).await;
        if created.is_ok() {
            tell(&Event::Started(Moment::now()));
            is_led = true;
        }
    }
}
