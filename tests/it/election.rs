//! One leader at a time.

use async_nats::jetstream::kv;
use nats_elect::{Event, RoleState};

use crate::support::bucket::{Stranger, marker_of, release_of};
use crate::support::clock::Stamp;
use crate::support::instance::{instance, leader_and_follower, never, step_down};
use crate::support::{BUCKET, ROLE, leased_for, ms, recovered, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_leads_and_the_others_follow() {
    let (server, journal) = served();
    let ttl = ms(6000);
    let mut instances = Vec::new();
    for id in ["a", "b", "c"] {
        let joining = instance(id, server.url(), &journal).standing(leased_for(ttl));
        instances.push(joining.start().await);
    }
    let first = journal.started(ROLE, 0).await;
    for other in instances.iter().filter(|other| other.id != first.instance) {
        other.wait_until_following(&first.instance).await;
    }
    never("a second term", ttl, || {
        let leaders = instances.iter().filter(|one| one.is_leader()).count();
        leaders != 1 || journal.terms(ROLE).len() != 1
    })
    .await;

    let stranger = Stranger::connect(&server.url()).await;
    let record = stranger.record().await;
    assert_eq!(record["id"], first.instance.as_str());
    assert_eq!(record["v"], 1);
    assert_eq!(record["ttl_ms"], 6000);
    assert_eq!(
        first.fencing_token.sequence,
        stranger.fence_sequence(ROLE).await
    );
    let leader = instances.iter().find(|one| one.id == first.instance);
    let status = leader.expect("the leader").role(ROLE).status();
    assert_eq!(status.state, RoleState::Leader);
    assert_eq!(status.fencing_token, Some(first.fencing_token));
    assert!(status.leader.expect("a leader").is_self);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_followed_by_its_fence_record_and_nothing_else() {
    let (server, journal) = served();
    let stranger = Stranger::connect(&server.url()).await;
    // A lease so long that no heartbeat hides the claim.
    let lease = leased_for(ms(60_000)).heartbeat_interval(ms(20_000));
    let join = |id| instance(id, server.url(), &journal).standing(lease.clone());
    let a = join("a").start().await;
    let first = journal.started(ROLE, 0).await;
    let config = stranger.stream().await.cached_info().config.clone();
    assert_eq!(config.allow_atomic_publish, server.version() >= (2, 12, 0));
    assert!(config.allow_message_ttl);
    let (claim, fence) = (
        stranger.message().await.sequence,
        stranger.fence_sequence(ROLE).await,
    );
    assert_eq!(first.fencing_token.sequence, fence);
    assert_eq!(fence, claim + 1, "also where nothing stood");

    let b = join("b").start().await;
    b.wait_until_following("a").await;
    a.stop().await;
    let second = journal.started(ROLE, 1).await;
    let (claim, fence) = (
        stranger.message().await.sequence,
        stranger.fence_sequence(ROLE).await,
    );
    assert_eq!(second.fencing_token.sequence, fence);
    assert_eq!(fence, claim + 1, "the fence record follows the claim");
    assert!(
        config.first_sequence.is_some_and(|first| first > 1_000_000),
        "{:?}",
        config.first_sequence
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_graceful_stop_ends_the_handler_frees_the_role_and_the_next_leads_at_once() {
    let (server, journal) = served();
    let ttl = ms(10_000);
    let (a, b) = leader_and_follower(server.url(), &journal, leased_for(ttl)).await;
    let stranger = Stranger::connect(&server.url()).await;
    let mut heard = stranger.hear(ROLE).await;

    let stop = Stamp::now();
    a.stop().await;
    let first = journal.ended(ROLE, 0).await;
    let second = journal.started(ROLE, 1).await;
    recovered("graceful_stop", ttl, stop, &second);
    assert_eq!(second.instance, "b");
    assert!(first.end() <= second.start);
    assert!(!first.term().is_valid());
    assert!(second.start.since(stop) < ttl / 2, "not at once");

    let marker = heard.release().await;
    assert_eq!(
        marker.headers.as_ref().and_then(marker_of),
        Some("DEL"),
        "{marker:?}"
    );
    assert!(marker.payload.is_empty());
    assert_eq!(stranger.record().await["id"], "b");

    let seen = b.role(ROLE).wait_for_leader().await.expect("a leader");
    assert!(seen.is_self);
    b.stop().await;
    let message = stranger.message().await;
    assert!(release_of(&message.headers).is_some(), "{message:?}");
    assert!(message.payload.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_candidates_on_an_expired_key_elect_one() {
    let (server, journal) = served();
    let ttl = ms(10_000);
    let stranger = Stranger::connect(&server.url()).await;
    // All have seen this record before its lease ends.
    let store = stranger.make_bucket(kv::Config::default()).await;
    let gone = br#"{"id":"gone","token":"t","ttl_ms":4000}"#;
    let dead = store.put(ROLE, gone.as_slice().into()).await.expect("put");
    let mut instances = Vec::new();
    for n in 0..100 {
        let id = format!("n{n}");
        let joining = instance(&id, server.url(), &journal).standing(leased_for(ttl));
        instances.push(joining.start().await);
    }
    let first = journal.started(ROLE, 0).await;
    for other in instances.iter().filter(|one| one.id != first.instance) {
        other.wait_until_following(&first.instance).await;
    }
    never("a second term", ms(1000), || journal.terms(ROLE).len() != 1).await;
    let terms: usize = instances
        .iter()
        .map(|one| {
            one.log()
                .count(|event| matches!(event, Event::TermStarted { .. }))
        })
        .sum();
    assert_eq!(terms, 1);
    let message = stranger.message().await;
    assert!(message.sequence > dead);
    assert_eq!(
        stranger.record().await["id"],
        first.instance.as_str(),
        "in bucket {BUCKET}"
    );

    // And again, with all of them awake.
    let leader = instances.iter().find(|one| one.id == first.instance);
    let leader = leader.expect("the leader");
    let fault = Stamp::now();
    step_down(&leader.role(ROLE)).await;
    let second = journal.started(ROLE, 1).await;
    recovered("step_down_among_a_hundred", ttl, fault, &second);
    never("a third term", ms(1000), || journal.terms(ROLE).len() != 2).await;
}
