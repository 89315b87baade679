//! Messages that no Key-Value client writes, but that any client with permission to publish to the
//! bucket can write.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use super::*;
use nats_elect_core::name::DataKey;
use nats_elect_core::record::Content;
use nats_elect_testing::eventually;

/// Publishes exactly these header bytes.
pub(super) fn publish_raw(lab: &Lab, subject: &str, headers: &[u8], payload: &[u8]) {
    let url = lab.server.url();
    let mut stream = TcpStream::connect(url.trim_start_matches("nats://")).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let total = headers.len() + payload.len();
    write!(
        stream,
        "CONNECT {{\"verbose\":false,\"headers\":true,\"protocol\":1}}\r\nHPUB {subject} {} {total}\r\n",
        headers.len()
    )
    .unwrap();
    stream.write_all(headers).unwrap();
    stream.write_all(payload).unwrap();
    stream.write_all(b"\r\nPING\r\n").unwrap();
    line.clear();
    lines.read_line(&mut line).unwrap();
    assert_eq!(line, "PONG\r\n");
}

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
            publish_raw(&lab, subject, headers, b"x");
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
        publish_raw(&lab, &format!("$KV.leaders._data.r.{key}"), headers, b"x");
        let key = DataKey::new(key).unwrap();
        // Without a waiting publisher, no confirmation shows when a message is stored.
        let read = eventually(TIMEOUT, "the message", async || {
            let read = lab.bucket.data(&r.clone().into(), &key, TIMEOUT).await;
            (!matches!(read, Ok(None))).then_some(read)
        })
        .await;
        assert!(matches!(read, Err(StoreError::Rejected { .. })), "{read:?}");
    }
    let keys = lab
        .bucket
        .data_keys(&r.clone().into(), TIMEOUT)
        .await
        .unwrap();
    assert_eq!(keys, ["a", "b", "fine"]);
    assert_eq!(connects(), before);
}
