//! Many roles over one connection: what they share, and what none of them may take from another.

use std::cell::Cell;

use futures::future::{FutureExt, join_all};
use futures::{StreamExt, stream::FuturesUnordered};
use tokio::task::unconstrained;

use super::*;
use crate::store::stand_in::StandIn;
use nats_elect_core::peer::{PeerReply, PeerRequest, Refusal};

fn to_one() -> PeerRequest {
    PeerRequest::Ready {
        to: Some("b".into()),
        release: None,
        hold_off_ms: None,
        urgent: false,
    }
}

fn refused(why: Refusal) -> PeerReply {
    PeerReply::Refused { why }
}

#[tokio::test]
async fn reads_that_wait_for_the_bucket_at_the_same_time_share_the_request() {
    const READS: usize = 8;
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let names: Vec<_> = (0..READS)
        .map(|number| role(&format!("r{number}")))
        .collect();
    let requests = Cell::new(0);
    let reading = join_all(names.iter().map(|name| bucket.snapshot(name, TIMEOUT)));
    let answering = async {
        let mut keys = Vec::new();
        while keys.len() < 2 * READS {
            keys.push(stand_in.next().await);
        }
        for key in keys {
            stand_in.show(key, None).await;
        }
        loop {
            stand_in.tell_of_bucket("2026-11-05T10:20:31Z").await;
            requests.set(requests.get() + 1);
        }
    };
    tokio::select! {
        snapshots = reading => {
            let epochs: Vec<_> = snapshots.into_iter().map(|it| it.unwrap().epoch).collect();
            assert!(epochs.iter().all(Option::is_some));
        }
        () = answering => {}
    }
    // Answers to keys may come one by one, and each asks for what came after its own.
    assert!(requests.get() < READS, "each of them asked for itself");
}

#[tokio::test]
async fn reads_take_turns() {
    let lab = Lab::new().await;
    let mut turns = FuturesUnordered::new();
    for _ in 0..1000 {
        turns.push(lab.bucket.turn_to_read());
    }
    let mut held = Vec::new();
    // A task yields after a hundred polls or so, and a turn would seem to be taken.
    while let Some(turn) = unconstrained(turns.next()).now_or_never() {
        held.push(turn.unwrap().unwrap());
    }
    assert!((1..1000).contains(&held.len()), "{} at once", held.len());
    held.pop();
    drop(turns.next().await.unwrap().unwrap());
}

#[tokio::test]
async fn each_question_hears_its_own_answers_at_one_subscription() {
    let lab = Lab::new().await;
    let other = connect(&lab.server).await;
    let mut questions = other.subscribe("nats-elect.leaders.*.b").await.unwrap();
    // An echo proves that the server knows of the subscription.
    let echo = "nats-elect.leaders.echo.b";
    other.publish(echo, "".into()).await.unwrap();
    questions.next().await.unwrap();
    let (r, s, question) = (role("r"), role("s"), to_one());
    let answering = async {
        let mut replies = Vec::new();
        for _ in 0..2 {
            let asked = questions.next().await.unwrap();
            replies.push((asked.subject.to_string(), asked.reply.unwrap().to_string()));
        }
        replies.sort();
        let [(of_r, to_r), (_, to_s)] = &replies[..] else {
            panic!("two questions");
        };
        assert_eq!(of_r, "nats-elect.leaders.r.b");
        let (inbox, number) = to_r.rsplit_once('.').unwrap();
        assert_eq!(inbox, to_s.rsplit_once('.').unwrap().0);
        let next = u128::from_str_radix(number, 16).unwrap().wrapping_add(1);
        let yielding = PeerReply::Yielding.to_json();
        for guess in [format!("{inbox}.{next:032x}"), format!("{inbox}.x")] {
            other.publish(guess, yielding.clone().into()).await.unwrap();
        }
        // What is no answer ends no question.
        other.publish(to_r.clone(), "?".into()).await.unwrap();
        for (to, why) in [(to_s, Refusal::Busy), (to_r, Refusal::Paused)] {
            let answer = refused(why).to_json();
            other.publish(to.clone(), answer.into()).await.unwrap();
        }
        other.flush().await.unwrap();
    };
    let (of_r, of_s, ()) = tokio::join!(
        lab.bucket.inquire_of_one(&r, &question, TIMEOUT),
        lab.bucket.inquire_of_one(&s, &question, TIMEOUT),
        answering,
    );
    assert_eq!(of_r, Some(refused(Refusal::Paused)));
    assert_eq!(of_s, Some(refused(Refusal::Busy)));
}

#[tokio::test]
async fn a_question_to_some_is_over_when_each_has_answered_or_is_not_there() {
    let lab = Lab::new().await;
    let other = connect(&lab.server).await;
    let heirs = [1, 2, 3].map(uuid::Uuid::from_u128);
    let listens = |heir| {
        let other = other.clone();
        async move {
            other
                .subscribe(format!("nats-elect.leaders.r.{heir}"))
                .await
        }
    };
    let first = listens(heirs[0]).await.unwrap();
    let second = listens(heirs[1]).await.unwrap();
    // Nobody else is asked.
    let mut all = other.subscribe("nats-elect.leaders.r").await.unwrap();
    // An echo proves that the server knows of the subscriptions.
    other
        .publish("nats-elect.leaders.r", "".into())
        .await
        .unwrap();
    all.next().await.unwrap();
    let answering = async {
        let mut asked = first.take(1).chain(second.take(1));
        while let Some(question) = asked.next().await {
            let answer = refused(Refusal::Paused).to_json();
            let reply = question.reply.unwrap();
            other.publish(reply, answer.into()).await.unwrap();
        }
    };
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let heard = move |answer| tell.send(answer).unwrap();
    let among = heirs.into_iter().collect();
    let question = PeerRequest::Ready {
        to: None,
        release: None,
        hold_off_ms: None,
        urgent: false,
    };
    let r = role("r");
    let asking = lab
        .bucket
        .inquire(&r, &question, among, TIMEOUT * 100, heard);
    let asked = async { tokio::join!(asking, answering) };
    tokio::time::timeout(TIMEOUT, asked).await.expect("no wait");
    for _ in 0..2 {
        assert_eq!(told.recv().await, Some(refused(Refusal::Paused)));
    }
    assert_eq!(told.recv().await, None);
    assert!(unconstrained(all.next()).now_or_never().is_none());
}
