//! The sessions of `docs/serve.md`.

use nats_elect_testing::NatsServer;

use super::{Answer, serving};
use crate::fleet::{instance, leader};
use crate::markdown::blocks;
use crate::transcript::{begin, can_be_typed, session, type_in};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sessions_of_the_page_print_what_it_shows() {
    if !can_be_typed() {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/serve.md");
    let page = std::fs::read_to_string(page).expect("readable");
    let blocks = blocks(&page);
    let server = NatsServer::start().expect("a server");
    let _a = leader(&server, "node-1").await;
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
