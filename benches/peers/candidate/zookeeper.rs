//! A candidate by ZooKeeper's recipe: an ephemeral node with a sequence number, and a watch on the
//! node just before it.

use std::net::SocketAddr;

use tokio::task::JoinHandle;
use tokio_zookeeper::{Acl, CreateMode, ZooKeeper, ZooKeeperBuilder};

use super::{Event, Order, OrderBook, Orders, tell};
use drill::Moment;

pub async fn run(orders: &Orders, mut book: OrderBook) {
    let address: SocketAddr = orders.address.parse().expect("an address");
    let mut builder = ZooKeeperBuilder::default();
    builder.set_timeout(orders.ttl);
    let (zookeeper, _events) = builder.connect(&address).await.expect("a session");
    let parent = format!("/{}", orders.role);
    let node = format!("{parent}/candidate-");
    // Only the first one makes it.
    let _ = create(&zookeeper, &parent, CreateMode::Persistent).await;
    let mut campaign: Option<(String, JoinHandle<()>)> = None;
    while let Some(order) = book.recv().await {
        match order {
            Order::Stand => {
                let own = create(&zookeeper, &node, CreateMode::EphemeralSequential).await;
                let own = own.expect("a node");
                let wait = wait(zookeeper.clone(), parent.clone(), own.clone());
                campaign = Some((own, tokio::spawn(wait)));
                let granted = Some(orders.ttl);
                tell(&Event::Stands { granted });
            }
            Order::Leave => {
                let (own, led) = campaign.take().expect("it stood");
                led.await.expect("no panic");
                tell(&Event::Ended(Moment::now()));
                let deleted = zookeeper.delete(&own, None).await;
                deleted.expect("a session").expect("a deletion");
                tell(&Event::Left);
            }
            Order::Stop | Order::HandTo(_) => {}
        }
    }
}

async fn create(zookeeper: &ZooKeeper, path: &str, mode: CreateMode) -> Option<String> {
    let created = zookeeper
        .create(path, &b""[..], Acl::open_unsafe(), mode)
        .await;
    created.expect("a session").ok()
}

/// Returns when no node is older.
async fn wait(zookeeper: ZooKeeper, parent: String, own: String) {
    let own = own.rsplit('/').next().expect("a name").to_owned();
    loop {
        let nodes = zookeeper.get_children(&parent).await.expect("a session");
        let older = nodes.expect("the parent").into_iter();
        let Some(before) = older.filter(|node| *node < own).max() else {
            tell(&Event::Started(Moment::now()));
            return;
        };
        let before = format!("{parent}/{before}");
        let asked = zookeeper.with_watcher().exists(&before).await;
        let (gone, found) = asked.expect("a session");
        if found.is_some() {
            let _ = gone.await;
        }
    }
}
