//! The sessions of `docs/agent.md`.

use nats_elect_testing::NatsServer;

use crate::agent::running::Agent;
use crate::fleet::comes_true;
use crate::markdown::blocks;
use crate::transcript::{begin, can_be_typed, session, type_in};

#[tokio::test]
async fn the_sessions_of_the_page_print_what_it_shows() {
    if !can_be_typed() {
        return;
    }
    let blocks = blocks(include_str!("../../../../../docs/agent.md"));
    let server = NatsServer::start().expect("a server");
    let agent = Agent::start_with(&server, "node-1", "", &[]).await;
    let socket = agent.socket.to_str().expect("text");
    let here = [("/run/scheduler/elect.sock", socket)];

    let stream = session(&blocks, "stop_budget");
    let mut stream = begin(&stream[0], &here);
    stream.shows("promoted");
    type_in(&session(&blocks, "/renew"), &here);
    stream.shows("ended");
    stream.shows("cause");
    assert!(stream.is_over());
    drop(stream);
    comes_true("the end of its stream", async || {
        agent.client().get("/v1/roles/scheduler").status == 404
    })
    .await;

    // The first one of the page.
    let first = session(&blocks, "nats-elect agent");
    let mut stream = begin(&first[1], &here);
    stream.shows("renew_every_seconds");
    assert!(stream.is_over());
}
