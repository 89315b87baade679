//! What its JSON says.

use nats_elect::StopOptions;
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

use super::{Answer, Serving, is_ok, serving};
use crate::fleet::{
    ROLE, SOON, at, bucket, hand_over, has, instance, leader, led, lines, login, output,
    with_observer,
};
use crate::serve::serving_behind_proxy;

const LEADER: &str = "/api/v1/leader/scheduler/node-1";

/// The fields that both have, without those that move on from one look to the next.
fn still(value: &Value) -> Value {
    let mut value = value.clone();
    let fields = value.as_object_mut().expect("an object");
    fields.retain(|name, _| {
        !["age_seconds", "remaining_seconds", "revision", "bucket"].contains(&name.as_str())
    });
    value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn roles_instances_and_the_past_are_what_the_other_commands_say() {
    let (server, a) = led().await;
    let b = instance(&server, "node-2").start().await.expect("start");
    let serve = serving(&server, &[]);
    serve.until("a known leader", LEADER, is_ok).await;

    let dated = |answer: &Answer| answer.json()["roles"][0]["since"].is_string();
    let roles = serve.until("a term's beginning", "/api/v1/roles", dated);
    let roles = roles.await.json();
    let listed = &lines(&output(&server, &["ls", "--json", "--wait", "30s"]))[0];
    assert_eq!(still(&roles["roles"][0]), still(listed));
    assert_eq!(roles["roles"][0]["bucket"], "leaders");
    let view = json!([{
        "bucket": "leaders", "current": true, "stale_since": null, "stale_seconds": null, "reason": null,
    }]);
    assert_eq!(roles["views"], view);

    let two = |answer: &Answer| answer.json()["candidates"].as_array().map(Vec::len) == Some(2);
    let role = serve.until("candidates", "/api/v1/roles/scheduler", two);
    let role = role.await.json();
    assert_eq!(role["leader"]["instance_id"], "node-1");
    assert_eq!(role["candidates"][0]["status"]["ttl_seconds"], 3);
    let instances = serve.get("/api/v1/instances").json();
    let mut ids: Vec<_> = (instances["instances"].as_array().expect("instances").iter())
        .map(|it| it["instance_id"].as_str().expect("text"))
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["node-1", "node-2"]);
    let states = &instances["instances"][0]["status"]["roles"][ROLE]["state"];
    assert!(states.is_string(), "{instances}");

    // The heir is to know whom it follows before it can take over.
    let standing = b.role(ROLE).expect("it");
    let follows = async || standing.status().leader.map(drop);
    eventually(SOON, "a follower", follows).await;
    let leading = a.role(ROLE).expect("it");
    hand_over(&leading, "node-2").await;
    let three = |answer: &Answer| answer.json()["events"].as_array().map(Vec::len) == Some(3);
    let past = "/api/v1/history?role=scheduler&since=1h";
    let past = serve.until("three events", past, three).await.json();
    let told = lines(&output(&server, &["history", "--json"]));
    assert_eq!(past["events"], Value::from(told));
    let later = serve
        .get("/api/v1/history?since=9000-01-01T00:00:00Z")
        .json();
    assert_eq!(later["events"], json!([]));

    let gone = serve.until("another leader", LEADER, |it| it.status == 503);
    let gone = gone.await.json();
    assert_eq!(gone["is_leader"], false);
    let next = "/api/v1/leader/scheduler/node-2";
    let next = serve.until("the next leader", next, is_ok).await.json();
    has(&next, &json!({ "is_leader": true, "reason": null }));
    b.stop(StopOptions::default()).await.expect("a stop");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_an_outage_it_goes_on_says_since_when_and_vouches_for_nobody_beyond_the_lease() {
    let (server, _a) = led().await;
    let (proxy, serve) = serving_behind_proxy(&server);
    serve.until("a known leader", LEADER, is_ok).await;
    let says = |answer: &Answer| answer.json()["instances"][0]["status"].is_object();
    serve.until("an instance", "/api/v1/instances", says).await;
    proxy.black_hole();
    let unknown = serve.until("an unknown leader", LEADER, |it| it.status == 503);
    let unknown = unknown.await.json();
    assert_eq!(unknown["is_leader"], false, "{unknown}");
    let is_stale = |answer: &Answer| answer.json()["views"][0]["current"] == false;
    let stale = serve.until("a stale view", "/api/v1/roles", is_stale).await;
    let view = &stale.json()["views"][0];
    assert!(
        view["stale_since"].is_string() && view["reason"].is_string(),
        "{view}"
    );
    assert!(view["stale_seconds"].as_f64() > Some(0.0), "{view}");
    let cut_off = |answer: &Answer| answer.json()["asked"][0]["problem"].is_string();
    let instances = serve.until("silence", "/api/v1/instances", cut_off).await;
    assert_eq!(instances.json()["instances"][0]["instance_id"], "node-1");
    assert!(is_ok(&serve.get("/readyz")), "what was seen can be shown");
    proxy.restore();
    serve.until("the leader again", LEADER, is_ok).await;
    let is_current = |answer: &Answer| answer.json()["views"][0]["current"] == true;
    serve
        .until("a current view", "/api/v1/roles", is_current)
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_begins_before_its_bucket_and_shows_several() {
    let server = NatsServer::start().expect("start");
    let serve = serving(&server, &["leaders", "jobs", "--timeout", "1s"]);
    let early = serve.get("/api/v1/roles");
    assert_eq!((early.status, serve.get("/readyz").status), (503, 503));
    assert!(
        early.json()["detail"]
            .as_str()
            .is_some_and(|it| it.contains("not read yet"))
    );
    let _a = leader(&server, "node-1").await;
    let b = instance(&server, "node-2").bucket("jobs");
    let b = b.start().await.expect("start");
    serve.until("both buckets", "/readyz", is_ok).await;
    let both = |answer: &Answer| {
        let json = answer.json();
        let roles = json["roles"].as_array().expect("roles").iter();
        roles.filter(|it| it["confirmed"] == true).count() == 2
    };
    let roles = serve
        .until("two leaders", "/api/v1/roles", both)
        .await
        .json();
    assert_eq!(
        roles["roles"][0]["leader"]["instance_id"], "node-2",
        "{roles}"
    );
    let ambiguous = serve.get(LEADER);
    assert_eq!(ambiguous.status, 400, "{ambiguous:?}");
    let named = serve.get(&format!("{LEADER}?bucket=leaders"));
    assert!(is_ok(&named), "{named:?}");
    assert_eq!(serve.get(&format!("{LEADER}?bucket=other")).status, 404);
    let of_one = serve.get("/api/v1/roles?bucket=jobs").json();
    assert_eq!(of_one["roles"].as_array().map(Vec::len), Some(1));
    drop(b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_may_only_look_as_deploy_nats_grants_it_can_serve() {
    let server = with_observer();
    let a = instance(&server, "node-1").auth(login("all"));
    let _a = a.start().await.expect("start");
    let mut command = at(&server, &["serve", "--interval", "1s"]);
    command
        .env("NATS_USER", "observer")
        .env("NATS_PASSWORD", "change-me");
    let serve = Serving::start(command);
    serve.until("a known leader", LEADER, is_ok).await;
    let dated = |answer: &Answer| answer.json()["roles"][0]["since"].is_string();
    serve
        .until("a term's beginning", "/api/v1/roles", dated)
        .await;
    let one = |answer: &Answer| answer.json()["events"].as_array().map(Vec::len) == Some(1);
    serve.until("the past", "/api/v1/history", one).await;
    let says = |answer: &Answer| answer.json()["instances"][0]["status"].is_object();
    serve.until("an instance", "/api/v1/instances", says).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_stands_there_is_not_vouched_for() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let record = json!({ "id": "node-1", "ttl_ms": 60_000 }).to_string();
    bucket.put(ROLE, record.into()).await.expect("put");
    let serve = serving(&server, &[]);
    serve.until("the bucket", "/readyz", is_ok).await;
    let doubted = serve.get(LEADER);
    assert_eq!(doubted.status, 503, "{doubted:?}");
    let doubted = doubted.json();
    assert_eq!(doubted["reason"], "the leader was not seen alive yet");
    assert_eq!(doubted["leader"], "node-1");
}

#[tokio::test]
async fn a_refused_login_ends_it_at_once() {
    let config = "authorization { user: a, password: b }";
    let server = NatsServer::builder().config(config).start().expect("start");
    let mut serve = serving(&server, &[]);
    assert_eq!(serve.code(), Some(4));
}
