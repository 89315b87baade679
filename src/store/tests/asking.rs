//! The requests to JetStream, their order, and the interpretation of the answers.

use serde_json::json;

use super::*;
use crate::store::request::READ_AGAIN;
use crate::store::stand_in::StandIn;
use nats_elect_core::event::FailureKind;

const OLD: &str = "2026-11-05T10:20:30Z";
const NEW: &str = "2026-11-05T10:20:31Z";

#[tokio::test]
async fn the_bucket_is_asked_for_after_both_keys_were_answered() {
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let old = bucket.info().unwrap().epoch;
    let r = role("r");
    let answering = async {
        // Both keys at once: neither request waits for the other.
        let questions = [stand_in.next().await, stand_in.next().await];
        // Any other request made along with them arrives before this message, because the same
        // connection sends it after them.
        let client = bucket.client();
        client.publish("$mark", "".into()).await.unwrap();
        assert_eq!(stand_in.next().await.subject(), "$mark");
        for question in questions {
            stand_in.show(question, None).await;
        }
        stand_in.tell_of_bucket(NEW).await;
    };
    let (snapshot, ()) = tokio::join!(bucket.snapshot(&r, TIMEOUT), answering);
    assert!(snapshot.unwrap().epoch > Some(old));
}

#[tokio::test]
async fn a_bucket_is_unfit_while_an_old_server_answers_for_it() {
    let mut stand_in = StandIn::new().await;
    let client = connect(&stand_in.server).await;
    // The answer of 2.10.26 for a bucket that 2.11 created.
    let old = || json!({ "_nats.req.level": "0" });
    let too_old = StoreError::ServerTooOld {
        version: "2.10 or older".into(),
    };
    let (opened, ()) = tokio::join!(
        open(&client, IfMissing::Fail),
        stand_in.tell_of_bucket_as(OLD, old())
    );
    assert_eq!(opened.unwrap_err(), too_old);
    let bucket = stand_in.bucket().await;
    // The bucket moves to an old server, and back.
    let (looked, ()) = tokio::join!(
        bucket.inspect(TIMEOUT),
        stand_in.tell_of_bucket_as(OLD, old())
    );
    let error = looked.unwrap_err();
    assert_eq!(error, too_old);
    assert_eq!(error.kind(), FailureKind::BucketUnfit);
    let (looked, ()) = tokio::join!(bucket.inspect(TIMEOUT), stand_in.tell_of_bucket(OLD));
    looked.unwrap();
}

/// A claim that receives this answer.
async fn claimed_by(
    stand_in: &mut StandIn,
    bucket: &Bucket,
    answer: &str,
) -> Result<u64, StoreError> {
    let (name, claim) = (role("r"), record(1));
    let answering = async {
        let asked = stand_in.next().await;
        stand_in.answer(asked, answer).await;
    };
    tokio::join!(bucket.put_record(&name, 5, &claim, TIMEOUT), answering).0
}

#[tokio::test]
async fn a_confirmation_counts_only_from_this_bucket_and_above_the_expected_sequence() {
    let mut stand_in = StandIn::new().await;
    for domain in [None, Some("hub")] {
        stand_in.domain = domain;
        let bucket = stand_in.bucket().await;
        let domain = domain.map_or(String::new(), |it| format!(r#","domain":"{it}""#));
        let good = format!(r#"{{"stream":"KV_leaders","seq":6{domain}}}"#);
        let claimed = claimed_by(&mut stand_in, &bucket, &good).await;
        assert_eq!(claimed, Ok(6));
        for forged in [
            format!(r#"{{"stream":"other","seq":6{domain}}}"#),
            format!(r#"{{"stream":"KV_leaders","seq":5{domain}}}"#),
            format!(r#"{{"stream":"KV_leaders","seq":0{domain}}}"#),
            format!(r#"{{"seq":6{domain}}}"#),
            r#"{"stream":"KV_leaders","seq":6,"domain":"leaf"}"#.to_owned(),
            String::new(),
        ] {
            let claimed = claimed_by(&mut stand_in, &bucket, &forged).await;
            // The claim may be stored all the same.
            assert!(
                matches!(claimed, Err(StoreError::Rejected { code: 0, .. })),
                "{forged}: {claimed:?}"
            );
        }
    }
    let untold = stand_in.bucket().await;
    let elsewhere = r#"{"stream":"KV_leaders","seq":6}"#;
    let claimed = claimed_by(&mut stand_in, &untold, elsewhere).await;
    assert!(claimed.is_err(), "{claimed:?}");
}

#[tokio::test]
async fn an_answer_at_another_subject_is_ignored() {
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let r = role("r");
    let mut subjects = Vec::new();
    for sequence in [8, 9] {
        let claim = record(sequence);
        let answering = async {
            let asked = stand_in.next().await;
            let subject = asked.reply().to_owned();
            let (mailbox, number) = subject.rsplit_once('.').unwrap();
            let guesses = subjects.iter().cloned().chain([
                format!(
                    "{mailbox}.{:032x}",
                    u128::from_str_radix(number, 16).unwrap() + 1
                ),
                format!("{mailbox}.1"),
                format!("{mailbox}.x"),
                mailbox.to_owned(),
                "_INBOX.x".to_owned(),
            ]);
            for guess in guesses {
                let forged = r#"{"stream":"KV_leaders","seq":7}"#;
                stand_in.client.publish(guess, forged.into()).await.unwrap();
            }
            stand_in.store(asked, sequence).await;
            subjects.push(subject);
        };
        let (claimed, ()) = tokio::join!(bucket.put_record(&r, 5, &claim, TIMEOUT), answering);
        assert_eq!(claimed, Ok(sequence));
    }
    let parts = |subject: &str| {
        let parts: Vec<_> = subject.split('.').map(str::to_owned).collect();
        assert_eq!(parts[0], "_INBOX");
        assert!(parts[1..].iter().all(|part| part.len() == 32), "{parts:?}");
        parts
    };
    let (first, second) = (parts(&subjects[0]), parts(&subjects[1]));
    assert_eq!(first[1], second[1], "one mailbox");
    assert_ne!(first[2], second[2], "for each question another place in it");
}

#[tokio::test]
async fn a_cancelled_request_leaves_nothing_behind() {
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let r = role("r");
    let short = Duration::from_millis(50);
    let late = bucket.put_record(&r, 0, &record(1), short).await;
    assert!(matches!(late, Err(StoreError::Timeout { .. })), "{late:?}");
    let claim = record(2);
    // Dropped when a request has arrived, which may take more than one poll.
    tokio::select! {
        answered = bucket.put_record(&r, 0, &claim, TIMEOUT) => panic!("{answered:?}"),
        _ = stand_in.next() => {}
    }
    assert_eq!(bucket.mailbox().awaited(), 0);
}

/// While a stream of a cluster has no leader, nobody answers.
#[tokio::test]
async fn a_read_is_sent_until_it_is_answered() {
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let answering = async {
        let dropped = stand_in.next().await;
        for _ in 0..2 {
            assert_eq!(stand_in.any().await.reply(), dropped.reply());
        }
        stand_in.show(dropped, Some(7)).await;
    };
    let reading = bucket.last("$KV.leaders.x".into(), TIMEOUT);
    let (read, ()) = tokio::join!(reading, answering);
    assert_eq!(read.unwrap().unwrap().sequence, 7);
    assert_eq!(bucket.mailbox().awaited(), 0);
}

/// It may be stored without an answer.
#[tokio::test]
async fn a_write_is_sent_once() {
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let (r, claim) = (role("r"), record(1));
    let late = bucket.put_record(&r, 0, &claim, READ_AGAIN.after(2)).await;
    assert!(matches!(late, Err(StoreError::Timeout { .. })), "{late:?}");
    let client = bucket.client();
    client.publish("$mark", "".into()).await.unwrap();
    let mut asked = Vec::new();
    while asked.last().is_none_or(|last| last != "$mark") {
        let next = stand_in.any().await.subject().to_owned();
        // On a busy machine the bucket was asked for again, too.
        asked.extend((!next.starts_with("$JS.API.")).then_some(next));
    }
    assert_eq!(asked, ["$KV.leaders.r", "$mark"]);
}

#[test]
fn a_handle_works_after_the_runtime_that_opened_it_has_ended() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (lasting, other) = (runtime(), runtime());
    let lab = lasting.block_on(async {
        let server = NatsServer::start().unwrap();
        let client = connect(&server).await;
        (server, client)
    });
    let (bucket, info) = other.block_on(open(&lab.1, CREATE)).unwrap();
    drop(other);
    let epoch = lasting.block_on(bucket.epoch(TIMEOUT));
    assert_eq!(epoch, Ok(info.epoch));
    lasting.block_on(async { drop(lab) });
}
