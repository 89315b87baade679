use super::*;
use nats_elect_core::record::{FenceEntry, SeenFence};

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
