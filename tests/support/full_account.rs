//! An account without room: writes to it fail, and reads succeed.

use async_nats::jetstream::Context;
use async_nats::jetstream::stream::{Config, StorageType, Stream};
use nats_elect_testing::NatsServer;

/// A server with one account, which may keep one MiB of each storage.
pub fn small_account() -> NatsServer {
    NatsServer::builder()
        .config(
            r#"accounts { small: {
                jetstream: { max_mem: 1M, max_file: 1M },
                users: [{ user: "any", password: "any" }]
            } }
            no_auth_user: any"#,
        )
        .start()
        .expect("a server")
}

/// Fills the account's storage with another stream, and returns that stream.
pub async fn fill_account(jetstream: &Context, storage: StorageType) -> Stream {
    let config = Config {
        name: "heap".into(),
        subjects: vec!["heap".into()],
        storage,
        ..Config::default()
    };
    let heap = jetstream.create_stream(config).await;
    let heap = heap.expect("another stream");
    for size in [64 << 10, 1 << 10, 1] {
        let put = async || {
            let sent = jetstream.publish("heap", vec![b'x'; size].into()).await;
            sent.expect("sent").await
        };
        while put().await.is_ok() {}
    }
    heap
}
