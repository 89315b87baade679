//! Moving units from it, and draining instances.

use nats_elect_testing::NatsServer;
use serde_json::{Value, json};

use super::Answer;
use super::openapi::Document;
use super::operate::Operating;
use crate::group::pair_of;
use crate::pair;

const MOVE: &str = "/api/v1/groups/{group}/units/{unit}/move";
const DRAIN: &str = "/api/v1/instances/{instance}/drain";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_is_given_to_the_instance_that_is_named() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair_of(&server, 60).await;
    pair::answer(&server, 2).await;
    let operating = Operating::start(&server, &[]);
    let document = Document::of(&operating.serve);
    let unit = a.group("partitions").expect("a group").mine()[0].clone();
    let path = |group: &str, unit: &str| format!("/api/v1/groups/{group}/units/{unit}/move");
    let to_b = json!({ "to": "node-2" });
    let moved = operating.post(&path("partitions", &unit), &to_b);
    assert_eq!(moved.status, 200, "{moved:?}");
    document.describes(MOVE, &moved);
    let json = moved.json();
    let owner = b.group("partitions").expect("a group").owner(&unit);
    let token = owner.expect("an owner").fencing_token.to_string();
    assert_eq!(
        (&json["moved"], &json["fencing_token"], &json["bucket"]),
        (&json!(true), &json!(token), &json!("leaders"))
    );
    let owner = format!("/api/v1/groups/partitions/owner?unit={unit}");
    let is_told = |answer: &Answer| answer.json()["fencing_token"] == token;
    let owner = operating.serve.until("the next owner", &owner, is_told);
    assert_eq!(owner.await.json()["instance_id"], "node-2");
    let again = operating.post(&path("partitions", &unit), &to_b);
    document.describes(MOVE, &again);
    assert_eq!((again.status, &again.json()["moved"]), (200, &json!(false)));

    // Each of the two jobs of `control` is alone on its instance.
    let control = a.group("control").expect("a group").mine()[0].clone();
    for (group, unit, body, status) in [
        ("partitions", "60", to_b.clone(), 404),
        ("others", "0", to_b.clone(), 404),
        ("partitions", "0", json!({ "to": "node-3" }), 404),
        ("control", &*control, to_b.clone(), 409),
        ("a.b", "0", to_b.clone(), 400),
        ("partitions", "0", json!({}), 400),
        (
            "partitions",
            "0",
            json!({ "to": "node-2", "force": true }),
            400,
        ),
    ] {
        let answer = operating.post(&path(group, unit), &body);
        assert_eq!(answer.status, status, "{group} {unit} {body}: {answer:?}");
        document.describes(MOVE, &answer);
    }
    let json = "Content-Type: application/json\r\n";
    let unknown = operating.send(&path("partitions", "0"), json, &to_b.to_string());
    assert_eq!(unknown.status, 401, "{unknown:?}");
    document.describes(MOVE, &unknown);
    let what = format!("move of unit {unit} of partitions to node-2, leaders: node-2 (");
    let logged = operating.logs(&what, 2).await;
    assert!(logged[0].contains("is_done=true"), "{logged:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_is_drained_and_says_what_is_left() {
    let server = NatsServer::start().expect("start");
    let (a, b) = pair_of(&server, 60).await;
    pair::answer(&server, 2).await;
    let operating = Operating::start(&server, &[]);
    let document = Document::of(&operating.serve);
    let drain = |instance: &str, body: &Value| {
        let path = format!("/api/v1/instances/{instance}/drain");
        let answer = operating.post(&path, body);
        document.describes(DRAIN, &answer);
        answer
    };
    let drained = drain("node-1", &json!({}));
    assert_eq!(drained.status, 200, "{drained:?}");
    let json = drained.json();
    assert_eq!(
        (&json["done"], &json["units_left"], &json["bucket"]),
        (&json!(true), &json!({}), &json!("leaders"))
    );
    assert_eq!(json["warning"], Value::Null, "{json}");
    assert!(a.group("partitions").expect("a group").mine().is_empty());
    // The last handlers begin a moment later.
    let all = b.group("partitions").expect("a group");
    all.wait_until(|it| it.mine().len() == 60).await;

    // Nobody else may take the units of the other one.
    let stuck = drain("node-2", &json!({ "timeout_seconds": 5 }));
    assert_eq!(stuck.status, 504, "{stuck:?}");
    let result = &stuck.json()["result"];
    assert_eq!(result["units_left"]["partitions"], 60, "{result}");
    let warning = result["warning"].as_str().expect("a warning");
    assert!(warning.contains("partitions"), "{warning}");
    for (instance, body, status) in [
        ("node-3", json!({}), 404),
        ("node-1", json!({ "timeout_seconds": 3001 }), 400),
        ("node-1", json!({ "timeout_seconds": -1 }), 400),
        ("node-1", json!({ "timeout": 1 }), 400),
    ] {
        let answer = drain(instance, &body);
        assert_eq!(answer.status, status, "{instance} {body}: {answer:?}");
    }
    let resumed = operating.post("/api/v1/instances/node-1/resume", &json!({}));
    assert_eq!(resumed.status, 200, "{resumed:?}");
    let logged = operating.logs("drain of node-1, leaders: ", 1).await;
    assert!(logged[0].contains("owns no unit"), "{logged:?}");
}
