use super::*;
use crate::store::{DataEntry, DataWrite, MOST_WRITES};
use nats_elect_core::name::DataKey;

fn key(name: &str) -> DataKey {
    DataKey::new(name).unwrap()
}

fn put(name: &str, value: &str) -> DataWrite {
    DataWrite {
        key: key(name),
        value: Some(value.into()),
        over: None,
    }
}

fn over(name: &str, value: &str, over: u64) -> DataWrite {
    DataWrite {
        over: Some(over),
        ..put(name, value)
    }
}

fn value(revision: u64, value: &str) -> DataEntry {
    DataEntry {
        revision,
        value: Some(value.into()),
    }
}

impl Lab {
    /// Writes a new term's fence record over the one before.
    async fn next_fence(&self, name: &RoleName) -> u64 {
        let at = self
            .bucket
            .fence_sequence(&name.clone().into(), TIMEOUT)
            .await
            .unwrap();
        self.fence(name, at, at).await.unwrap()
    }

    async fn batch(&self, fence: u64, writes: &[DataWrite]) -> Result<u64, StoreError> {
        let r = role("r");
        self.bucket
            .write_batch(&r.clone().into(), fence, writes, TIMEOUT)
            .await
    }

    async fn data(&self, name: &str) -> Option<DataEntry> {
        let (r, key) = (role("r"), key(name));
        self.bucket
            .data(&r.clone().into(), &key, TIMEOUT)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_fenced_write_holds_until_the_fence_moves() {
    let lab = Lab::new().await;
    let r = role("r");
    let k = key("jobs.1");
    let fence = lab.next_fence(&r).await;
    let write = async |fence, value: Option<&str>| {
        let value = value.map(str::as_bytes);
        lab.bucket
            .write_fenced(&r.clone().into(), fence, &k, value, TIMEOUT)
            .await
    };
    let written = write(fence, Some("one")).await.unwrap();
    assert_eq!(lab.data("jobs.1").await, Some(value(written, "one")));
    let deleted = write(fence, None).await.unwrap();
    let marker = Some(DataEntry {
        revision: deleted,
        value: None,
    });
    assert_eq!(lab.data("jobs.1").await, marker);
    assert_eq!(lab.data("jobs.2").await, None);

    let newer = lab.next_fence(&r).await;
    assert_eq!(write(fence, Some("stale")).await, Err(conflict(newer)));
    assert_eq!(write(fence, None).await, Err(conflict(newer)));
    assert_eq!(lab.data("jobs.1").await, marker);
    write(newer, Some("two")).await.unwrap();
    // Another role has another fence.
    let other = lab.next_fence(&role("other")).await;
    assert_eq!(write(other, Some("foreign")).await, Err(conflict(newer)));
}

#[tokio::test]
async fn a_batch_is_written_whole_or_not_at_all() {
    let lab = Lab::new().await;
    let r = role("r");
    let fence = lab.next_fence(&r).await;
    let writes = [put("a", "1"), over("b", "2", 0), put("c", "3")];
    let written = lab.batch(fence, &writes).await;
    if !lab.is_at_least(BATCHES) {
        assert!(
            matches!(written, Err(StoreError::Unsupported(_))),
            "{written:?}"
        );
        for name in ["a", "b", "c"] {
            assert_eq!(lab.data(name).await, None);
        }
        return;
    }
    let last = written.unwrap();
    for (back, (name, text)) in [("c", "3"), ("b", "2"), ("a", "1")].into_iter().enumerate() {
        assert_eq!(lab.data(name).await, Some(value(last - back as u64, text)));
    }
    // The guard is one empty message. No Key-Value client takes it for a key.
    let kv = lab.kv().await;
    assert_eq!(kv.get("_guard.r").await.unwrap(), None);

    // One key is at another sequence, so nothing is written.
    let elsewhere = [put("a", "x"), over("b", "x", 7), put("d", "x")];
    assert_eq!(lab.batch(fence, &elsewhere).await, Err(conflict(last - 1)));
    assert_eq!(lab.data("a").await, Some(value(last - 2, "1")));
    assert_eq!(lab.data("d").await, None);
    // The writes replace values and delete markers alike.
    let deletion = DataWrite {
        value: None,
        ..over("b", "", last - 1)
    };
    let deleted = lab.batch(fence, &[deletion]).await.unwrap();
    let again = lab.batch(fence, &[over("b", "4", 0)]).await;
    assert_eq!(again, Err(conflict(deleted)));
    let again = lab.batch(fence, &[over("b", "4", deleted)]).await.unwrap();
    assert_eq!(lab.data("b").await, Some(value(again, "4")));

    let newer = lab.next_fence(&r).await;
    for stale in [
        vec![put("a", "x")],
        vec![over("b", "x", again)],
        writes.to_vec(),
    ] {
        assert_eq!(lab.batch(fence, &stale).await, Err(conflict(newer)));
    }
    assert_eq!(lab.data("b").await, Some(value(again, "4")));
    assert_eq!(lab.data("a").await, Some(value(last - 2, "1")));
    let all: Vec<_> = (0..MOST_WRITES)
        .map(|n| put(&format!("many.{n}"), "x"))
        .collect();
    lab.batch(newer, &all).await.unwrap();
    let keys = lab.data_keys(&r).await;
    assert_eq!(keys.len(), MOST_WRITES + 3);
    // There is one guard in all.
    let context = jetstream::new(lab.client.clone());
    let stream = context.get_stream("KV_leaders").await.unwrap();
    assert_eq!(
        stream.cached_info().state.messages,
        MOST_WRITES as u64 + 3 + 2
    );
}

#[tokio::test]
async fn the_keys_of_a_role_are_listed_without_those_that_were_deleted() {
    let lab = Lab::new().await;
    let kv = lab.kv().await;
    let r = role("r");
    assert_eq!(lab.data_keys(&r).await, [""; 0]);
    for key in [
        "_data.r.b",
        "_data.r.a.x",
        "_data.rr.c",
        "r",
        "_data.r.gone",
    ] {
        kv.put(key, "x".into()).await.unwrap();
    }
    kv.delete("_data.r.gone").await.unwrap();
    let keys = lab.data_keys(&r).await;
    assert_eq!(keys, ["a.x", "b"]);
}
