//! `inspect`: everything about one role.

use nats_elect_testing::NatsServer;
use serde_json::{Value, json};

use crate::fleet::{
    ROLE, bucket, comes_true, harms_no_terminal, is_fit_for_a_terminal, led, lines, output,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_that_is_known_is_told_but_for_the_lease_token() {
    let (server, _a) = led().await;
    let bucket = bucket(&server).await;
    let record = bucket.get(ROLE).await.expect("read").expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("JSON");
    let token = record["token"].as_str().expect("a token");
    comes_true("an event", async || {
        lines(&output(&server, &["history", "--json"])).len() == 1
    })
    .await;

    // It ends with the third heartbeat.
    let patient = ["inspect", ROLE, "--wait", "30s"];
    let text = output(&server, &patient).with_code(0);
    is_fit_for_a_terminal(&text);
    text.says_all([
        "node-1 (confirmed)",
        "meta.region    eu",
        "of 3s left",
        "signature      none",
        &format!("token          {}…", &token[..4]),
        "fence record: revision",
        "healthy",
        "leads: no earlier leader",
    ]);
    let json = output(&server, &[&patient[..], &["--json"]].concat());
    for shown in [&text.stdout, &json.stdout] {
        assert!(!shown.contains(&token[4..]), "the secret is out: {shown}");
    }
    let json = &lines(&json)[0];
    assert_eq!(json["record"]["value"]["id"], "node-1");
    assert_eq!(json["fence"]["value"]["incarnation"], record["incarnation"]);
    assert_eq!(json["candidates"][0]["instance_id"], "node-1");
    assert_eq!(json["history"][0]["event"], "term_started");
    assert_eq!(json["signature"]["state"], "none");
}

#[tokio::test]
async fn a_stranger_s_value_is_told_of_without_showing_what_could_do_harm() {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let odd = json!({
        "id": "a\u{1b}[31mb", "ttl_ms": 60_000, "token": "5ecre75ecre75ecre7", "x\u{9b}": ["\u{1b}c", 1],
        "proof": "no proof",
    });
    let garbage = b"token=5ecre75ecre75ecre7 \x1b[2J".to_vec();
    for (key, value) in [("odd", odd.to_string().into_bytes()), ("garbage", garbage)] {
        bucket.put(key, value.into()).await.expect("put");
    }
    for (role, expected) in [("odd", "unconfirmed"), ("garbage", "not readable")] {
        let text = output(&server, &["inspect", role, "--wait", "0s"]).with_code(0);
        is_fit_for_a_terminal(&text);
        text.says(expected);
        let json = output(&server, &["inspect", role, "--wait", "0s", "--json"]);
        harms_no_terminal(&json);
        for shown in [&text.stdout, &json.stdout] {
            assert!(!shown.contains("75ecre7"), "the secret is out: {shown}");
        }
        assert_eq!(lines(&json)[0]["candidates"], json!([]));
        text.says("none is kept");
    }
}

#[tokio::test]
async fn a_role_of_which_nothing_is_known_ends_with_3() {
    let server = NatsServer::start().expect("start");
    bucket(&server).await;
    let none = output(&server, &["inspect", "nothing", "--wait", "0s"]).with_code(3);
    none.complains("never led");
    output(&server, &["inspect", "no.name"]).assert_code(2);
}
