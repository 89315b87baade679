//! A statement as bytes: the JSON that a proof carries, and the bytes that are signed.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use nats_elect::{FencingToken, LeaderStatement, RoleName};
use nats_elect_core::name::{BucketName, InstanceId};

/// The beginning of the signed bytes.
///
/// The first byte occurs in no UTF-8 text. With the same kind of key, a NATS client signs any text
/// that a server sends it as a nonce. Tokens that are signed with nkeys are text too. So no server
/// can have a proof signed that way, and no other data that was ever signed with the key is
/// accepted as a proof.
const CONTEXT: &[u8] = b"\xffnats-elect leader proof 1\0";

/// The JSON of a proof: these fields in this order, without white space.
#[derive(Serialize, Deserialize)]
#[serde(remote = "LeaderStatement")]
struct Json {
    #[serde(deserialize_with = "bucket")]
    bucket: String,
    role: RoleName,
    fencing_token: FencingToken,
    #[serde(deserialize_with = "instance_id")]
    instance_id: String,
    incarnation: Uuid,
    priority: i64,
    meta: BTreeMap<String, String>,
    #[serde(rename = "issued_at_ms", with = "millis")]
    issued_at: SystemTime,
    #[serde(rename = "expires_at_ms", with = "millis")]
    expires_at: SystemTime,
    #[serde(rename = "key")]
    signer: String,
}

fn bucket<'de, D: Deserializer<'de>>(json: D) -> Result<String, D::Error> {
    BucketName::deserialize(json).map(|name| name.to_string())
}

fn instance_id<'de, D: Deserializer<'de>>(json: D) -> Result<String, D::Error> {
    InstanceId::deserialize(json).map(|id| id.to_string())
}

/// Times as milliseconds since the Unix epoch, up to the end of the year 9999. Arithmetic with them
/// can't overflow.
mod millis {
    use std::time::{Duration, SystemTime};

    use serde::de::{Error, Unexpected};
    use serde::{Deserialize, Deserializer, Serializer};

    const LAST: u64 = 253_402_300_799_999;

    pub fn serialize<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH);
        let millis = since_epoch.unwrap_or_default().as_millis();
        to.serialize_u64(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SystemTime, D::Error> {
        match u64::deserialize(from)? {
            millis @ ..=LAST => Ok(SystemTime::UNIX_EPOCH + Duration::from_millis(millis)),
            other => Err(D::Error::invalid_value(
                Unexpected::Unsigned(other),
                &"a time before the year 10000",
            )),
        }
    }
}

/// Returns the bytes of the statement.
pub fn encode(statement: &LeaderStatement) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Neither the fields nor a vector can refuse.
    let _ = Json::serialize(statement, &mut serde_json::Serializer::new(&mut bytes));
    bytes
}

/// Returns the statement of these bytes.
///
/// Returns `None` if the bytes are not exactly the result of [`encode`], for instance because of a
/// field that is unknown here. One statement has one form, and one form has one reading.
pub fn decode(bytes: &[u8]) -> Option<LeaderStatement> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let statement = Json::deserialize(&mut json).ok()?;
    let lasts = statement.issued_at < statement.expires_at;
    (lasts && encode(&statement) == bytes).then_some(statement)
}

/// Returns the bytes that are signed.
pub fn signed(statement: &[u8]) -> Vec<u8> {
    [CONTEXT, statement].concat()
}
