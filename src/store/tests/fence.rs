use async_nats::jetstream;

use super::*;
use nats_elect_core::record::{FenceEntry, SeenFence};

#[tokio::test]
async fn a_strangers_bucket_takes_claims_and_fences_too() {
    let lab = Lab::new().await;
    let context = jetstream::new(lab.client.clone());
    let config = jetstream::kv::Config {
        bucket: "plain".into(),
        ..Default::default()
    };
    context.create_key_value(config).await.unwrap();
    let name = BucketName::new("plain").unwrap();
    let opened = Bucket::open(lab.client.clone(), Arc::default(), &name, CREATE, TIMEOUT).await;
    let (plain, info) = opened.unwrap();
    assert!(!info.atomic && !info.unique_sequences);
    let (claim, fence) = (record(1), fence_record(1));
    let r = role("r");
    plain.put_record(&r, 0, &claim, TIMEOUT).await.unwrap();
    plain.fence(&r, 0, &fence, TIMEOUT).await.unwrap();
}

#[tokio::test]
async fn a_fence_is_stored_only_over_its_predecessor_whatever_the_state_of_the_role() {
    let lab = Lab::new().await;
    let r = role("r");
    let claimed = lab.put_record(&r, 0, 1).await.unwrap();
    let first = lab.fence(&r, 0, 2).await.unwrap();
    assert_eq!(lab.keys(&r).await, (claimed, first));
    let again = lab.fence(&r, 0, 3).await;
    assert_eq!(again, Err(conflict(first)));

    let moved = lab.put_record(&r, claimed, 4).await;
    let next = lab.fence(&r, first, 5).await.unwrap();
    assert_eq!(lab.keys(&r).await, (moved.unwrap(), next));
    let stale = lab.fence(&r, first, 6).await;
    assert_eq!(stale, Err(conflict(next)));
}

#[tokio::test]
async fn a_fence_is_read_back_with_the_hash_of_its_terms_secret() {
    let lab = Lab::new().await;
    let r = role("r");
    let revision = lab.fence(&r, 0, 2).await.unwrap();
    let record = Some(SeenFence {
        nonce: nonce(2),
        ttl: Some(Duration::from_secs(15)),
        release: Some(SECRET.hash()),
    });
    let keys = lab.read(&r).await;
    assert_eq!(keys.fence, Some(FenceEntry { revision, record }));
}

#[tokio::test]
async fn a_role_without_a_claim_can_have_a_fence() {
    let lab = Lab::new().await;
    let r = role("r");
    let fenced = lab.fence(&r, 0, 1).await.unwrap();
    assert_eq!(lab.keys(&r).await, (0, fenced));
}
