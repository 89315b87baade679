use async_nats::jetstream;

use super::*;
use crate::model::record::{FenceEntry, SeenFence};
use crate::store::FenceOn;
use crate::store::cross_check::CrossCheck;

async fn fence(lab: &Lab, name: &RoleName, on: FenceOn, beat: u64) -> Result<u64, StoreError> {
    let fence = fence_record(beat);
    lab.bucket.fence(name, on, &fence, TIMEOUT).await
}

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
    let opened = Bucket::open(lab.client.clone(), &name, CREATE, TIMEOUT).await;
    let (plain, info) = opened.unwrap();
    assert!(!info.atomic && !info.unique_sequences);
    let (claim, fence) = (record(1), fence_record(1));
    let r = role("r");
    // Conditions on other keys are no setting of the bucket.
    let claimed = plain.claim(&r, 0, &claim, TIMEOUT).await.unwrap();
    let fenced = plain
        .fence(&r, FenceOn::RoleKeyAt(claimed), &fence, TIMEOUT)
        .await;
    assert_eq!(fenced.is_ok(), lab.is_at_least(CROSS_CHECKS), "{fenced:?}");
}

#[tokio::test]
async fn a_fence_on_the_roles_key_holds_until_the_role_moves() {
    let lab = Lab::new().await;
    let r = role("r");
    let claimed = lab.claim(&r, 0, 1).await.unwrap();
    let fenced = fence(&lab, &r, FenceOn::RoleKeyAt(claimed), 2).await;
    if !lab.is_at_least(CROSS_CHECKS) {
        assert!(
            matches!(fenced, Err(StoreError::Unsupported(_))),
            "{fenced:?}"
        );
        assert_eq!(lab.keys(&r).await, (claimed, 0));
        return;
    }
    let fenced = fenced.unwrap();
    assert_eq!(lab.keys(&r).await, (claimed, fenced));

    let moved = lab.renew(&r, claimed, 3).await;
    let moved = moved.unwrap();
    let stale = fence(&lab, &r, FenceOn::RoleKeyAt(claimed), 4).await;
    assert_eq!(stale, Err(conflict(moved)));
    let keys = lab.read(&r).await;
    let untouched = FenceEntry {
        revision: fenced,
        record: Some(SeenFence {
            nonce: nonce(2),
            ttl: Some(Duration::from_secs(15)),
        }),
    };
    assert_eq!(keys.fence, Some(untouched));
    let fresh = fence(&lab, &r, FenceOn::RoleKeyAt(moved), 5).await;
    assert!(fresh.unwrap() > fenced);
}

#[tokio::test]
async fn the_first_fence_of_a_stale_leader_is_a_conflict_too() {
    let lab = Lab::new().await;
    let r = role("r");
    let claimed = lab.claim(&r, 0, 1).await.unwrap();
    let moved = lab.renew(&r, claimed, 2).await;
    let stale = fence(&lab, &r, FenceOn::RoleKeyAt(claimed), 3).await;
    if lab.is_at_least(CROSS_CHECKS) {
        assert_eq!(stale, Err(conflict(moved.unwrap())));
    } else {
        assert!(
            matches!(stale, Err(StoreError::Unsupported(_))),
            "{stale:?}"
        );
    }
    assert_eq!(lab.keys(&r).await.1, 0);
}

#[tokio::test]
async fn a_fence_on_its_own_key_needs_no_new_server() {
    let lab = Lab::new().await;
    let r = role("r");
    let first = fence(&lab, &r, FenceOn::FenceKeyAt(0), 1).await.unwrap();
    let again = fence(&lab, &r, FenceOn::FenceKeyAt(0), 2).await;
    assert_eq!(again, Err(conflict(first)));
    fence(&lab, &r, FenceOn::FenceKeyAt(first), 3)
        .await
        .unwrap();
}

#[tokio::test]
async fn the_probe_tells_servers_apart_whatever_stands_under_the_keys_and_writes_nothing() {
    let lab = Lab::new().await;
    let verdict = if lab.is_at_least(CROSS_CHECKS) {
        CrossCheck::Supported
    } else {
        CrossCheck::Unsupported
    };
    let probe = async |name: &RoleName, believed| {
        let before = lab.keys(name).await;
        let verdict = lab.bucket.probe_cross_check(name, believed, TIMEOUT).await;
        assert_eq!(lab.keys(name).await, before);
        verdict.unwrap()
    };
    let nothing = role("nothing");
    assert_eq!(probe(&nothing, 0).await, CrossCheck::Unknown);
    assert_eq!(probe(&nothing, 7).await, CrossCheck::Unknown);

    let claimed_only = role("claimed-only");
    let at = lab.claim(&claimed_only, 0, 1);
    let at = at.await.unwrap();
    for believed in [at, at - 1, 0] {
        assert_eq!(probe(&claimed_only, believed).await, verdict);
    }
    let fenced_only = role("fenced-only");
    let fenced = fence(&lab, &fenced_only, FenceOn::FenceKeyAt(0), 2).await;
    for believed in [0, at] {
        assert_eq!(probe(&fenced_only, believed).await, verdict);
    }
    let both = role("both");
    let at = lab.claim(&both, 0, 3);
    let at = at.await.unwrap();
    fence(&lab, &both, FenceOn::FenceKeyAt(0), 4).await.unwrap();
    for believed in [at, at - 1, fenced.unwrap()] {
        assert_eq!(probe(&both, believed).await, verdict);
    }
}

#[tokio::test]
async fn the_verdict_is_shared_by_clones_and_forgotten_when_looking_again() {
    let lab = Lab::new().await;
    let r = role("r");
    let clone = lab.bucket.clone();
    assert_eq!(clone.cross_check(), CrossCheck::Unknown);
    let claimed = lab.claim(&r, 0, 1).await.unwrap();
    let _ = fence(&lab, &r, FenceOn::RoleKeyAt(claimed), 2).await;
    assert_ne!(clone.cross_check(), CrossCheck::Unknown);
    lab.bucket.snapshot(&r, true, TIMEOUT).await.unwrap();
    assert_ne!(clone.cross_check(), CrossCheck::Unknown);
    clone.inspect(TIMEOUT).await.unwrap();
    assert_eq!(lab.bucket.cross_check(), CrossCheck::Unknown);
}
