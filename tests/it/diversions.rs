//! What can be done with the permission to ask JetStream: the server sends its answers, and what
//! consumers deliver, where the asker says, whether or not he may publish there.

use async_nats::jetstream::{self, kv, stream};
use async_nats::{HeaderMap, Message, Subscriber};
use futures::StreamExt;
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

use crate::support::bucket::Stranger;
use crate::support::user::User;
use crate::support::{SOON, arrived, comes_true, configured};

const PURGE: &str = "$JS.API.STREAM.PURGE.KV_leaders";

/// `asker` may write to a stream of its own, ask for direct gets of it, and make consumers.
const USERS: &str = r#"authorization { users = [
  { user: all, password: p }
  { user: asker, password: p, permissions: {
      publish: [ "loot.>", "$JS.API.DIRECT.GET.loot", "$JS.API.CONSUMER.CREATE.KV_leaders.>" ]
      subscribe: "_INBOX.>" } }
] }
"#;

struct Scene {
    server: NatsServer,
    all: Stranger,
    asker: User,
}

async fn scene() -> Scene {
    let server = configured(USERS);
    let all = User::connect(&server.url(), "all", "p").await;
    let all = Stranger::of(all.client);
    let store = all.make_bucket(kv::Config::default()).await;
    for key in ["scheduler", "_data.scheduler.cursor"] {
        store.put(key, "genuine".into()).await.expect("put");
    }
    let loot = stream::Config {
        name: "loot".into(),
        subjects: vec!["loot.>".into()],
        allow_direct: true,
        allow_rollup: true,
        ..Default::default()
    };
    let made = all.jetstream.create_stream(loot).await;
    made.expect("a stream of its own");
    let asker = User::connect(&server.url(), "asker", "p").await;
    Scene { server, all, asker }
}

impl Scene {
    /// Stores a message of the asker's choice, and has it sent to a subject where the asker may
    /// publish nothing.
    async fn divert(&self, to: &str, headers: HeaderMap, value: &'static str) {
        let own = jetstream::new(self.asker.client.clone());
        let stored = own.publish_with_headers("loot.x", headers, value.into());
        let stored = stored.await.expect("published").await.expect("stored");
        self.divert_number(to, stored.sequence).await;
    }

    async fn divert_number(&self, to: &str, sequence: u64) {
        let get = json!({ "seq": sequence }).to_string();
        let client = &self.asker.client;
        let asked = client.publish_with_reply("$JS.API.DIRECT.GET.loot", to.to_owned(), get.into());
        asked.await.expect("published");
        client.flush().await.expect("flush");
    }

    async fn messages(&self) -> u64 {
        let stream = self.all.stream().await;
        stream.cached_info().state.messages
    }

    async fn is_emptied(&self) {
        comes_true("an empty bucket", async || {
            self.all.find("scheduler").await.is_none()
        })
        .await;
    }

    fn may_not_complain(&self) {
        assert_eq!(self.asker.denied(), [""; 0], "the server does not mind");
    }
}

async fn next(inbox: &mut Subscriber) -> Message {
    let message = tokio::time::timeout(SOON, inbox.next()).await;
    message.expect("a message").expect("a message")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_get_empties_a_bucket_that_allows_rollups() {
    let scene = scene().await;
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Rollup", "all");
    scene.divert("$KV.leaders.x", headers, "").await;
    scene.is_emptied().await;
    assert_eq!(scene.messages().await, 1, "what emptied it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_get_is_obeyed_as_a_request_even_if_it_finds_nothing() {
    let scene = scene().await;
    scene.divert_number(PURGE, 4711).await;
    scene.is_emptied().await;
    scene.may_not_complain();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_get_says_anything_to_anybodys_inbox() {
    let scene = scene().await;
    let client = scene.all.jetstream.client();
    let mut inbox = client.subscribe("_INBOX.victim").await.expect("subscribed");
    arrived(&client).await;
    let ack = r#"{"stream":"KV_leaders","seq":17}"#;
    scene.divert("_INBOX.victim", HeaderMap::new(), ack).await;
    assert_eq!(next(&mut inbox).await.payload, ack);
}

/// The message by which the server says that a consumer is idle is an empty one, and so a request
/// to purge everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumers_heartbeat_is_obeyed_where_somebody_subscribes_to_just_that_subject() {
    let scene = scene().await;
    let consume = async |name: &str, deliver_to: &str| -> Value {
        let config = json!({ "name": name, "deliver_subject": deliver_to, "deliver_policy": "all", "ack_policy": "none",
            "idle_heartbeat": 100_000_000_u64, "inactive_threshold": 60_000_000_000_u64 });
        let body = json!({ "stream_name": "KV_leaders", "config": config }).to_string();
        let subject = format!("$JS.API.CONSUMER.CREATE.KV_leaders.{name}");
        let answer = scene.asker.client.request(subject, body.into()).await;
        serde_json::from_slice(&answer.expect("an answer").payload).expect("JSON")
    };
    let to_itself = consume("a", "$KV.leaders.scheduler").await;
    assert_eq!(to_itself["error"]["err_code"], 10081, "{to_itself}");
    let made = consume("b", PURGE).await;
    assert!(made["error"].is_null(), "{made}");
    // Another one that has been idle for as long shows that this one had its time.
    let client = &scene.asker.client;
    let mut inbox = client.subscribe("_INBOX.asker").await.expect("subscribed");
    consume("c", "_INBOX.asker").await;
    while next(&mut inbox).await.status.is_none() {}
    assert_eq!(scene.messages().await, 2, "nobody subscribes there");

    let client = scene.all.jetstream.client();
    let _somebody = client.subscribe(PURGE).await.expect("subscribed");
    scene.is_emptied().await;
    scene.may_not_complain();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_is_stored_or_obeyed_where_the_writer_has_it_sent() {
    let scene = scene().await;
    let client = &scene.asker.client;
    let write = async |reply: &str| {
        let written = client.publish_with_reply("loot.x", reply.to_owned(), "x".into());
        written.await.expect("published");
        client.flush().await.expect("flush");
    };
    write("$KV.leaders.scheduler").await;
    eventually(SOON, "a confirmation for a record", async || {
        let stands = scene.all.find("scheduler").await?;
        let ack: Value = serde_json::from_slice(&stands.payload).ok()?;
        (ack["stream"] == "loot").then_some(())
    })
    .await;
    // It names a sequence: up to there all is purged. From 2.12 on the rest of what it says makes
    // it no request.
    for _ in 0..3 {
        write(PURGE).await;
    }
    if scene.server.version() < (2, 12, 0) {
        scene.is_emptied().await;
    } else {
        // What is asked after it is answered after it.
        scene
            .divert("$KV.leaders.last", HeaderMap::new(), "x")
            .await;
        eventually(SOON, "what came last", async || {
            scene.all.find("last").await
        })
        .await;
        assert!(scene.all.find("scheduler").await.is_some());
    }
    scene.may_not_complain();
}
