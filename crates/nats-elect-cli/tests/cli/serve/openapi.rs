//! The document of the API, and what is answered.

use std::collections::BTreeSet;

use nats_elect::{StepDown, StopOptions};
use nats_elect_testing::NatsServer;
use serde_json::Value;

use super::events::Events;
use super::{Answer, Serving, is_ok, serving};
use crate::fleet::{ROLE, bucket, instance, led, silent, stranger};
use crate::group::{all_owned, member};
use crate::maps::{write_map, write_member};
use crate::openapi::Document;
use crate::serve::serving_behind_proxy;

struct Described(Document);

impl Described {
    fn by(serve: &Serving) -> Self {
        // Names of fields are no values: it is not in the notation itself.
        let document = serve.get("/api/v1/openapi.json").body;
        Self(Document::new(
            serde_json::from_str(&document).expect("JSON"),
        ))
    }

    /// Each path has one method.
    #[track_caller]
    fn describes(&self, path: &str, answer: &Answer) {
        let kind = Some(answer.header("content-type").expect("a kind"));
        let (operation, status) = (format!("get {path}"), answer.status);
        self.0.describes(&operation, status, kind, &answer.body);
    }
}

const ROLES: &str = "/api/v1/roles";
const ONE: &str = "/api/v1/roles/{role}";
const INSTANCES: &str = "/api/v1/instances";
const HISTORY: &str = "/api/v1/history";
const LEADER: &str = "/api/v1/leader/{role}/{instance}";
const GROUPS: &str = "/api/v1/groups";
const GROUP: &str = "/api/v1/groups/{group}";
const OWNER: &str = "/api/v1/groups/{group}/owner";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_is_what_the_document_says() {
    let (server, a) = led().await;
    let _b = instance(&server, "node-2").start().await.expect("start");
    let _silent = silent(&server, "node-3").await;
    let (proxy, serve) = serving_behind_proxy(&server);
    let document = Described::by(&serve);
    let led = "/api/v1/leader/scheduler/node-1";
    let known = serve.until("a known leader", led, is_ok).await;
    document.describes(LEADER, &known);
    document.describes(LEADER, &serve.get("/api/v1/leader/none/none"));
    document.describes(LEADER, &serve.get(&format!("{led}?bucket=other")));

    // Somebody who does not tell a status, and a role without leader.
    let _stranger = stranger(&server, None).await;
    let both = |answer: &Answer| {
        let json = answer.json();
        let instances = json["instances"].as_array().expect("instances");
        instances.iter().any(|it| it["error"].is_string())
            && instances.iter().any(|it| it["status"].is_object())
    };
    let instances = serve.until("both kinds", INSTANCES, both).await;
    document.describes(INSTANCES, &instances);
    document.describes(ONE, &serve.get("/api/v1/roles/scheduler"));
    document.describes(ONE, &serve.get("/api/v1/roles/none"));
    document.describes(ROLES, &serve.get(ROLES));
    document.describes(ROLES, &serve.get("/api/v1/roles?bukket=x"));
    // Events are told from then on.
    let kept = |answer: &Answer| answer.json()["events"].as_array().map(Vec::len) == Some(1);
    serve.until("the first term", HISTORY, kept).await;
    let mut events = Events::open(&serve, None);
    let leading = a.role(ROLE).expect("it");
    let down = leading.step_down(StepDown::any()).await;
    down.expect("a step-down");
    let three = |answer: &Answer| answer.json()["events"].as_array().map(Vec::len) == Some(3);
    let history = serve.until("the past", HISTORY, three).await;
    document.describes(HISTORY, &history);
    document.describes(HISTORY, &serve.get("/api/v1/history?since=yesterday"));
    // A watch that is behind may not show the release, but the next claim.
    let has_cause = |it: &Value| it["cause"].is_string();
    for event in events.until(&["change", "history"], has_cause) {
        match &*event.kind {
            "change" => document.0.describes_event("Change", &event.data),
            "history" => document.0.describes_event("Event", &event.data),
            "view" => document.0.describes_event("View", &event.data),
            _ => {}
        }
    }

    proxy.black_hole();
    let unknown = |answer: &Answer| answer.json()["roles"][0]["standing"] == "unknown";
    let roles = serve.until("an outage", ROLES, unknown).await;
    document.describes(ROLES, &roles);
    let silence = |answer: &Answer| answer.json()["asked"][0]["problem"].is_string();
    let instances = serve.until("silence", INSTANCES, silence).await;
    document.describes(INSTANCES, &instances);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_about_groups_is_what_the_document_says() {
    let server = NatsServer::start().expect("start");
    let a = member(&server, "node-1").start().await.expect("start");
    all_owned(&[&a]).await;
    // Units without an owner and a member that nobody is.
    write_map(&server, "odd", 3, 1, |unit| (unit < 2).then_some(0)).await;
    write_member(&server, "odd", 0, "nobody").await;
    let bucket = bucket(&server).await;
    let rubbish = bucket.put("_groups.strange.map", "x".into()).await;
    rubbish.expect("put");
    let (proxy, serve) = serving_behind_proxy(&server);
    let document = Described::by(&serve);
    let path = "/api/v1/groups/partitions/owner?key=a";
    let known = serve.until("an owner", path, is_ok).await;
    document.describes(OWNER, &known);
    let looked = |answer: &Answer| answer.json()["unowned_seconds"] == 0;
    let group = "/api/v1/groups/partitions";
    serve.until("a look at it", group, looked).await;
    let mut events = Events::open(&serve, None);
    let all = [
        (GROUPS, GROUPS),
        (GROUPS, "/api/v1/groups?bucket=other"),
        (GROUPS, "/api/v1/groups?bukket=x"),
        (GROUP, "/api/v1/groups/partitions"),
        (GROUP, "/api/v1/groups/control"),
        (GROUP, "/api/v1/groups/odd"),
        (GROUP, "/api/v1/groups/none"),
        (OWNER, "/api/v1/groups/control/owner?unit=network"),
        (OWNER, "/api/v1/groups/control/owner?key=a"),
        (OWNER, "/api/v1/groups/odd/owner?unit=2"),
        (OWNER, "/api/v1/groups/odd/owner?unit=0"),
        (OWNER, "/api/v1/groups/odd/owner?unit=9"),
    ];
    for (path, asked) in all {
        document.describes(path, &serve.get(asked));
    }
    a.stop(StopOptions::default()).await.expect("stop");
    let is_free = |it: &Value| it["group"] == "partitions" && it["unowned"] == 12;
    for event in events.until(&["group"], is_free) {
        if event.kind == "group" {
            document.0.describes_event("GroupChange", &event.data);
        }
    }
    let unknown = "/api/v1/groups/strange/owner?key=a";
    let no_shards = |answer: &Answer| answer.body.contains("no map");
    let unknown = serve.until("no map", unknown, no_shards).await;
    document.describes(OWNER, &unknown);
    proxy.black_hole();
    let stale = |answer: &Answer| answer.json()["views"][0]["current"] == false;
    serve.until("an outage", GROUPS, stale).await;
    for (path, asked) in all {
        document.describes(path, &serve.get(asked));
    }
}

#[tokio::test]
async fn before_anything_is_known_each_answer_is_what_the_document_says() {
    let server = NatsServer::start().expect("start");
    let serve = serving(&server, &["--timeout", "1s"]);
    let document = Described::by(&serve);
    for (path, asked) in [
        (ROLES, ROLES),
        (ONE, "/api/v1/roles/scheduler"),
        (INSTANCES, INSTANCES),
        (HISTORY, HISTORY),
        (LEADER, "/api/v1/leader/scheduler/node-1"),
        (GROUPS, GROUPS),
        (GROUP, "/api/v1/groups/partitions"),
        (OWNER, "/api/v1/groups/partitions/owner?key=a"),
    ] {
        let answer = serve.get(asked);
        assert_eq!(answer.status, 503, "{answer:?}");
        document.describes(path, &answer);
    }
}

/// The paths of the API that a source file routes.
fn routed(source: &str) -> BTreeSet<String> {
    let paths = source.lines().filter_map(|line| {
        let path = line.trim().strip_prefix(".route(\"")?.split('"').next()?;
        path.starts_with("/api/").then(|| path.to_owned())
    });
    paths.collect()
}

#[tokio::test]
async fn each_path_of_the_document_is_served_and_no_more_of_the_api() {
    let server = NatsServer::start().expect("start");
    let document = Described::by(&serving(&server, &[]));
    let routed = routed(include_str!("../../../src/serve/server.rs")).into_iter();
    let routed: BTreeSet<_> = routed.map(|path| format!("get {path}")).collect();
    assert_eq!(document.0.operations(), routed);
}
