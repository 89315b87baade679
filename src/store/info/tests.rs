use serde_json::{Value, json};

use super::*;

fn assess(config: Value) -> Result<BucketInfo, StoreError> {
    let mut whole =
        json!({ "subjects": ["$KV.b.>"], "max_msgs_per_subject": 1, "num_replicas": 3 });
    if let (Some(whole), Value::Object(config)) = (whole.as_object_mut(), config) {
        whole.extend(config);
    }
    let stream = json!({ "created": "2026-11-05T10:20:30.123456789Z", "config": whole });
    let stream: StreamInfo = serde_json::from_value(stream).unwrap();
    stream.assess(&BucketName::new("b").unwrap())
}

#[test]
fn the_epoch_has_every_digit_of_the_creation_time() {
    assert_eq!(assess(json!({})).unwrap().epoch, 1_793_874_030_123_456_789);
}

#[test]
fn a_bucket_of_ours_on_three_servers_has_no_notes() {
    let info = assess(json!({ "first_seq": 1_793_874_030_000_000_u64, "allow_atomic": true }));
    let info = info.unwrap();
    assert!(info.atomic && info.unique_sequences, "{info:?}");
    assert_eq!((info.replicas, info.max_age), (3, None));
    assert_eq!(info.notes, []);
}

#[test]
fn a_review_names_each_risky_setting_and_its_risk() {
    let review = |bucket: &str, answer: &str| BucketReview::of_answer(bucket, answer.as_bytes());
    let answer = r#"{"type":"x","created":"2026-11-05T10:20:30Z","config":{"subjects":["$KV.b.>"],"max_age":2000000000,
        "max_msgs_per_subject":1,"num_replicas":3,"first_seq":1793874030000000,"metadata":{"_nats.ver":"2.12.8"}}}"#;
    let told = review("b", answer).unwrap().expect("a review");
    assert_eq!((told.unfit, told.room, told.spare), (None, None, None));
    let settings: Vec<_> = told.notes.iter().map(|note| note.setting).collect();
    assert_eq!(settings, ["max_age"]);
    let other = review("c", answer).unwrap().expect("a review");
    assert!(other.unfit.is_some(), "it listens to other keys");
    assert_eq!(review("b", "{}").unwrap(), None);
    assert!(review("no.bucket", answer).is_err());
}

#[test]
fn a_bucket_that_drops_old_keys_is_unfit_and_told_with_what_mends_it() {
    let assessed = assess(json!({ "max_msgs": 20 }));
    let Err(StoreError::BucketUnfit(why)) = assessed else {
        panic!("{assessed:?}");
    };
    assert!(
        why.contains("`nats stream edit KV_b --max-msgs=-1"),
        "{why}"
    );
}

#[test]
fn the_tightest_limit_determines_the_room_for_roles() {
    for (replicas, max_msgs, max_bytes, room, spare) in [
        (1, -1, -1, None, None),
        (1, 0, 0, None, None),
        (1, 7, -1, Some(3), Some(2)),
        (1, 7, 2048, Some(2), Some(1)),
        (1, -1, 1023, Some(0), Some(0)),
        (1, 1, i64::MAX, Some(0), Some(0)),
        (3, 7, -1, Some(2), Some(1)),
        (3, 2, -1, Some(0), Some(0)),
        (3, -1, 1535, Some(0), Some(0)),
    ] {
        let config = json!({
            "max_msgs": max_msgs,
            "max_bytes": max_bytes,
            "num_replicas": replicas,
        });
        let state = json!({ "messages": 3, "bytes": 900 });
        let answer = json!({ "created": "", "config": config, "state": state });
        let told = BucketReview::of_answer("b", answer.to_string().as_bytes());
        let told = told.unwrap().expect("a review");
        assert_eq!((told.room, told.spare), (room, spare), "{config}");
    }
}

/// The answers of real servers about one bucket, and about buckets that another version created.
#[test]
fn a_bucket_that_an_old_server_answers_for_is_unfit() {
    let review = |metadata: Value| {
        let config = json!({ "subjects": ["$KV.b.>"], "metadata": metadata });
        let answer = json!({ "created": "2026-11-05T10:20:30Z", "config": config });
        let answer = answer.to_string();
        let review = BucketReview::of_answer("b", answer.as_bytes()).unwrap();
        review.expect("a review").unfit
    };
    for fit in [
        json!({ "_nats.level": "1", "_nats.ver": "2.11.10" }),
        json!({ "_nats.level": "1", "_nats.req.level": "0", "_nats.ver": "2.11.10" }),
        json!({ "_nats.level": "5", "_nats.req.level": "0", "_nats.ver": "2.15.1" }),
    ] {
        assert_eq!(review(fit), None);
    }
    for (old, version) in [
        (
            json!({ "_nats.level": "1", "_nats.ver": "2.11.1" }),
            "2.11.1",
        ),
        // 2.10.26: a bucket of its own, and a bucket that 2.11 created.
        (Value::Null, "2.10 or older"),
        (json!({ "_nats.req.level": "0" }), "2.10 or older"),
    ] {
        let unfit = review(old).expect("unfit");
        assert!(unfit.contains(version), "{unfit}");
    }
}

#[test]
fn a_strange_creation_time_is_an_error() {
    for created in ["", "yesterday", "1066-10-14T09:00:00Z"] {
        let json = json!({ "created": created, "config": {} });
        let stream: StreamInfo = serde_json::from_value(json).unwrap();
        assert!(stream.epoch().is_err(), "{created}");
    }
}
