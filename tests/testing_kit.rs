//! The test kit against real servers.
#![cfg(unix)]

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::kv;
use nats_elect::testing::{NatsCluster, NatsServer, eventually};

const SOON: Duration = Duration::from_secs(10);

async fn bucket(url: &str, replicas: usize) -> kv::Store {
    let client = async_nats::connect(url.split(',').collect::<Vec<_>>())
        .await
        .expect("connect");
    jetstream::new(client)
        .create_key_value(kv::Config {
            bucket: "kit".to_owned(),
            num_replicas: replicas,
            ..Default::default()
        })
        .await
        .expect("create the bucket")
}

#[tokio::test]
async fn a_restart_keeps_data_and_port() {
    let mut server = NatsServer::start().expect("start");
    let url = server.url();
    let pid = server.pid();
    let store = bucket(&url, 1).await;
    store.put("key", "value".into()).await.expect("put");

    server.restart().expect("orderly restart");
    assert_eq!(server.url(), url);
    assert_ne!(server.pid(), pid);

    let value = eventually(SOON, "reading the old value", async || {
        store.get("key").await.ok().flatten()
    })
    .await;
    assert_eq!(value, "value");
}

#[tokio::test]
async fn a_cluster_elects_another_stream_leader_when_the_first_is_killed() {
    let mut cluster = NatsCluster::start(3).expect("start");
    let _store = bucket(&cluster.urls(), 3).await;
    let first = cluster.wait_for_stream_leader("KV_kit").expect("a leader");

    cluster.node_mut(first).kill();
    let second = cluster.wait_for_stream_leader("KV_kit").expect("a leader");
    assert_ne!(first, second);

    cluster.node_mut(first).restart().expect("restart");
    cluster.wait_until_ready().expect("all are back");
}
