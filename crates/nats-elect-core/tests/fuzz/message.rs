//! Values as anyone may write them to the bucket.

use arbitrary::{Arbitrary, Result, Unstructured};
use nats_elect_core::record::Nonce;
use nats_elect_core::release::ReleaseSecret;
use uuid::Uuid;

/// One of few, so that they meet.
pub fn nonce(u: &mut Unstructured<'_>) -> Result<Nonce> {
    Ok(Nonce {
        incarnation: Uuid::from_u128(u.int_in_range(0..=2)?),
        beat: number(u)?,
    })
}

/// One of few, so that a release meets the record that shows its hash.
pub fn secret(u: &mut Unstructured<'_>) -> Result<ReleaseSecret> {
    Ok(ReleaseSecret::new(u.int_in_range(0..=3)?))
}

/// Mostly small, sometimes at the end of what there is.
pub fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.int_in_range(0..=7)? {
        0..=4 => u.int_in_range(0..=20)?,
        5 => u64::MAX - u.int_in_range(0..=2)?,
        6 => 1 << u.int_in_range(0..=63)?,
        _ => u.arbitrary()?,
    })
}

/// A value: a record as one may look, or any bytes.
pub fn value(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    if u.ratio(1, 3)? {
        return Ok(<&[u8]>::arbitrary(u)?.to_vec());
    }
    let mut fields = Vec::new();
    for _ in 0..u.int_in_range(0..=8)? {
        let name = *u.choose(&[
            "id",
            "token",
            "priority",
            "meta",
            "v",
            "ttl_ms",
            "incarnation",
            "beat",
            "release",
            "x",
        ])?;
        let value = if name == "release" && u.ratio(3, 4)? {
            json(&secret(u)?.hash().to_string())
        } else {
            scalar(u, 0)?
        };
        fields.push(format!("{}:{value}", json(name)));
    }
    Ok(format!("{{{}}}", fields.join(",")).into_bytes())
}

fn scalar(u: &mut Unstructured<'_>, depth: usize) -> Result<String> {
    Ok(match u.int_in_range(0..=11)? {
        0..=2 => number(u)?.to_string(),
        3 => i64::arbitrary(u)?.to_string(),
        4 => (*u.choose(&["1.5", "-0", "1e400", "-1", "18446744073709551616", "1e-3"])?).to_owned(),
        5 => (*u.choose(&["null", "true", "false", ""])?).to_owned(),
        6 | 7 => json(&Uuid::from_u128(u.int_in_range(0..=2)?).to_string()),
        8 if depth < 3 => format!("[{}]", scalar(u, depth + 1)?),
        9 | 10 if depth < 3 => format!(
            "{{{}:{}}}",
            json(<&str>::arbitrary(u)?),
            scalar(u, depth + 1)?
        ),
        _ => json(<&str>::arbitrary(u)?),
    })
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
