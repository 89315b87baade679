//! A statement as bytes: the JSON that a proof carries, and the bytes that are signed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::model::statement::Statement;
use nats_elect_core::name::{BucketName, InstanceId, RoleName};

/// The beginning of the signed bytes.
///
/// The first byte occurs in no UTF-8 text. With the same kind of key, a NATS client signs any text
/// that a server sends it as a nonce. Tokens that are signed with nkeys are text too. So no server
/// can have a proof signed that way, and no other data that was ever signed with the key is
/// accepted as a proof.
pub(super) const CONTEXT: &[u8] = b"\xffnats-elect leader proof 1\0";

/// The latest time in a statement, in milliseconds: the end of the year 9999. Arithmetic with it
/// can't overflow.
const LAST_MILLI: u64 = 253_402_300_799_999;

/// The JSON, with its fields in this order and without white space.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    bucket: BucketName,
    role: RoleName,
    fencing_token: String,
    instance_id: InstanceId,
    incarnation: Uuid,
    priority: i64,
    meta: BTreeMap<String, String>,
    issued_at_ms: u64,
    expires_at_ms: u64,
    key: String,
}

/// Returns the bytes of the statement of this key's owner.
pub(super) fn encode(statement: &Statement, key: &str) -> Vec<u8> {
    let json = Json {
        bucket: statement.bucket.clone(),
        role: statement.role.clone(),
        fencing_token: statement.fencing_token.to_sortable(),
        instance_id: statement.instance_id.clone(),
        incarnation: statement.incarnation,
        priority: statement.priority,
        meta: statement.meta.clone(),
        issued_at_ms: statement.issued_at,
        expires_at_ms: statement.expires_at,
        key: key.to_owned(),
    };
    serde_json::to_vec(&json).unwrap_or_default()
}

/// Returns the statement of these bytes, and the key that is named as its signer.
///
/// Returns `None` if the bytes are not exactly the result of [`encode`]. One statement has one
/// form, and one form has one reading.
pub(super) fn decode(bytes: &[u8]) -> Option<(Statement, String)> {
    let json: Json = serde_json::from_slice(bytes).ok()?;
    let statement = Statement {
        bucket: json.bucket,
        role: json.role,
        fencing_token: json.fencing_token.parse().ok()?,
        instance_id: json.instance_id,
        incarnation: json.incarnation,
        priority: json.priority,
        meta: json.meta,
        issued_at: json.issued_at_ms,
        expires_at: json.expires_at_ms,
    };
    let lasts = statement.issued_at < statement.expires_at && statement.expires_at <= LAST_MILLI;
    (lasts && encode(&statement, &json.key) == bytes).then_some((statement, json.key))
}

/// Returns the bytes that are signed.
pub(super) fn signed(statement: &[u8]) -> Vec<u8> {
    [CONTEXT, statement].concat()
}
