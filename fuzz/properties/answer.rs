//! What the server answers: any bytes, any JSON of about the right shape.

use arbitrary::{Arbitrary, Result, Unstructured};
use data_encoding::BASE64;
use nats_elect_core::name::BucketName;
use nats_elect_core::record::Content;

use crate::store::{BucketInfo, StoreError, bucket_answer, fence_answer, role_answer};
use serde_json::{Value, json};

use super::{message, record};

/// The bytes as an answer, and as what one is made of.
pub fn holds(data: &[u8]) {
    read(data);
    let mut u = Unstructured::new(data);
    if let Ok(answer) = made_up(&mut u) {
        read(answer.to_string().as_bytes());
    }
}

fn read(answer: &[u8]) {
    let bucket = BucketName::new("leaders").expect("a name");
    let role = role_answer(answer, &bucket);
    let fence = fence_answer(answer, &bucket);
    match (&role, &fence) {
        (Ok(Some(role)), Ok(Some(fence))) => {
            assert_eq!(role.revision, fence.revision);
            if let Content::Record(_) = role.content {
                record::is_sound(None, &role.content);
            }
        }
        (role, fence) => assert_eq!(role.as_ref().err(), fence.as_ref().err()),
    }
    match bucket_answer(answer, &bucket) {
        Ok(info) => is_sound(&info),
        Err(error) => is_told(&error),
    }
    if let Err(error) = role {
        is_told(&error);
    }
}

fn is_sound(info: &BucketInfo) {
    assert!(info.max_age.is_none_or(|max_age| !max_age.is_zero()));
    assert!(info.notes.iter().all(|note| !note.risk.is_empty()));
}

fn is_told(error: &StoreError) {
    assert!(!error.to_string().is_empty());
    let _ = (error.kind(), error.is_transient());
}

fn made_up(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=3)? {
        0 => json!({ "error": {
            "code": u.int_in_range(0..=1100u64)?,
            "err_code": match u.int_in_range(0..=3)? {
                0 => 10071,
                1 => 10037,
                2 => u.int_in_range(10_000..=10_250u64)?,
                _ => message::number(u)?,
            },
            "description": if u.arbitrary()? {
                format!("wrong last sequence: {}", <&str>::arbitrary(u)?)
            } else {
                String::arbitrary(u)?
            },
        }}),
        1 => json!({ "message": {
            "subject": "$KV.leaders.r",
            "seq": message::number(u)?,
            "data": base64(u, message::value)?,
            "hdrs": base64(u, header_block)?,
            "time": moment(u)?,
        }}),
        _ => json!({
            "created": moment(u)?,
            "config": config(u)?,
            "state": { "messages": message::number(u)?, "first_seq": message::number(u)? },
        }),
    })
}

fn config(u: &mut Unstructured<'_>) -> Result<Value> {
    let mut config = json!({ "subjects": ["$KV.leaders.>"] });
    for _ in 0..u.int_in_range(0..=8)? {
        let name = *u.choose(&[
            "retention",
            "max_msgs",
            "max_bytes",
            "max_age",
            "max_msgs_per_subject",
            "max_msg_size",
            "discard",
            "discard_new_per_subject",
            "storage",
            "num_replicas",
            "no_ack",
            "sealed",
            "first_seq",
            "allow_atomic",
            "allow_msg_counter",
            "consumer_limits",
            "persist_mode",
            "republish",
            "mirror",
            "sources",
            "subject_transform",
            "subjects",
        ])?;
        config[name] = match u.int_in_range(0..=6)? {
            0 | 1 => json!(message::number(u)?),
            2 => json!(i64::arbitrary(u)?),
            3 => json!(bool::arbitrary(u)?),
            4 => json!(<&str>::arbitrary(u)?),
            5 => json!([<&str>::arbitrary(u)?, "$KV.*.>"]),
            _ => Value::Null,
        };
    }
    Ok(config)
}

fn moment(u: &mut Unstructured<'_>) -> Result<String> {
    Ok(match u.int_in_range(0..=3)? {
        0 => String::arbitrary(u)?,
        1 => format!("{:04}-01-01T00:00:00Z", u.int_in_range(0..=9999)?),
        _ => format!("2026-11-05T10:20:30.{}Z", u.int_in_range(0..=999_999_999)?),
    })
}

/// Headers as they stand on the wire, some of them broken.
fn header_block(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut block = if u.ratio(9, 10)? { "NATS/1.0" } else { "" }.to_owned();
    if u.ratio(1, 5)? {
        block += <&str>::arbitrary(u)?;
    }
    block += "\r\n";
    for (name, values) in message::headers(u)?
        .iter()
        .flat_map(async_nats::HeaderMap::iter)
    {
        for value in values {
            block.extend([name.as_ref(), ": ", value.as_str(), "\r\n"]);
        }
    }
    if u.ratio(1, 4)? {
        block += <&str>::arbitrary(u)?;
    }
    Ok((block + "\r\n").into_bytes())
}

fn base64(
    u: &mut Unstructured<'_>,
    bytes: impl FnOnce(&mut Unstructured<'_>) -> Result<Vec<u8>>,
) -> Result<String> {
    if u.ratio(1, 10)? {
        return String::arbitrary(u);
    }
    Ok(BASE64.encode(&bytes(u)?))
}
