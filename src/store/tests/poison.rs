//! Messages that no Key-Value client writes, but that any client with permission to publish to the
//! bucket can write.

use super::*;
use crate::support::bucket::publish_headers;
use nats_elect_core::name::DataKey;
use nats_elect_core::record::Content;
use nats_elect_testing::eventually;

#[tokio::test]
async fn unreadable_headers_make_an_opaque_leader() {
    let lab = Lab::new().await;
    let r = role("r");
    for headers in [
        &b"NATS/1.0 abc\r\n\r\n"[..],
        b"NATS/1.0 100 Idle Heartbeat\r\n\r\n",
        b"NATS/1.0\r\nno colon\r\n\r\n",
        b"NATS/1.0\r\nA: \xff\r\n\r\n",
        b"NATS/1.0\r\nA: b\rc\r\n\r\n",
        b"NATS/1.0\r\nKV-Operation: DEL\r\n\x07: x\r\n\r\n",
        b"junk\r\n\r\n",
    ] {
        let before = lab.keys(&r).await;
        for subject in ["$KV.leaders.r", "$KV.leaders._fence.r"] {
            publish_headers(&lab.server.url(), subject, headers, b"x");
        }
        eventually(TIMEOUT, "both messages", async || {
            let now = lab.keys(&r).await;
            (now.0 > before.0 && now.1 > before.1).then_some(())
        })
        .await;
        let read = lab.read(&r).await;
        assert_eq!(read.role.unwrap().content, Content::Opaque, "{headers:?}");
        assert_eq!(read.fence.unwrap().record, None, "{headers:?}");
    }
    let at = lab.keys(&r).await.0;
    lab.put_record(&r, at, 1).await.unwrap();
}

#[tokio::test]
async fn unreadable_data_is_listed_without_delivering_it_to_the_client() {
    let lab = Lab::new().await;
    let r = role("r");
    let kv = lab.kv().await;
    kv.put("_data.r.fine", "x".into()).await.unwrap();
    let connects = || {
        let connects = &lab.client.statistics().connects;
        connects.load(std::sync::atomic::Ordering::Relaxed)
    };
    let before = connects();
    // The first message ends a client's connection, and the second ends the client, if the client
    // receives it.
    for (key, headers) in [
        ("a", &b"NATS/1.0\r\nno colon\r\n\r\n"[..]),
        ("b", b"NATS/1.0\r\nA: b\rc\r\n\r\n"),
    ] {
        publish_headers(
            &lab.server.url(),
            &format!("$KV.leaders._data.r.{key}"),
            headers,
            b"x",
        );
        let key = DataKey::new(key).unwrap();
        // Without a waiting publisher, no confirmation shows when a message is stored.
        let read = eventually(TIMEOUT, "the message", async || {
            let read = lab.bucket.data(&r.clone().into(), &key, TIMEOUT).await;
            (!matches!(read, Ok(None))).then_some(read)
        })
        .await;
        assert!(matches!(read, Err(StoreError::Rejected { .. })), "{read:?}");
    }
    let keys = lab.data_keys(&r).await;
    assert_eq!(keys, ["a", "b", "fine"]);
    assert_eq!(connects(), before);
}
