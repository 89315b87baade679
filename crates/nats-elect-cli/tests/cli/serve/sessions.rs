//! The sessions of `docs/serve.md`.

use super::{Answer, serving};
use crate::fleet::{instance, led};
use crate::markdown::blocks;
use crate::transcript::{begin, can_be_typed, session, type_in};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_the_page_print_what_it_shows() {
    if !can_be_typed() {
        return;
    }
    let blocks = blocks(include_str!("../../../../../docs/serve.md"));
    let (server, _a) = led().await;
    let _b = instance(&server, "node-2").start().await.expect("start");
    let serve = serving(&server, &[]);
    let here = [("127.0.0.1:8642", &*serve.address)];

    let follows = |answer: &Answer| answer.json()["candidates"][1]["status"]["state"] == "follower";
    serve
        .until("a follower", "/api/v1/roles/scheduler", follows)
        .await;
    let one = |answer: &Answer| answer.json()["events"].as_array().map(Vec::len) == Some(1);
    serve.until("the past", "/api/v1/history", one).await;
    type_in(&session(&blocks, "jq -c"), &here);

    let stream = session(&blocks, "/api/v1/events");
    let mut stream = begin(&stream[0], &here);
    stream.shows("data");
    assert!(stream.is_over());
}
