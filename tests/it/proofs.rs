//! Proofs of leadership.

use nats_elect::{ConnectionStatus, EndCause, Error, Event, TermError};
use nats_elect_testing::{Direction, eventually};

use crate::support::bucket::Stranger;
use crate::support::instance::{ending, instance, never, standing, step_down};
use crate::support::{BUCKET, ROLE, SOON, leased_for, ms, patient, proxied, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_validation_is_a_write() {
    let (server, journal) = served();
    // No heartbeat comes between.
    let config = leased_for(ms(60_000)).heartbeat_interval(ms(15_000));
    let a = standing("a", server.url(), &journal, config.clone()).await;
    let first = journal.started(ROLE, 0).await;
    let stranger = Stranger::connect(&server.url()).await;
    let before = stranger.message().await.sequence;

    let token = a.role(ROLE).validate().await.expect("a leader");
    assert_eq!(token, first.fencing_token);
    let after = stranger.message().await.sequence;
    assert!(after > before);
    let token = first.term().validate().await.expect("a leader");
    assert_eq!(token, first.fencing_token);
    assert!(stranger.message().await.sequence > after);

    let b = standing("b", server.url(), &journal, config).await;
    b.wait_until_following("a").await;
    assert_eq!(b.role(ROLE).validate().await, Err(Error::NotLeader));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authorization_writes_only_when_the_last_proof_is_old() {
    let (server, journal) = served();
    let config = leased_for(ms(60_000)).heartbeat_interval(ms(15_000));
    let _a = instance("a", server.url(), &journal)
        .standing(config.clone())
        .role("careful", config.validate_on_critical_ops(true))
        .start()
        .await;
    let lax = journal.started(ROLE, 0).await;
    let careful = journal.started("careful", 0).await;
    let stranger = Stranger::connect(&server.url()).await;
    let sequence = async |role| stranger.find(role).await.expect("a message").sequence;

    let before = (sequence(ROLE).await, sequence("careful").await);
    let token = lax.term().authorize().await.expect("a leader");
    assert_eq!(token, lax.fencing_token);
    assert_eq!(sequence(ROLE).await, before.0, "the proof was young");
    let token = careful.term().authorize().await.expect("a leader");
    assert_eq!(token, careful.fencing_token);
    assert!(sequence("careful").await > before.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authorization_with_an_old_proof_asks_nats() {
    let (_server, proxy, journal) = proxied();
    // It asks after a third of the lease.
    let config = leased_for(ms(10_000)).heartbeat_interval(ms(200));
    let a = standing("a", proxy.url(), &journal, config).await;
    let first = journal.started(ROLE, 0).await;
    // It may be old already, and what is asked then be answered late.
    eventually(SOON, "a young proof", async || {
        first.term().authorize().await.ok()
    })
    .await;
    proxy.black_hole();
    let late = |event: &Event| *event == Event::ConnectionChanged(ConnectionStatus::Suspended);
    let cut = crate::support::clock::Stamp::now();
    a.log().wait_for_after(cut, "a late heartbeat", late).await;
    // The lease lasts when the proof is older than it may be.
    let refused = eventually(SOON, "a refusal", async || {
        first.term().authorize().await.err()
    })
    .await;
    assert!(matches!(refused, TermError::Unproven { .. }), "{refused:?}");
    assert!(first.term().is_valid());
    assert!(a.is_leader());
    proxy.restore();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_acks_are_lost_the_watch_proves_and_without_it_nothing_does() {
    let (server, proxy, journal) = proxied();
    // The watch has the time of a request to show it.
    let config = patient();
    let a = standing("a", proxy.url(), &journal, config).await;
    let first = journal.started(ROLE, 0).await;
    let stranger = Stranger::connect(&server.url()).await;
    let before = stranger.message().await.sequence;

    proxy.drop_acks();
    let shown = a.role(ROLE).validate().await;
    assert!(shown.is_ok(), "the watch shows the heartbeat: {shown:?}");
    proxy.restore();
    proxy.black_hole_direction(Direction::ToClient);
    let refused = a.role(ROLE).validate().await;
    let Err(unproven @ Error::Unproven { .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(unproven.is_transient());
    let refused = first.term().validate().await;
    assert!(
        matches!(&refused, Err(error) if error.is_transient()),
        "{refused:?}"
    );
    // The writes landed all the same.
    assert!(stranger.message().await.sequence > before);
    assert!(a.is_leader());
    assert!(first.term().is_valid());

    proxy.restore();
    let role = a.role(ROLE);
    let token = eventually(SOON, "a proof", async || role.validate().await.ok()).await;
    assert_eq!(token, first.fencing_token);
    assert_eq!(journal.terms(ROLE).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_term_proves_nothing_although_its_instance_leads_again() {
    let (server, journal) = served();
    let ttl = ms(5000);
    let a = standing(
        "a",
        server.url(),
        &journal,
        leased_for(ttl).cooldown(ms(10)),
    )
    .await;
    let first = journal.started(ROLE, 0).await;
    step_down(&a.role(ROLE)).await;
    let second = journal.started(ROLE, 1).await;
    a.wait_until_leader().await;
    assert_eq!(first.term().validate().await, Err(TermError::NotLeader));
    assert_eq!(first.term().authorize().await, Err(TermError::NotLeader));
    assert_eq!(second.term().authorize().await, Ok(second.fencing_token));
    assert_eq!(first.term().remaining(), ms(0));
    never("a revival", ms(500), || first.term().is_valid()).await;
}

/// The watch shows fence records and heartbeats in their order. So a leader whose heartbeats come
/// back on it has nothing to look for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_sends_heartbeats_and_nothing_else_while_its_watch_is_alive() {
    let (server, proxy, journal) = proxied();
    // It would look each two seconds.
    let config = leased_for(ms(6000)).heartbeat_interval(ms(100));
    let a = standing("a", proxy.url(), &journal, config).await;
    let first = journal.started(ROLE, 0).await;
    let key = format!("$KV.{BUCKET}.{ROLE}");
    let heartbeats = async |count: usize| {
        proxy.record();
        eventually(SOON, "heartbeats", async || {
            let sent = proxy.published();
            let of_key = sent.iter().filter(|it| **it == key).count();
            (of_key >= count).then_some(sent)
        })
        .await
    };
    heartbeats(5).await;
    // After a heartbeat that a busy machine answered too late the instance looks at the bucket. A
    // look of the leader each interval would be in every stretch of 25, which a busy machine sends
    // before a poll is given up.
    eventually(SOON, "heartbeats and nothing else", async || {
        let sent = heartbeats(25).await;
        sent.iter().all(|it| *it == key).then_some(())
    })
    .await;

    // Another's fence record is seen at once all the same, long before the next look.
    let stranger = Stranger::connect(&server.url()).await;
    let bucket = stranger.store().await;
    let put = bucket.put(format!("_fence.{ROLE}"), "by hand".into()).await;
    put.expect("stored");
    let superseded = ending(EndCause::Superseded);
    a.log().wait_for("the end of the term", superseded).await;
    first.term().cancelled().await;
}
