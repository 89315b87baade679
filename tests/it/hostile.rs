//! What others may have written to a role's key.

use std::time::Duration;

use futures::future::join_all;
use nats_elect::RoleState;
use nats_elect_testing::eventually;

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{guest, never};
use crate::support::{ROLE, SOON, leased_for, ms, recovered, served};

/// Whatever stands in the key is respected until its lease has been watched, then claimed over.
async fn is_respected_for(lease: Duration, ttl: Duration, value: Vec<u8>, leader: &str) {
    let (server, journal) = served();
    let (stranger, store) = Stranger::with_bucket(&server.url()).await;
    let put = store.put(ROLE, value.into()).await.expect("put");

    let begin = Stamp::now();
    let a = guest("a", server.url(), &journal).standing(leased_for(ttl));
    let a = a.start().await;
    eventually(SOON, "its knowledge of the leader", async || {
        let known = a.role(ROLE).leader()?;
        (known.instance_id == leader).then_some(())
    })
    .await;
    assert_eq!(a.state(), RoleState::Follower);
    let first = journal.started(ROLE, 0).await;
    assert!(first.start.since(begin) >= lease, "not respected");
    let record = stranger.record().await;
    assert_eq!(record["id"], "a");
    assert!(first.fencing_token.sequence > put);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_in_the_key_is_respected_for_its_lease_or_our_own() {
    let newer = br#"{"v":99,"id":"new","token":{"of":"another kind"},"ttl_ms":1200,"x":[1]}"#;
    let go = br#"{"id":"go-1","token":"0b3c","priority":3}"#;
    let huge = format!(r#"{{"id":"huge","x":"{}"}}"#, "x".repeat(900_000));
    let no_record = [b"\xff{ not json".to_vec(), Vec::new(), huge.into_bytes()];
    let own = |value, leader| is_respected_for(ms(1000), ms(1000), value, leader);
    tokio::join!(
        is_respected_for(ms(1200), ms(500), newer.to_vec(), "new"),
        own(go.to_vec(), "go-1"),
        join_all(no_record.map(|value| own(value, ""))),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_that_renews_is_never_overwritten() {
    let (server, journal) = served();
    let ttl = ms(5000);
    let (_, store) = Stranger::with_bucket(&server.url()).await;
    let renew = async || {
        let value = br#"{"id":"go","token":"t"}"#.as_slice();
        let sent = Stamp::now();
        let put = store.put(ROLE, value.into()).await.expect("put");
        (sent, put)
    };
    let mut last = renew().await;
    let _a = guest("a", server.url(), &journal)
        .standing(leased_for(ttl))
        .start()
        .await;
    let begin = Stamp::now();
    while Stamp::now().since(begin) < ttl * 3 {
        tokio::time::sleep(ttl / 5).await;
        assert!(journal.terms(ROLE).is_empty());
        let next = renew().await;
        let between = next.1 - last.1;
        assert_eq!(between, 1, "somebody else wrote");
        last = next;
    }
    let first = journal.started(ROLE, 0).await;
    assert!(first.start.since(last.0) >= ttl, "too early");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_are_no_roles_disturb_nobody() {
    let (server, journal) = served();
    let ttl = ms(6000);
    let (_, store) = Stranger::with_bucket(&server.url()).await;
    let a = guest("a", server.url(), &journal).standing(leased_for(ttl));
    let a = a.start().await;
    let first = journal.started(ROLE, 0).await;
    for key in ["_data.x", "net.work", "other", "_fence.other"] {
        store.put(key, "noise".into()).await.expect("put");
        store.delete(key).await.expect("delete");
    }
    never("an effect", ttl, || !a.is_leader()).await;
    assert!(first.term().is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fence_record_of_another_hand_ends_the_term() {
    let (server, journal) = served();
    let ttl = ms(1500);
    let (_, store) = Stranger::with_bucket(&server.url()).await;
    let a = guest("a", server.url(), &journal).standing(leased_for(ttl));
    let a = a.start().await;
    let first = journal.started(ROLE, 0).await;
    let higher = br#"{"id":"x","incarnation":"00000000-0000-0000-0000-000000000007","beat":1}"#;
    let key = format!("_fence.{ROLE}");
    let fault = Stamp::now();
    let put = store
        .put(&key, higher.as_slice().into())
        .await
        .expect("put");
    // The background validation finds that a later term exists.
    journal.ended(ROLE, 0).await;
    assert!(put > first.fencing_token.sequence);
    let second = journal.started(ROLE, 1).await;
    recovered("fence_written_by_a_stranger", ttl, fault, &second);
    assert!(second.fencing_token.sequence > put);
    a.wait_until_leader().await;
}
