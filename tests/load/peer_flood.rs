//! Floods of the questions that instances ask each other, and of answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::StreamExt;

use crate::MACHINE;
use crate::support::instance::{never, standing};
use crate::support::{BUCKET, ROLE, comes_true, leased_for, ms, served};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_questions_costs_a_leader_nothing() {
    let _machine = MACHINE.lock().await;
    let (server, journal) = served();
    let a = standing("a", server.url(), &journal, leased_for(ms(3000))).await;
    a.wait_until_leader().await;
    journal.started(ROLE, 0).await;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_answers_costs_a_leader_nothing() {
    let _machine = MACHINE.lock().await;
    let (server, journal) = served();
    let client = async_nats::connect(server.url()).await.expect("connect");
    let questions = client.subscribe(format!("nats-elect.{BUCKET}.{ROLE}"));
    let mut questions = questions.await.expect("subscribe");
    let a = standing("a", server.url(), &journal, leased_for(ms(3000))).await;
    a.wait_until_leader().await;
    journal.started(ROLE, 0).await;
    let told = Arc::new(AtomicU64::new(0));
    let tell = Arc::clone(&told);
    let flooding = tokio::spawn(async move {
        while let Some(question) = questions.next().await {
            let answers = question.reply.expect("a subject for answers");
            for _ in 0..100_000 {
                let number = tell.fetch_add(1, Ordering::Relaxed);
                let incarnation = uuid::Uuid::from_u64_pair(0, number);
                let answer = format!(
                    r#"{{"answer":"ready","contender":{{"id":"liar","incarnation":"{incarnation}","priority":{number}}}}}"#
                );
                let answered = client.publish(answers.clone(), answer.into());
                answered.await.expect("published");
            }
        }
    });
    comes_true("a flood", async || told.load(Ordering::Relaxed) > 0).await;
    never("an end of the term", ms(4000), || {
        journal.terms(ROLE).len() != 1 || !a.is_leader()
    })
    .await;
    comes_true("100,000 answers", async || {
        told.load(Ordering::Relaxed) >= 100_000
    })
    .await;
    flooding.abort();
    assert!(a.is_leader());
}
