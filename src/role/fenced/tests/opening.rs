//! How the term of a unit raises its fence. The stand-in answers as any server may.

use super::*;
use nats_elect_core::assignment::UnitFence;
use nats_elect_core::assignment::UnitKey;
use nats_elect_core::name::{GroupName, UnitName};

const UNIT_DATA: &str = "$KV.leaders._gdata.shards.1.7.a";
const UNIT_FENCE: &str = "$KV.leaders._gfence.shards.1.7";

impl Scene {
    async fn of_unit() -> Self {
        let unit = UnitKey {
            group: GroupName::new("shards").unwrap(),
            generation: 1,
            unit: UnitName::shard(7),
        };
        Self::of(DataOwner::Unit(unit)).await
    }

    /// The fence of the term of this number, and the map at that sequence.
    fn fence(&self, term: u64, sequence: u64) -> Vec<u8> {
        let epoch = self.store.term.fencing_token().epoch;
        let fence = UnitFence {
            token: FencingToken { epoch, sequence },
            term: CorrelationId::new(Uuid::nil(), 1, term),
        };
        fence.to_json()
    }

    /// The fence of this scene's term.
    fn own(&self) -> Vec<u8> {
        self.fence(1, FENCE)
    }

    /// Answers the read of the fence key.
    async fn shows_fence(&mut self, sequence: u64, value: &[u8]) {
        let asked = self.stand_in.next().await;
        assert_eq!(asked.body()["last_by_subj"], UNIT_FENCE);
        self.stand_in.show_value(asked, sequence, value).await;
    }

    /// Stores the fence over that sequence.
    async fn raises(&mut self, over: u64, sequence: u64) {
        self.stores(UNIT_FENCE, (UNIT_FENCE, over), sequence).await;
    }

    /// The lease has run out.
    fn expire(&self) {
        self.store.term.0.lease.revoke();
    }
}

#[tokio::test]
async fn a_fence_is_raised_once_over_a_lower_token_and_all_writes_are_made_under_it() {
    let mut scene = Scene::of_unit().await;
    let store = scene.store.clone();
    let older = scene.fence(0, 50);
    let answering = async {
        scene.shows_fence(60, &older).await;
        scene.raises(60, 110).await;
        scene.stores(UNIT_DATA, (UNIT_FENCE, 110), 111).await;
        scene.stores(UNIT_DATA, (UNIT_FENCE, 110), 112).await;
    };
    let calls = async { (store.put("a", "1").await, store.put("a", "2").await) };
    assert_eq!(told(calls, answering).await, (Ok(111), Ok(112)));
}

#[tokio::test]
async fn a_read_raises_the_fence_first() {
    let mut scene = Scene::of_unit().await;
    let store = scene.store.clone();
    let answering = async {
        scene.shows(None).await;
        scene.raises(0, 110).await;
        scene.shows(None).await;
    };
    assert_eq!(told(store.get("a"), answering).await, Ok(None));
}

#[tokio::test]
async fn callers_at_once_share_one_attempt() {
    let mut scene = Scene::of_unit().await;
    let store = scene.store.clone();
    let answering = async {
        scene.shows(None).await;
        scene.raises(0, 110).await;
        // In a replicated bucket one write waits for the other.
        for sequence in 111..=112 {
            scene.stores(UNIT_DATA, (UNIT_FENCE, 110), sequence).await;
        }
    };
    let calls = async { tokio::join!(store.put("a", "1"), store.put("a", "2")) };
    let (first, second) = told(calls, answering).await;
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
}

/// Also that of a caller who was dropped.
#[tokio::test]
async fn an_answer_that_is_lost_is_read() {
    for is_dropped in [false, true] {
        let mut scene = Scene::of_unit().await;
        let store = scene.store.clone().timeout(Duration::from_secs(2));
        let own = scene.own();
        let (dropping, dropped) = tokio::sync::oneshot::channel::<()>();
        let calls = async {
            if is_dropped {
                tokio::select! {
                    other = store.put("a", "1") => panic!("{other:?}"),
                    _ = dropped => {}
                }
            }
            store.put("a", "2").await
        };
        let answering = async {
            scene.shows(None).await;
            scene.asked(UNIT_FENCE, (UNIT_FENCE, 0)).await;
            let _ = dropping.send(());
            scene.shows_fence(110, &own).await;
            scene.stores(UNIT_DATA, (UNIT_FENCE, 110), 111).await;
        };
        assert_eq!(told(calls, answering).await, Ok(111));
    }
}

#[tokio::test]
async fn a_fence_that_moved_meanwhile_is_read_again() {
    let mut scene = Scene::of_unit().await;
    let store = scene.store.clone();
    let (lower, greater) = (scene.fence(0, 50), scene.fence(2, 105));
    let answering = async {
        scene.shows(None).await;
        scene.refuses(UNIT_FENCE, (UNIT_FENCE, 0), 101).await;
        scene.shows_fence(101, &lower).await;
        scene.refuses(UNIT_FENCE, (UNIT_FENCE, 101), 110).await;
        scene.shows_fence(110, &greater).await;
    };
    let written = told(store.put("a", "1"), answering).await;
    assert_eq!(written, Err(FencedError::Superseded { fence: 110 }));
    assert!(scene.is_ended());
}

/// Where NATS lost maps, two terms may have one token.
#[tokio::test]
async fn a_fence_of_the_same_token_and_another_term_ends_the_term() {
    let mut scene = Scene::of_unit().await;
    let store = scene.store.clone();
    let equal = scene.fence(9, FENCE);
    let answering = scene.shows_fence(110, &equal);
    let read = told(store.get("a"), answering).await;
    assert_eq!(read, Err(FencedError::Superseded { fence: 110 }));
    assert!(scene.is_ended());
}

#[tokio::test]
async fn a_value_that_no_member_can_have_written_is_written_over() {
    for rubbish in [&b"rubbish"[..], b"", b"{}"] {
        let mut scene = Scene::of_unit().await;
        let store = scene.store.clone();
        // The map of this one would be younger than the fence.
        let early = scene.fence(2, 200);
        let value = if rubbish.is_empty() { &early } else { rubbish };
        let answering = async {
            scene.shows_fence(105, value).await;
            scene.raises(105, 110).await;
            scene.stores(UNIT_DATA, (UNIT_FENCE, 110), 111).await;
        };
        assert_eq!(told(store.put("a", "1"), answering).await, Ok(111));
    }
}

#[tokio::test]
async fn a_term_that_ends_while_the_fence_is_read_raises_nothing() {
    let mut scene = Scene::of_unit().await;
    let store = scene.store.clone();
    let answering = async {
        let asked = scene.stand_in.next().await;
        scene.expire();
        scene.stand_in.show(asked, None).await;
    };
    let written = told(store.put("a", "1"), answering).await;
    assert_eq!(written, Err(FencedError::NotLeader));
    // A read needs no fence any more.
    let answering = scene.shows(None);
    assert_eq!(told(store.get("a"), answering).await, Ok(None));
}

/// As a process does that was paused after it looked at its clock.
#[tokio::test]
async fn an_older_term_without_heed_of_its_lease_gets_nothing_past_a_greater_token() {
    let mut scene = Scene::of_unit().await;
    scene.expire();
    let store = scene.store.clone().unchecked();
    let greater = scene.fence(2, 105);
    let answering = async {
        for _ in 0..2 {
            scene.shows_fence(110, &greater).await;
        }
    };
    let calls = async { (store.put("a", "1").await, store.create("a", "1").await) };
    let superseded = FencedError::Superseded { fence: 110 };
    let written = told(calls, answering).await;
    assert_eq!(written, (Err(superseded.clone()), Err(superseded)));
    assert!(!scene.is_ended());
}
