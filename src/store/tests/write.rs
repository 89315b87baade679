use async_nats::connection::State;
use async_nats::jetstream;

use super::*;
use crate::clock;
use nats_elect_core::record::{Content, Entry};
use nats_elect_testing::eventually;

#[tokio::test]
async fn a_claim_is_stored_only_over_the_observed_sequence() {
    let lab = Lab::new().await;
    let r = role("eu-west/a=b_");
    let keys = lab.bucket.snapshot(&r, TIMEOUT).await.unwrap();
    assert_eq!(
        (keys.role, keys.fence, keys.epoch),
        (None, None, Some(lab.info.epoch))
    );

    let claimed = lab.put_record(&r, 0, 1).await.unwrap();
    let again = lab.put_record(&r, 0, 2).await;
    assert_eq!(again, Err(conflict(claimed)));

    let renewed = lab.put_record(&r, claimed, 3).await;
    let renewed = renewed.unwrap();
    assert!(renewed > claimed);
    let stale = lab.put_record(&r, claimed, 4).await;
    assert_eq!(stale, Err(conflict(renewed)));

    let keys = lab.read(&r).await;
    let entry = keys.role.unwrap();
    assert_eq!(
        (entry.revision, entry.content.nonce()),
        (renewed, Some(nonce(3)))
    );
    assert_eq!((keys.fence, keys.epoch), (None, Some(lab.info.epoch)));
}

#[tokio::test]
async fn a_release_is_read_back_with_its_nonce_and_can_be_claimed_over() {
    let lab = Lab::new().await;
    let r = role("r");
    let claimed = lab.put_record(&r, 0, 1).await.unwrap();
    let stale = lab.release(&r, claimed - 1, 2).await;
    assert_eq!(stale, Err(conflict(claimed)));
    let released = lab.release(&r, claimed, 2).await;
    let released = released.unwrap();
    let keys = lab.read(&r).await;
    let content = Content::Release(release(2));
    let revision = released;
    assert_eq!(keys.role, Some(Entry { revision, content }));

    // Other clients see a deleted key.
    assert_eq!(lab.kv().await.get("r").await.unwrap(), None);
    let over_nothing = lab.put_record(&r, 0, 3).await;
    assert_eq!(over_nothing, Err(conflict(released)));
    lab.put_record(&r, released, 3).await.unwrap();
}

#[tokio::test]
async fn a_recreated_bucket_has_another_epoch_and_conflicts_with_every_stale_writer() {
    let lab = Lab::new().await;
    let r = role("r");
    let claimed = lab.put_record(&r, 0, 1).await.unwrap();
    let context = jetstream::new(lab.client.clone());
    context.delete_key_value("leaders").await.unwrap();

    let gone = lab.put_record(&r, claimed, 2).await;
    assert!(gone.as_ref().unwrap_err().is_transient(), "{gone:?}");
    let missing = StoreError::BucketMissing {
        bucket: "leaders".into(),
    };
    let snapshot = lab.bucket.snapshot(&r, TIMEOUT).await;
    assert_eq!(snapshot, Err(missing.clone()));
    assert_eq!(lab.bucket.inspect(TIMEOUT).await, Err(missing));

    let (other, info) = open(&lab.client, CREATE).await.unwrap();
    assert!(info.epoch > lab.info.epoch);
    let stale = lab.put_record(&r, claimed, 3).await;
    assert_eq!(stale, Err(conflict(0)));
    let new = other.put_record(&r, 0, &record(4), TIMEOUT).await.unwrap();
    assert!(new > claimed);
    let stale = lab.put_record(&r, claimed, 5).await;
    assert_eq!(stale, Err(conflict(new)));
    let keys = lab.bucket.snapshot(&r, TIMEOUT).await.unwrap();
    assert_eq!(keys.epoch, Some(info.epoch));
}

#[tokio::test]
async fn requests_while_disconnected_are_never_sent() {
    let mut lab = Lab::new().await;
    let r = role("r");
    let claimed = lab.put_record(&r, 0, 1).await.unwrap();
    lab.server.kill();
    eventually(TIMEOUT, "the disconnection", async || {
        (lab.client.connection_state() == State::Disconnected).then_some(())
    })
    .await;
    let started = clock::now();
    let errors = [
        lab.put_record(&r, claimed, 2).await,
        lab.release(&r, claimed, 3).await,
    ];
    for error in errors {
        assert!(
            matches!(error, Err(StoreError::Unavailable(_))),
            "{error:?}"
        );
    }
    // None of them waits for an answer.
    assert!(clock::now().since(started) < TIMEOUT);

    lab.server.restart().unwrap();
    eventually(TIMEOUT, "the reconnection", async || {
        (lab.client.connection_state() == State::Connected).then_some(())
    })
    .await;
    lab.client.flush().await.unwrap();
    assert_eq!(lab.keys(&r).await, (claimed, 0));
    assert_eq!(lab.bucket.epoch(TIMEOUT).await, Ok(lab.info.epoch));
}

#[tokio::test]
async fn a_silent_server_is_a_timeout() {
    let lab = Lab::new().await;
    let r = role("r");
    lab.server.pause().unwrap();
    let short = Duration::from_millis(100);
    let claim = lab.bucket.put_record(&r, 0, &record(1), short).await;
    let silent = |error: StoreError, subject: &str| {
        assert!(
            matches!(&error, StoreError::Timeout { subject: asked } if asked.contains(subject)),
            "{error:?}"
        );
    };
    silent(claim.unwrap_err(), "$KV.leaders.r");
    let keys = lab.bucket.snapshot(&r, short).await;
    silent(keys.unwrap_err(), "$JS.API.STREAM.");
    lab.server.resume().unwrap();
    // The write was stored all the same. The nonce exists for this case.
    eventually(TIMEOUT, "the ghost write", async || {
        let keys = lab.bucket.snapshot(&r, TIMEOUT).await.ok()?;
        (keys.role?.content.nonce() == Some(nonce(1))).then_some(())
    })
    .await;
}
