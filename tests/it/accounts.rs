//! The accounts in `deploy/nats/account.conf`: who is in another one sees what is led, and changes
//! nothing.

use std::time::Duration;

use async_nats::Client;
use futures::StreamExt;
use nats_elect::{EventsConfig, ManagerConfig, ObserverBuilder};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

use crate::support::bucket::Stranger;
use crate::support::instance::{Instance, guest, make_bucket, never};
use crate::support::journal::Journal;
use crate::support::onlooker::{Onlooker, looking_at};
use crate::support::operator::Operator;
use crate::support::user::{User, users_of};
use crate::support::{BUCKET, ROLE, SOON, configured, leased_for, ms};

const FILE: &str = include_str!("../../deploy/nats/account.conf");
const PASSWORD: &str = "change-me";
const INBOX: &str = "_INBOX_observers";
const TTL: Duration = ms(10_000);

/// The server of the file, whose elections have the users of the other files.
fn server() -> NatsServer {
    let users = users_of(&[
        include_str!("../../deploy/nats/candidate.conf"),
        include_str!("../../deploy/nats/admin.conf"),
        include_str!("../../deploy/nats/operator.conf"),
    ]);
    let (_, users) = users.split_once("users = ").expect("a list of users");
    let (users, _) = users.rsplit_once('}').expect("its end");
    let config = FILE.replace("users = []", &format!("users = {users}"));
    configured(&config)
}

struct Scene {
    server: NatsServer,
    journal: Journal,
    a: Instance,
}

async fn scene() -> Scene {
    let server = server();
    let journal = Journal::default();
    make_bucket(&server).await;
    let a = candidate("a", &server, &journal).await;
    journal.started(ROLE, 0).await;
    Scene { server, journal, a }
}

async fn candidate(id: &str, server: &NatsServer, journal: &Journal) -> Instance {
    guest(id, server.url(), journal)
        .user("candidate", PASSWORD)
        .with(|it| it.events(EventsConfig::default()))
        .standing(leased_for(TTL))
        .start()
        .await
}

fn observing(server: &NatsServer) -> ObserverBuilder {
    let mut config = ManagerConfig::default();
    config.auth.user = Some("observer".into());
    config.auth.password = Some(PASSWORD.into());
    config.inbox_prefix = Some(INBOX.into());
    looking_at(server.url())
        .config(config)
        .servers(server.url())
        .bucket(BUCKET)
}

async fn observer(server: &NatsServer) -> User {
    User::connect_under(&server.url(), "observer", PASSWORD, INBOX).await
}

#[test]
fn the_file_is_a_configuration_that_the_server_takes() {
    configured(FILE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_observer_in_another_account_sees_each_change_of_leaders() {
    let scene = scene().await;
    let looker = Onlooker::start(observing(&scene.server)).await;
    looker.follows("a").await;
    let b = candidate("b", &scene.server, &scene.journal).await;
    b.wait_until_following("a").await;
    let user = observer(&scene.server).await;
    let mut events = user
        .client
        .subscribe("nats-elect-events.leaders.*")
        .await
        .expect("subscribed");
    // The server takes what one connection sends in its order.
    let operator = Operator::with(user.client.clone());
    operator.find(2).await;

    scene.a.stop().await;
    scene.journal.started(ROLE, 1).await;
    looker.follows("b").await;
    let told = tokio::time::timeout(SOON, events.next()).await;
    told.expect("an event").expect("an event");
    // Its watch goes on: nothing is read again and again in its place.
    never("a lost watch", ms(3000), || {
        !looker.observer.connection().is_current()
    })
    .await;

    operator.find(1).await;
    assert_eq!(operator.leader(ROLE).await.instance.instance_id, "b");
    assert_eq!(user.denied(), [""; 0], "nothing of all that is forbidden");
}

/// Asks, and has the answer sent there.
async fn ask(client: &Client, subject: &str, reply: &str, body: &Value) {
    let asked = client.publish_with_reply(
        subject.to_owned(),
        reply.to_owned(),
        body.to_string().into(),
    );
    asked.await.expect("published");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_in_another_account_changes_nothing_whatever_reply_he_names() {
    let scene = scene().await;
    let admin = User::connect(&scene.server.url(), "admin", PASSWORD).await;
    let admin = Stranger::of(admin.client);
    let user = observer(&scene.server).await;
    let fence = admin.fence_sequence(ROLE).await;
    let stored = async || admin.stream().await.cached_info().state.messages;
    let before = stored().await;
    let key = format!("$KV.{BUCKET}.{ROLE}");
    let places = [
        key.clone(),
        format!("$KV.{BUCKET}._fence.{ROLE}"),
        format!("$KV.{BUCKET}.nobody"),
        format!("$JS.API.STREAM.PURGE.KV_{BUCKET}"),
        format!("$JS.API.STREAM.DELETE.KV_{BUCKET}"),
        format!("nats-elect-admin.{BUCKET}.cordon.x"),
    ];
    let get = "$JS.API.STREAM.MSG.GET.KV_leaders";
    for (i, place) in places.iter().enumerate() {
        for (subject, body) in [
            ("$JS.API.STREAM.INFO.KV_leaders", json!({})),
            (get, json!({ "last_by_subj": key })),
            (get, json!({ "seq": 1 })),
        ] {
            ask(&user.client, subject, place, &body).await;
        }
        // The answer to a request for a consumer, and what a consumer delivers.
        let create = format!("$JS.API.CONSUMER.CREATE.KV_leaders.c{i}");
        let config = json!({ "name": format!("c{i}"), "deliver_subject": place, "ack_policy": "none",
            "deliver_policy": "last_per_subject", "filter_subject": "$KV.leaders.>", "inactive_threshold": 60_000_000_000_u64 });
        let body = json!({ "stream_name": "KV_leaders", "config": config });
        let answer = user
            .client
            .request(create.clone(), body.to_string().into())
            .await;
        let answer: Value =
            serde_json::from_slice(&answer.expect("an answer").payload).expect("JSON");
        if place.starts_with("$KV.") {
            assert_eq!(
                answer["error"]["err_code"], 10081,
                "it would deliver to itself: {answer}"
            );
        }
        ask(&user.client, &create, place, &body).await;
        ask(&user.client, "$JS.FC.KV_leaders.x", place, &json!({})).await;
    }
    user.client.flush().await.expect("flush");
    assert_eq!(user.denied(), [""; 0], "the server does not mind");

    never("an effect", TTL / 4, || !scene.a.is_leader()).await;
    let role = scene.a.role(ROLE);
    eventually(SOON, "a proof", async || role.validate().await.ok()).await;
    assert_eq!(scene.journal.terms(ROLE).len(), 1);
    assert_eq!(admin.record().await["id"], "a");
    assert_eq!(admin.fence_sequence(ROLE).await, fence);
    assert!(admin.find("nobody").await.is_none());
    assert!(!scene.a.role(ROLE).status().paused);
    assert_eq!(stored().await, before, "each key has its last message");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_in_another_account_may_publish_nothing_but_questions() {
    let scene = scene().await;
    let user = observer(&scene.server).await;
    let id = scene
        .a
        .role(ROLE)
        .leader()
        .and_then(|leader| leader.incarnation)
        .expect("it leads");
    for subject in [
        "$KV.leaders.scheduler".to_owned(),
        "$JS.API.DIRECT.GET.KV_leaders".to_owned(),
        "$JS.API.STREAM.PURGE.KV_leaders".to_owned(),
        "nats-elect.leaders.scheduler.a".to_owned(),
        "nats-elect-events.leaders.scheduler".to_owned(),
        "nats-elect-admin.leaders._answer.x".to_owned(),
        format!("nats-elect-admin.leaders.step-down.{id}.{ROLE}"),
        format!("nats-elect-admin.leaders.cordon.{id}"),
    ] {
        user.may_not_publish(&subject).await;
    }
}
