//! A flood of the questions that instances ask each other.

use nats_elect_testing::NatsServer;

use crate::MACHINE;
use crate::support::instance::{instance, never};
use crate::support::journal::Journal;
use crate::support::{BUCKET, ROLE, leased_for, ms};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_questions_costs_a_leader_nothing() {
    let _machine = MACHINE.lock().await;
    let server = NatsServer::start().expect("start");
    let journal = Journal::default();
    let a = instance("a", server.url(), &journal).standing(leased_for(ms(3000)));
    let a = a.start().await;
    a.wait_until_leader().await;
    let client = async_nats::connect(server.url()).await.expect("connect");
    let flooding = tokio::spawn(async move {
        let subject = format!("nats-elect.{BUCKET}.{ROLE}");
        let reply = format!("nats-elect.{BUCKET}._answer.x");
        let question = br#"{"ask":"ready","to":null}"#.as_slice();
        for _ in 0..200_000 {
            let asked = client.publish_with_reply(subject.clone(), reply.clone(), question.into());
            asked.await.expect("published");
        }
    });
    never("an end of the term", ms(4000), || {
        journal.terms(ROLE).len() != 1 || !a.is_leader()
    })
    .await;
    flooding.await.expect("no panic");
}
