//! The contents of the bucket: records of leaders, fence records, delete markers.
//!
//! Any client may have written what is read here. So all of it is hostile until parsed, and no
//! bytes make a parser fail. A value that cannot be understood is [`Content::Opaque`]: its unknown
//! leader is respected like any other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::application::Application;
use crate::heirs::{Heirs, MOST_HEIRS};
use crate::release::{ReleaseHash, ReleaseSecret};
use crate::text::printable;
use crate::token::LeaseToken;

/// The version of the record that this crate writes, in the field `v`.
pub const RECORD_VERSION: u64 = 1;

/// The header of a delete marker by which a leader frees its role at once. Its value is a nonce.
pub const RELEASE_HEADER: &str = "Nats-Elect-Release";

/// The header of a release with the secret whose hash the leader's records show.
pub const RELEASE_SECRET_HEADER: &str = "Nats-Elect-Release-Secret";

/// The header of a release that names the instance that should lead next, by its incarnation.
pub const HEIR_HEADER: &str = "Nats-Elect-Heir";

/// The header of a release with the line of succession, where it names no single heir.
pub const LINE_HEADER: &str = "Nats-Elect-Line";

/// The bounds of a lease that a record may claim: 100 ms to 1 h.
pub const FOREIGN_LEASE: (Duration, Duration) =
    (Duration::from_millis(100), Duration::from_secs(3600));

/// The largest value that is parsed, in bytes.
const MAX_RECORD_BYTES: usize = 64 * 1024;
/// The longest proof that is read, in bytes. A longer one counts as missing.
pub const MAX_PROOF_BYTES: usize = 8 * 1024;
/// The name of one attempt to write. An incarnation never uses a beat twice for the same role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// The incarnation that writes.
    pub incarnation: Uuid,
    /// The number of the attempt within that incarnation.
    pub beat: u64,
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.incarnation, self.beat)
    }
}

impl Nonce {
    /// Parses `incarnation:beat`, as `Display` writes it. Returns `None` for text that is no nonce.
    pub fn parse(text: &str) -> Option<Self> {
        let (incarnation, beat) = text.split_once(':')?;
        Some(Self {
            incarnation: incarnation.parse().ok()?,
            beat: beat.parse().ok()?,
        })
    }
}

/// The record that a leader writes to its role's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The leader's instance id.
    pub id: String,
    /// The term's secret. It is in every record, in full.
    pub token: LeaseToken,
    /// The leader's priority.
    pub priority: i64,
    /// Facts that the leader tells about itself.
    pub meta: BTreeMap<String, String>,
    /// The lease, in whole milliseconds. It counts from the sending of this write.
    pub ttl: Duration,
    /// The nonce of this write.
    pub nonce: Nonce,
    /// The hash of the secret that its release will tell.
    pub release: ReleaseHash,
    /// The candidates that should lead next. They claim the role in this order when its lease is
    /// over.
    pub heirs: Heirs,
    /// The leader's signed statement, if it has a signing key.
    pub proof: Option<String>,
    /// The leader's application. The driver adds it.
    pub application: Option<Arc<Application>>,
}

impl Record {
    /// The JSON value for the bucket.
    pub fn to_json(&self) -> Vec<u8> {
        let application = self.application.as_ref();
        let name = |is_set| {
            application
                .filter(|it| it.is_set == is_set)
                .map(|it| &*it.name)
        };
        json(&RecordValue {
            application: name(true),
            beat: self.nonce.beat,
            heirs: self.heirs,
            id: &self.id,
            incarnation: self.nonce.incarnation,
            meta: &self.meta,
            priority: self.priority,
            program: name(false),
            proof: self.proof.as_deref(),
            release: self.release,
            token: self.token.expose(),
            ttl_ms: millis(self.ttl),
            v: RECORD_VERSION,
        })
    }
}

/// The JSON value of a record. There is one for each heartbeat, so it is written without a tree of
/// values in between.
#[derive(Serialize)]
struct RecordValue<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    application: Option<&'a str>,
    beat: u64,
    #[serde(skip_serializing_if = "Heirs::is_empty")]
    heirs: Heirs,
    id: &'a str,
    incarnation: Uuid,
    meta: &'a BTreeMap<String, String>,
    priority: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<&'a str>,
    release: ReleaseHash,
    token: Uuid,
    ttl_ms: u64,
    v: u64,
}

/// The value of a role's fence key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FenceRecord {
    /// The leader's instance id.
    pub id: String,
    /// The lease of the term's records, in whole milliseconds.
    pub ttl: Duration,
    /// The nonce of this write.
    pub nonce: Nonce,
    /// The hash of the secret that the term's release will tell.
    pub release: ReleaseHash,
}

/// A fence record as read from the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SeenFence {
    /// The nonce of the attempt that wrote it.
    pub nonce: Nonce,
    /// The lease of the term's records, clamped to [`FOREIGN_LEASE`]. `None` if the record tells
    /// none.
    pub ttl: Option<Duration>,
    /// The hash of the secret that the term's release will tell. Records of older versions have
    /// none.
    pub release: Option<ReleaseHash>,
}

impl FenceRecord {
    /// The JSON value for the bucket.
    pub fn to_json(&self) -> Vec<u8> {
        json(&json!({
            "id": self.id,
            "ttl_ms": millis(self.ttl),
            "incarnation": self.nonce.incarnation,
            "beat": self.nonce.beat,
            "release": self.release,
        }))
    }

    /// Parses a fence record. Returns `None` if the value has no nonce: this crate did not write
    /// it.
    pub fn parse(value: &[u8]) -> Option<SeenFence> {
        let object = parse_object(value)?;
        Some(SeenFence {
            nonce: nonce_of(&object)?,
            ttl: lease_of(&object),
            release: release_of(&object),
        })
    }
}

/// A leader's record as read from the bucket. Its lease token is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeenRecord {
    /// The leader's instance id, made printable. It is empty if the record tells none.
    pub id: String,
    /// The leader's priority, or 0 if the record tells none.
    pub priority: i64,
    /// Facts that the leader tells about itself, made printable.
    pub meta: BTreeMap<String, String>,
    /// The lease that it claims, clamped to [`FOREIGN_LEASE`]. `None` if it tells none.
    pub ttl: Option<Duration>,
    /// The start of that instance. Records of other libraries have none.
    pub incarnation: Option<Uuid>,
    /// The number of the attempt. Records of other libraries have none.
    pub beat: Option<u64>,
    /// The hash of the secret that its release will tell. Records of other libraries and of older
    /// versions have none.
    pub release: Option<ReleaseHash>,
    /// The candidates that should lead next.
    pub heirs: Heirs,
    /// The leader's signed statement. It is not verified here.
    pub proof: Option<String>,
    /// The leader's application. Records of other libraries and of older versions have none.
    pub application: Option<Application>,
}

impl SeenRecord {
    /// The nonce of the attempt that wrote it, if it shows both parts.
    pub fn nonce(&self) -> Option<Nonce> {
        Some(Nonce {
            incarnation: self.incarnation?,
            beat: self.beat?,
        })
    }
}

/// The contents of a delete marker with [`RELEASE_HEADER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Release {
    /// The nonce in the header, if it can be read.
    pub nonce: Option<Nonce>,
    /// The incarnation that should lead next, and said that it is ready. The others leave it the
    /// role for a while.
    pub heir: Option<Uuid>,
    /// The candidates that should lead next, where no single one is named.
    pub line: Heirs,
    /// The secret of the term. Its hash shows that the term's leader wrote the release. Older
    /// versions tell none.
    pub secret: Option<ReleaseSecret>,
}

/// The contents of the last message under a role's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// A leader's record.
    Record(Box<SeenRecord>),
    /// A value that is no record. It counts as a leader of whom nothing else is known.
    Opaque,
    /// A delete marker with [`RELEASE_HEADER`]. The role is free if its leader wrote it.
    Release(Release),
    /// A delete marker of another client, or of the server's expiry.
    ForeignMarker,
}

impl Content {
    /// Parses a value that is no delete marker. Fields of the wrong type count as missing.
    pub fn parse(value: &[u8]) -> Self {
        let Some(mut object) = parse_object(value) else {
            return Self::Opaque;
        };
        let nonce = nonce_of(&object);
        let record = SeenRecord {
            id: object
                .get("id")
                .and_then(Value::as_str)
                .map(printable)
                .unwrap_or_default(),
            priority: object.get("priority").and_then(Value::as_i64).unwrap_or(0),
            meta: object.remove("meta").map(meta_of).unwrap_or_default(),
            ttl: lease_of(&object),
            incarnation: nonce
                .map(|n| n.incarnation)
                .or_else(|| incarnation_of(&object)),
            beat: nonce.map(|n| n.beat),
            release: release_of(&object),
            heirs: heirs_of(&object),
            proof: proof_of(&object),
            application: application_of(&object),
        };
        Self::Record(Box::new(record))
    }

    /// The lease of the leader who wrote this, or `untold` if it tells none. `None` if no leader
    /// holds the role by it.
    pub fn lease(&self, untold: Duration) -> Option<Duration> {
        match self {
            Self::Record(record) => Some(record.ttl.unwrap_or(untold)),
            Self::Opaque => Some(untold),
            Self::Release(_) | Self::ForeignMarker => None,
        }
    }

    /// The nonce of the attempt that wrote this, if it shows one.
    pub fn nonce(&self) -> Option<Nonce> {
        match self {
            Self::Record(record) => record.nonce(),
            Self::Release(release) => release.nonce,
            Self::Opaque | Self::ForeignMarker => None,
        }
    }
}

/// The last message under a role's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Its stream sequence.
    pub revision: u64,
    /// Its contents.
    pub content: Content,
}

impl Entry {
    /// Whether both are the same message: at one sequence, from one attempt.
    ///
    /// The sequence alone is not enough. It is used again where a stream loses its end or is
    /// recreated.
    pub fn is(&self, other: &Self) -> bool {
        self.revision == other.revision
            && match (&self.content, &other.content) {
                (Content::Release(_), Content::Release(_)) => true,
                (one, another) if one.nonce().is_none() => one == another,
                (one, another) => one.nonce() == another.nonce(),
            }
    }
}

/// The last message under a role's fence key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FenceEntry {
    /// Its stream sequence.
    pub revision: u64,
    /// Its contents. `None` if it is no fence record of this crate, or a delete marker.
    pub record: Option<SeenFence>,
}

impl FenceEntry {
    /// The nonce of the attempt that wrote it, if it is a fence record of this crate.
    pub fn nonce(&self) -> Option<Nonce> {
        self.record.map(|record| record.nonce)
    }
}

/// A role's two keys at about the same moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// The last message under the role's key. `None` if there is none.
    pub role: Option<Entry>,
    /// The last message under its fence key. `None` if there is none.
    pub fence: Option<FenceEntry>,
    /// The bucket's creation time in nanoseconds since the Unix epoch, read after the keys. `None`
    /// if it was not read.
    pub epoch: Option<u64>,
    /// The last sequence of the bucket, read together with the creation time.
    pub last_sequence: Option<u64>,
}

fn application_of(object: &Map<String, Value>) -> Option<Application> {
    let text = |name| object.get(name).and_then(Value::as_str);
    let set = text("application").map(Application::set);
    set.or_else(|| text("program").map(Application::program))
        .filter(|it| !it.name.is_empty())
}

fn parse_object(value: &[u8]) -> Option<Map<String, Value>> {
    if value.len() > MAX_RECORD_BYTES {
        return None;
    }
    serde_json::from_slice(value).ok()
}

fn incarnation_of(object: &Map<String, Value>) -> Option<Uuid> {
    object.get("incarnation")?.as_str()?.parse().ok()
}

fn nonce_of(object: &Map<String, Value>) -> Option<Nonce> {
    Some(Nonce {
        incarnation: incarnation_of(object)?,
        beat: object.get("beat")?.as_u64()?,
    })
}

fn release_of(object: &Map<String, Value>) -> Option<ReleaseHash> {
    ReleaseHash::parse(object.get("release")?.as_str()?)
}

fn heirs_of(object: &Map<String, Value>) -> Heirs {
    let heirs = object.get("heirs").and_then(Value::as_array);
    let named = heirs.into_iter().flatten().take(MOST_HEIRS);
    named
        .filter_map(|heir| heir.as_str()?.parse().ok())
        .collect()
}

fn proof_of(object: &Map<String, Value>) -> Option<String> {
    let proof = object.get("proof")?.as_str()?;
    (proof.len() <= MAX_PROOF_BYTES).then(|| proof.to_owned())
}

fn lease_of(object: &Map<String, Value>) -> Option<Duration> {
    let ms = object.get("ttl_ms")?.as_u64()?;
    Some(Duration::from_millis(ms).clamp(FOREIGN_LEASE.0, FOREIGN_LEASE.1))
}

fn meta_of(value: Value) -> BTreeMap<String, String> {
    let Value::Object(object) = value else {
        return BTreeMap::new();
    };
    object
        .into_iter()
        .filter_map(|(key, value)| Some((printable(&key), printable(value.as_str()?))))
        .collect()
}

/// A value as JSON.
pub(crate) fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
