//! A statement as bytes: the JSON that a proof carries, and the bytes that are signed.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::model::statement::Statement;

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

/// The JSON of a proof. It has no white space.
#[derive(Serialize, Deserialize)]
struct Json<'a> {
    #[serde(flatten)]
    statement: Cow<'a, Statement>,
    key: Cow<'a, str>,
}

/// Returns the bytes of the statement of this key's owner.
pub(super) fn encode(statement: &Statement, key: &str) -> Vec<u8> {
    let json = Json {
        statement: Cow::Borrowed(statement),
        key: Cow::Borrowed(key),
    };
    serde_json::to_vec(&json).unwrap_or_default()
}

/// Returns the statement of these bytes, and the key that is named as its signer.
///
/// Returns `None` if the bytes are not exactly the result of [`encode`], for instance because of a
/// field that is unknown here. One statement has one form, and one form has one reading.
pub(super) fn decode(bytes: &[u8]) -> Option<(Statement, String)> {
    let json: Json = serde_json::from_slice(bytes).ok()?;
    let (statement, key) = (json.statement.into_owned(), json.key.into_owned());
    let lasts = statement.issued_at < statement.expires_at && statement.expires_at <= LAST_MILLI;
    (lasts && encode(&statement, &key) == bytes).then_some((statement, key))
}

/// Returns the bytes that are signed.
pub(super) fn signed(statement: &[u8]) -> Vec<u8> {
    [CONTEXT, statement].concat()
}
