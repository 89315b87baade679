//! Requests that the user's permissions forbid.

use async_nats::ConnectOptions;

use super::*;
use crate::store::stand_in::StandIn;
use crate::store::{DataWrite, Denied, Mailbox};
use nats_elect_core::name::DataKey;

fn publishing(subject: &str) -> Denied {
    Denied {
        publish: true,
        subject: subject.to_owned(),
    }
}

fn denied(error: &StoreError, subject: &str) -> bool {
    matches!(error, StoreError::PermissionDenied(text) if text.contains(subject))
}

/// Opens the bucket as a user whose refusals the mailbox is told of.
async fn open_as(user: &str, server: &NatsServer) -> Result<Bucket, StoreError> {
    let mailbox = Arc::<Mailbox>::default();
    let told = Arc::clone(&mailbox);
    let options = ConnectOptions::with_user_and_password(user.into(), "x".into());
    let options = options.event_callback(move |event| {
        if let Some(denied) = Denied::of(&event) {
            told.denied(&denied);
        }
        std::future::ready(())
    });
    let client = options.connect(server.url()).await.unwrap();
    let name = BucketName::new("leaders").unwrap();
    let opened = Bucket::open(client, mailbox, &name, CREATE, TIMEOUT).await;
    opened.map(|(bucket, _)| bucket)
}

#[tokio::test]
async fn a_forbidden_request_ends_at_once_with_its_subject() {
    let users = r#"authorization { users [
        { user: some, password: x, permissions { publish { allow: ">", deny: [
            "$KV.leaders.secret", "$KV.leaders._data.>", "$JS.API.STREAM.MSG.GET.>"
        ] } } }
        { user: deaf, password: x, permissions { subscribe { deny: "_INBOX.>" } } }
    ] }"#;
    let server = NatsServer::builder().config(users).start().unwrap();
    let bucket = open_as("some", &server).await.unwrap();
    let (secret, open, claim) = (role("secret"), role("open"), record(1));
    let (refused, allowed) = tokio::join!(
        bucket.put_record(&secret, 0, &claim, TIMEOUT),
        bucket.put_record(&open, 0, &claim, TIMEOUT),
    );
    assert!(denied(&refused.unwrap_err(), "\"$KV.leaders.secret\""));
    allowed.unwrap();
    let read = bucket.snapshot(&open, TIMEOUT).await.unwrap_err();
    assert!(denied(&read, "\"$JS.API.STREAM.MSG.GET.KV_leaders\""));
    let key = DataKey::new("a").unwrap();
    let write = bucket
        .write_fenced(&open.clone().into(), 0, &key, None, TIMEOUT)
        .await;
    assert!(denied(&write.unwrap_err(), "\"$KV.leaders._data.open.>\""));
    assert_eq!(bucket.mailbox().awaited(), 0);

    let error = open_as("deaf", &server).await.unwrap_err();
    assert!(denied(&error, "\"_INBOX.>\""), "{error}");
}

#[tokio::test]
async fn batches_whose_end_is_forbidden_leave_room_for_others() {
    let users = r#"authorization { users [
        { user: all, password: x }
        { user: some, password: x, permissions { publish { deny: "$KV.leaders._data.>" } } }
    ] }"#;
    let server = NatsServer::builder().config(users).start().unwrap();
    if server.version() < BATCHES {
        return;
    }
    let all = open_as("all", &server).await.unwrap();
    let some = open_as("some", &server).await.unwrap();
    let write = DataWrite {
        key: DataKey::new("a").unwrap(),
        value: None,
        over: None,
    };
    let (r, writes) = (role("r"), [write]);
    // The server has room for 50 open batches.
    for _ in 0..60 {
        let refused = some
            .write_batch(&r.clone().into(), 0, &writes, TIMEOUT)
            .await
            .unwrap_err();
        assert!(denied(&refused, "\"$KV.leaders._data.r.>\""), "{refused}");
    }
    all.write_batch(&r.clone().into(), 0, &writes, TIMEOUT)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_refusal_ends_all_requests_to_its_subject_and_no_others() {
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let (r, s, claim) = (role("r"), role("s"), record(1));
    let answering = async {
        let mut others = Vec::new();
        for _ in 0..3 {
            let asked = stand_in.next().await;
            if asked.subject() == "$KV.leaders.s" {
                others.push(asked);
            }
        }
        let mailbox = bucket.mailbox();
        mailbox.denied(&publishing("$KV.leaders.x"));
        assert_eq!(mailbox.awaited(), 3);
        mailbox.denied(&publishing("$KV.leaders.r"));
        assert_eq!(mailbox.awaited(), 1);
        stand_in.store(others.remove(0), 6).await;
    };
    let (first, second, other, ()) = tokio::join!(
        bucket.put_record(&r, 5, &claim, TIMEOUT),
        bucket.put_record(&r, 5, &claim, TIMEOUT),
        bucket.put_record(&s, 5, &claim, TIMEOUT),
        answering,
    );
    assert!(denied(&first.unwrap_err(), "$KV.leaders.r"));
    assert!(denied(&second.unwrap_err(), "$KV.leaders.r"));
    assert_eq!(other, Ok(6));
}

#[tokio::test]
async fn a_refused_subscription_ends_all_requests_and_the_next_one_subscribes_again() {
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let (r, s, claim) = (role("r"), role("s"), record(1));
    let answering = async {
        let asked = stand_in.next().await;
        stand_in.next().await;
        let (prefix, _) = asked.reply().rsplit_once('.').unwrap();
        let subscription = |subject: String| Denied {
            publish: false,
            subject,
        };
        let mailbox = bucket.mailbox();
        mailbox.denied(&subscription("_INBOX.other.*".to_owned()));
        mailbox.denied(&publishing(&format!("{prefix}.*")));
        assert_eq!(mailbox.awaited(), 2);
        mailbox.denied(&subscription(format!("{prefix}.*")));
        prefix.to_owned()
    };
    let (first, second, prefix) = tokio::join!(
        bucket.put_record(&r, 5, &claim, TIMEOUT),
        bucket.put_record(&s, 5, &claim, TIMEOUT),
        answering,
    );
    for refused in [first, second] {
        assert!(denied(&refused.unwrap_err(), "\"_INBOX.>\""));
    }
    let answering = async {
        let asked = stand_in.next().await;
        assert!(!asked.reply().starts_with(&prefix));
        stand_in.store(asked, 6).await;
    };
    let (again, ()) = tokio::join!(bucket.put_record(&r, 5, &claim, TIMEOUT), answering);
    assert_eq!(again, Ok(6));
}
