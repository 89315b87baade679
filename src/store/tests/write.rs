use async_nats::connection::State;
use async_nats::jetstream::stream;
use async_nats::{ConnectOptions, Event, jetstream};
use tokio::sync::mpsc;

use super::*;
use crate::clock;
use crate::store::Denied;
use nats_elect_core::record::{Content, Entry};
use nats_elect_testing::{NatsCluster, eventually};

async fn content(lab: &Lab, name: &str) -> Content {
    let keys = lab.bucket.snapshot(&role(name), TIMEOUT).await;
    keys.unwrap().role.unwrap().content
}

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
async fn markers_of_other_clients_are_foreign() {
    let lab = Lab::new().await;
    let kv = lab.kv().await;
    for name in ["deleted", "purged"] {
        let r = role(name);
        lab.put_record(&r, 0, 1).await.unwrap();
    }
    kv.delete("deleted").await.unwrap();
    kv.purge("purged").await.unwrap_err();
    assert!(matches!(content(&lab, "purged").await, Content::Record(_)));
    lab.allow_purges().await;
    kv.purge("purged").await.unwrap();
    kv.put("strange", "not a record".into()).await.unwrap();
    assert_eq!(content(&lab, "deleted").await, Content::ForeignMarker);
    assert_eq!(content(&lab, "purged").await, Content::ForeignMarker);
    assert_eq!(content(&lab, "strange").await, Content::Opaque);

    let r = role("deleted");
    lab.fence(&r, 0, 1).await.unwrap();
    kv.delete("_fence.deleted").await.unwrap();
    let keys = lab.read(&r).await;
    assert_eq!(keys.fence.unwrap().record, None);
}

#[tokio::test]
async fn an_expired_key_leaves_a_foreign_marker_where_the_server_writes_markers() {
    let server = NatsServer::start().unwrap();
    let client = connect(&server).await;
    let config = stream::Config {
        name: "KV_leaders".into(),
        subjects: vec!["$KV.leaders.>".into()],
        max_messages_per_subject: 1,
        max_age: Duration::from_millis(200),
        allow_rollup: true,
        allow_message_ttl: true,
        subject_delete_marker_ttl: Some(Duration::from_secs(60)),
        duplicate_window: Duration::from_millis(200),
        ..stream::Config::default()
    };
    jetstream::new(client.clone())
        .create_stream(config)
        .await
        .unwrap();
    let (bucket, info) = open(&client, IfMissing::Fail).await.unwrap();
    assert_eq!(info.max_age, Some(Duration::from_millis(200)));
    let r = role("r");
    let claimed = bucket.put_record(&r, 0, &record(1), TIMEOUT).await.unwrap();
    let left = eventually(TIMEOUT, "the expiry", async || {
        let keys = bucket.snapshot(&r, TIMEOUT).await.unwrap();
        let here = keys
            .role
            .as_ref()
            .is_some_and(|entry| entry.revision == claimed);
        (!here).then_some(keys.role)
    })
    .await;
    assert_eq!(
        left.map(|entry| entry.content),
        Some(Content::ForeignMarker)
    );
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

#[tokio::test]
async fn a_forbidden_write_is_a_timeout_and_an_event_of_the_connection() {
    let users = r#"authorization { users [
        { user: all, password: x }
        { user: some, password: x, permissions { publish { deny: "$KV.leaders.secret" } } }
    ] }"#;
    let server = NatsServer::builder().config(users).start().unwrap();
    let all = ConnectOptions::with_user_and_password("all".into(), "x".into());
    let all = all.connect(server.url()).await.unwrap();
    open(&all, CREATE).await.unwrap();

    let (told, mut events) = mpsc::unbounded_channel();
    let some = ConnectOptions::with_user_and_password("some".into(), "x".into())
        .event_callback(move |event| {
            let told = told.clone();
            async move { told.send(event).unwrap() }
        })
        .connect(server.url())
        .await
        .unwrap();
    let (bucket, _) = open(&some, IfMissing::Fail).await.unwrap();
    bucket
        .put_record(&role("open"), 0, &record(1), TIMEOUT)
        .await
        .unwrap();
    let short = Duration::from_millis(200);
    let denied = bucket
        .put_record(&role("secret"), 0, &record(2), short)
        .await;
    let subject = "$KV.leaders.secret".to_owned();
    assert_eq!(
        denied,
        Err(StoreError::Timeout {
            subject: subject.clone()
        })
    );
    let error = loop {
        let event = events.recv().await.unwrap();
        if matches!(event, Event::ServerError(_)) {
            break Denied::of(&event);
        }
    };
    let told = Denied {
        publish: true,
        subject,
    };
    assert_eq!(error, Some(told));
}

#[tokio::test]
async fn a_replicated_bucket_takes_claims_and_fences_as_a_single_one_does() {
    let cluster = NatsCluster::start(3).unwrap();
    let client = connect(cluster.node(0)).await;
    let (bucket, info) = replicated(&client).await;
    assert_eq!(info.replicas, 3);
    assert!(info.unique_sequences);
    let r = role("r");
    // A node may not know yet that a stream has a leader.
    let claimed = eventually(TIMEOUT, "somebody who answers", async || {
        match bucket.put_record(&r, 0, &record(1000), TIMEOUT).await {
            Err(StoreError::Unavailable(_)) => None,
            claimed => Some(claimed.unwrap()),
        }
    });
    let (mut over, mut fenced) = (claimed.await, 0);
    for beat in 1..=20 {
        let (claim, fence) = (record(beat), fence_record(beat));
        let claimed = bucket.put_record(&r, over, &claim, TIMEOUT).await.unwrap();
        fenced = bucket.fence(&r, fenced, &fence, TIMEOUT).await.unwrap();
        let (renewal, release) = (record(100 + beat), release(200 + beat));
        let renewed = bucket.put_record(&r, claimed, &renewal, TIMEOUT).await;
        let released = bucket.release(&r, renewed.unwrap(), &release, TIMEOUT);
        over = released.await.unwrap();
    }
}

#[tokio::test]
async fn a_confirmation_from_another_stream_is_rejected() {
    let lab = Lab::new().await;
    let name = role("scheduler");
    let claimed = lab.put_record(&name, 0, 1).await.unwrap();
    let context = jetstream::new(lab.client.clone());
    context.delete_stream("KV_leaders").await.unwrap();
    let other = jetstream::stream::Config {
        name: "other".into(),
        subjects: vec!["$KV.leaders.*".into()],
        first_sequence: Some(claimed + 1),
        ..jetstream::stream::Config::default()
    };
    context.create_stream(other).await.unwrap();
    let error = lab.put_record(&name, 0, 2).await.expect_err("not ours");
    assert!(error.to_string().contains("other"), "{error}");
}
