use async_nats::jetstream::{self, kv, stream};
use async_nats::{ConnectOptions, Request};
use serde_json::Value;

use super::*;
use crate::clock;
use crate::store::settings::tests::KNOWN;

#[tokio::test]
async fn an_account_without_jetstream_is_reported_at_once() {
    let accounts = "accounts {
        A { jetstream: enabled, users [{ user: a, password: x }] }
        B { users [{ user: b, password: x }] }
    }";
    let server = NatsServer::builder().config(accounts).start().unwrap();
    let client = ConnectOptions::with_user_and_password("b".into(), "x".into());
    let client = client.connect(server.url()).await.unwrap();
    let error = open(&client, CREATE).await.unwrap_err();
    assert!(
        matches!(error, StoreError::JetStreamDisabled(_)),
        "{error:?}"
    );
}

/// The same bucket, as a client sees it that did not create it.
fn found(info: &BucketInfo) -> BucketInfo {
    let info = info.clone();
    BucketInfo {
        created: false,
        ..info
    }
}

#[tokio::test]
async fn many_concurrent_creators_open_the_same_bucket() {
    let server = NatsServer::start().unwrap();
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(connect(&server).await);
    }
    let opened = clients.iter().map(|client| open(client, CREATE));
    let opened = futures::future::try_join_all(opened).await.unwrap();
    let (_, first) = &opened[0];
    let same = |info: &BucketInfo| found(info) == found(first);
    assert!(opened.iter().all(|(_, info)| same(info)), "{opened:?}");
    let creators = opened.iter().filter(|(_, info)| info.created).count();
    assert_eq!(creators, 1, "{opened:?}");
}

#[tokio::test]
async fn a_bucket_of_ours_can_do_what_the_server_can() {
    let lab = Lab::new().await;
    let info = &lab.info;
    assert_eq!(info.atomic, lab.is_at_least(BATCHES));
    assert!(info.unique_sequences);
    assert_eq!((info.replicas, info.max_age), (1, None));
    let noted = |words: &str| info.notes.iter().any(|note| note.risk.contains(words));
    assert!(noted("one replica"), "{info:?}");
    assert!(!noted("memory") && !noted("start low"), "{info:?}");

    // The bucket was created now, by the same machine's clock.
    let now = u128::from(clock::unix_micros()) * 1000;
    let age = now.abs_diff(u128::from(info.epoch));
    assert!(age < 60_000_000_000, "{age} ns");

    // Other Key-Value clients can use it too.
    let kv = lab.kv().await;
    kv.put("x", "y".into()).await.unwrap();
    assert_eq!(kv.get("x").await.unwrap().as_deref(), Some(&b"y"[..]));
    let again = open(&lab.client, IfMissing::Fail).await.unwrap().1;
    assert_eq!(again, found(&lab.info));
}

#[tokio::test]
async fn an_existing_bucket_is_used_as_it_is() {
    let server = NatsServer::start().unwrap();
    let client = connect(&server).await;
    let config = kv::Config {
        bucket: "leaders".into(),
        history: 5,
        max_age: Duration::from_secs(9),
        storage: stream::StorageType::Memory,
        max_bytes: 1_000_000,
        ..kv::Config::default()
    };
    let context = jetstream::new(client.clone());
    context.create_key_value(config).await.unwrap();
    let (bucket, info) = open(&client, CREATE).await.unwrap();
    assert_eq!(info.max_age, Some(Duration::from_secs(9)));
    assert!(!info.atomic && !info.unique_sequences);
    let notes: Vec<_> = info.notes.iter().map(ToString::to_string).collect();
    let notes = notes.join("\n");
    for words in [
        "expire after 9s",
        "more than the last value",
        "refuses heartbeats",
        "memory",
        "start low",
    ] {
        assert!(notes.contains(words), "{notes}");
    }
    assert_eq!(
        bucket.put_record(&role("r"), 0, &record(1), TIMEOUT).await,
        Ok(1)
    );
}

#[tokio::test]
async fn a_mirror_and_a_taken_subject_are_unfit() {
    let lab = Lab::new().await;
    let context = jetstream::new(lab.client.clone());
    let config = stream::Config {
        name: "KV_mirror".into(),
        mirror: Some(stream::Source {
            name: "KV_leaders".into(),
            ..stream::Source::default()
        }),
        ..stream::Config::default()
    };
    context.create_stream(config).await.unwrap();
    let config = stream::Config {
        name: "everything".into(),
        subjects: vec!["$KV.taken.*".into()],
        ..stream::Config::default()
    };
    context.create_stream(config).await.unwrap();
    for name in ["mirror", "taken"] {
        let name = BucketName::new(name).unwrap();
        let opened = Bucket::open(lab.client.clone(), Arc::default(), &name, CREATE, TIMEOUT).await;
        assert!(
            matches!(opened, Err(StoreError::BucketUnfit(_))),
            "{opened:?}"
        );
    }
}

#[tokio::test]
async fn more_replicas_than_servers_are_refused_in_the_servers_words() {
    let server = NatsServer::start().unwrap();
    let client = connect(&server).await;
    let create = IfMissing::Create {
        replicas: 3,
        storage: Storage::Memory,
    };
    let error = open(&client, create).await.unwrap_err();
    assert!(error.to_string().contains("replicas > 1"), "{error}");
}

#[tokio::test]
async fn a_bucket_of_ours_is_read_from_its_leader_and_has_no_limit() {
    let lab = Lab::new().await;
    let request = Request::new().payload("{}".into());
    let answer = lab
        .client
        .send_request("$JS.API.STREAM.INFO.KV_leaders", request)
        .await
        .unwrap();
    let answer: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!(answer["config"]["allow_direct"], false);
    assert_eq!(answer["config"]["max_bytes"], -1);
    for setting in answer["config"].as_object().unwrap().keys() {
        assert!(
            KNOWN.split_whitespace().any(|it| it == setting),
            "{setting}"
        );
    }
}
