//! What stands under the keys of groups.
//!
//! Any client may have written what is read here. So no bytes make a parser fail. A value that
//! cannot be understood proves nothing, and costs time where it stands.

use std::cmp::Ordering;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use serde_json::{Map, Value, json};

use super::epoch::{Epoch, Identity, MEMBER_LEASE};
use super::key::UnitKey;
use super::member_info::MemberInfo;
pub use crate::assignment::MOST_GENERATIONS;
use crate::name::BucketName;
use crate::record::{Content, Nonce};
use crate::release::ReleaseSecret;

/// The version of the records that this crate writes, in the field `v`. A record of a later one is
/// not understood.
pub(super) const VERSION: u64 = 1;

/// The most shards of a group.
pub const MOST_SHARDS: u32 = 65_536;

/// The length of a signature, in bytes.
pub const SIGNATURE_BYTES: usize = 64;

/// The largest value that is parsed, in bytes.
const MOST_BYTES: usize = 64 * 1024;
/// What stands between an unsigned record and its signature.
const BEFORE_SIGNATURE: &[u8] = b",\"s\":\"";
const AFTER_SIGNATURE: &[u8] = b"\"}";

/// The record of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnitRecord {
    /// Nobody owns the unit.
    Nobody,
    /// The epoch owns it.
    Owned(Epoch),
    /// Nobody ever owns it again: the group has a later generation.
    Closed,
}

impl UnitRecord {
    /// The JSON value for the bucket, without a signature.
    pub fn to_json(self) -> Vec<u8> {
        let object = match self {
            Self::Nobody => json!({ "v": VERSION }),
            Self::Owned(epoch) => json!({ "v": VERSION, "o": epoch.to_string() }),
            Self::Closed => json!({ "v": VERSION, "c": 1 }),
        };
        object.to_string().into_bytes()
    }

    /// Parses a value, with or without a signature. Returns `None` if it is no unit's record, or
    /// one of a later version. Then its owner is unknown.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let object = parse_object(value)?;
        match (object.get("o"), object.get("c")) {
            (None, None) => Some(Self::Nobody),
            (Some(owner), None) => Some(Self::Owned(Epoch::parse(owner.as_str()?)?)),
            (None, Some(closed)) => (closed.as_u64()? == 1).then_some(Self::Closed),
            (Some(_), Some(_)) => None,
        }
    }

    /// The epoch that owns the unit, if one does.
    pub const fn owner(self) -> Option<Epoch> {
        match self {
            Self::Owned(epoch) => Some(epoch),
            Self::Nobody | Self::Closed => None,
        }
    }
}

/// The text that the giver of a unit signs with the key of its epoch. With it the signature is of
/// one write alone: in this bucket, under this key, over this record.
///
/// `created` is the bucket's creation time in nanoseconds since the Unix epoch, `over` the sequence
/// of the record that is written over, and `unsigned` the value without its signature.
pub fn signed_text(
    bucket: &BucketName,
    created: u64,
    key: &UnitKey,
    over: u64,
    unsigned: &[u8],
) -> Vec<u8> {
    let mut text = format!("nats-elect-unit-1\n{bucket}\n{created}\n{key}\n{over}\n").into_bytes();
    text.extend_from_slice(unsigned);
    text
}

/// Puts a signature into an unsigned value of [`UnitRecord::to_json`].
pub fn sign(unsigned: &[u8], signature: &[u8; SIGNATURE_BYTES]) -> Vec<u8> {
    let body = unsigned.strip_suffix(b"}").unwrap_or(unsigned);
    let signature = BASE64URL_NOPAD.encode(signature);
    [
        body,
        BEFORE_SIGNATURE,
        signature.as_bytes(),
        AFTER_SIGNATURE,
    ]
    .concat()
}

/// Splits a value into what was signed and the signature. Returns `None` if it bears none, or not
/// as [`sign`] puts it in: as the last field.
pub fn split_signature(value: &[u8]) -> Option<(Vec<u8>, [u8; SIGNATURE_BYTES])> {
    let body = value.strip_suffix(AFTER_SIGNATURE)?;
    let at = body
        .len()
        .checked_sub(SIGNATURE_BYTES.div_ceil(3) * 4 - 2)?;
    let (body, signature) = body.split_at(at);
    let body = body.strip_suffix(BEFORE_SIGNATURE)?;
    let signature = BASE64URL_NOPAD.decode(signature).ok()?;
    Some(([body, b"}"].concat(), signature.try_into().ok()?))
}

/// The record of a member, as read from the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SeenMember {
    /// The member's instance id, made printable. It is empty if the record tells none.
    pub id: String,
    /// The attempt that wrote it, if it shows one.
    pub nonce: Option<Nonce>,
    /// What the epoch's name proves. `None` if the record does not tell it truly: then neither its
    /// key nor its lease nor its secret is known.
    pub identity: Option<Identity>,
    /// What it says beside its lease. `None` if it is not understood.
    pub info: Option<MemberInfo>,
}

/// What stands under a member's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MemberContent {
    /// A heartbeat, or a value that nobody understands.
    Record(Box<SeenMember>),
    /// A delete marker, whoever wrote it: the epoch is deposed.
    Tombstone {
        /// The secret of the epoch, if it tells one. Only its member knows it.
        secret: Option<ReleaseSecret>,
        /// The identity that the epoch's name proves, if the tombstone tells it truly.
        identity: Option<Identity>,
    },
}

impl SeenMember {
    /// Parses the value under the key of this epoch.
    pub fn parse(epoch: Epoch, value: &[u8]) -> Self {
        let unknown = Self {
            id: String::new(),
            nonce: None,
            identity: None,
            info: None,
        };
        let (Content::Record(record), Some(object)) = (Content::parse(value), raw_object(value))
        else {
            return unknown;
        };
        let info = object.get("member").and_then(MemberInfo::parse);
        let lease = object.get("ttl_ms").and_then(Value::as_u64);
        let lease = lease.map(Duration::from_millis);
        let identity = info
            .as_ref()
            .zip(lease.filter(|lease| MEMBER_LEASE.contains(lease)))
            .zip(record.release)
            .map(|((info, ttl), release)| Identity {
                key: info.key,
                ttl,
                release,
            })
            .filter(|identity| identity.epoch() == epoch);
        Self {
            nonce: record.nonce(),
            id: record.id,
            identity,
            info: info.filter(|_| identity.is_some()),
        }
    }
}

/// What kind of units a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// Units with numbers from 0 on.
    Sharded {
        /// Their number, from 1 to 65,536.
        shards: u32,
        /// Their number in the generation before this one. 0 in the first one.
        before: u32,
    },
    /// Named units, each with a handler of its own. The instances' settings name them.
    Spread,
}

/// The record of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupRecord {
    /// What kind of units it has.
    pub kind: GroupKind,
    /// The present generation, from 1 on.
    pub generation: u32,
    /// The group is new. Nobody owns a unit of it before a record without this follows.
    pub making: bool,
}

impl GroupRecord {
    /// The JSON value for the bucket.
    pub fn to_json(&self) -> Vec<u8> {
        let mut object = json!({ "v": VERSION, "gen": self.generation });
        match self.kind {
            GroupKind::Sharded { shards, before } => {
                object["kind"] = "sharded".into();
                object["n"] = shards.into();
                if before > 0 {
                    object["before"] = before.into();
                }
            }
            GroupKind::Spread => object["kind"] = "spread".into(),
        }
        if self.making {
            object["making"] = true.into();
        }
        object.to_string().into_bytes()
    }

    /// The number of shards. `None` for named units.
    pub const fn shards(&self) -> Option<u32> {
        match self.kind {
            GroupKind::Sharded { shards, .. } => Some(shards),
            GroupKind::Spread => None,
        }
    }

    /// The record by which a sharded group gets another number of shards, in a new generation. Units
    /// of that one begin when those of this one are closed.
    ///
    /// `None` if there can be none: for named units, for a group that is only being made, for a
    /// number beyond 1 to [`MOST_SHARDS`], and after the last generation.
    pub fn resized(&self, shards: u32) -> Option<Self> {
        let GroupKind::Sharded { shards: before, .. } = self.kind else {
            return None;
        };
        let can_be = !self.making && (1..=MOST_SHARDS).contains(&shards);
        let can_follow = can_be && self.generation < MOST_GENERATIONS;
        let generation = can_follow.then(|| self.generation + 1)?;
        Some(Self {
            kind: GroupKind::Sharded { shards, before },
            generation,
            making: false,
        })
    }

    /// Whether members write this one over that one: a later generation, or the same one, made. A
    /// generation never gets other units.
    pub fn may_follow(&self, before: &Self) -> bool {
        let (now, then) = (self.shards(), before.shards());
        match self.generation.cmp(&before.generation) {
            Ordering::Less => false,
            Ordering::Equal => self.kind == before.kind && (before.making || !self.making),
            Ordering::Greater => now.is_some() == then.is_some(),
        }
    }

    /// Parses a value. Returns `None` if it is no group's record, breaks a bound, or is of a later
    /// version.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let object = parse_object(value)?;
        let generation = number(object.get("gen")?)?;
        let kind = match object.get("kind")?.as_str()? {
            "sharded" => GroupKind::Sharded {
                shards: number(object.get("n")?).filter(|n| (1..=MOST_SHARDS).contains(n))?,
                before: match object.get("before") {
                    None => 0,
                    Some(before) => number(before).filter(|n| (1..=MOST_SHARDS).contains(n))?,
                },
            },
            "spread" => GroupKind::Spread,
            _ => return None,
        };
        let making = match object.get("making") {
            None => false,
            Some(making) => making.as_bool()?,
        };
        // Before the first generation there was none.
        let is_first = generation == 1;
        let told_before = matches!(kind, GroupKind::Sharded { before, .. } if before > 0);
        let holds = (1..=MOST_GENERATIONS).contains(&generation) && !(is_first && told_before);
        holds.then_some(Self {
            kind,
            generation,
            making,
        })
    }
}

pub(super) fn number(value: &Value) -> Option<u32> {
    value.as_u64()?.try_into().ok()
}

pub(super) fn is_understood(object: &Map<String, Value>) -> bool {
    let version = object.get("v").and_then(Value::as_u64);
    version.is_some_and(|version| (1..=VERSION).contains(&version))
}

/// An object of a version that is understood.
fn parse_object(value: &[u8]) -> Option<Map<String, Value>> {
    raw_object(value).filter(is_understood)
}

fn raw_object(value: &[u8]) -> Option<Map<String, Value>> {
    if value.len() > MOST_BYTES {
        return None;
    }
    match serde_json::from_slice(value).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::group::{EpochKey, LONGEST_LEASE};
    use crate::name::{GroupName, UnitName};

    fn identity() -> Identity {
        Identity {
            key: EpochKey::new([7; 32]),
            ttl: Duration::from_secs(15),
            release: ReleaseSecret::new(1).hash(),
        }
    }

    fn info() -> MemberInfo {
        MemberInfo {
            zone: Some("a".into()),
            ..MemberInfo::new(identity().key)
        }
    }

    fn member_json(ttl_ms: u64, release: ReleaseSecret, info: &MemberInfo) -> Vec<u8> {
        json!({
            "id": "node-1",
            "ttl_ms": ttl_ms,
            "incarnation": "00000000-0000-0000-0000-000000000001",
            "beat": 4,
            "release": release.hash().to_string(),
            "member": info.to_json(),
        })
        .to_string()
        .into_bytes()
    }

    #[test]
    fn a_units_record_is_read_as_it_was_written() {
        let epoch = identity().epoch();
        let owned = UnitRecord::Owned(epoch);
        for record in [UnitRecord::Nobody, owned, UnitRecord::Closed] {
            assert_eq!(UnitRecord::parse(&record.to_json()), Some(record));
        }
        assert_eq!(UnitRecord::Nobody.to_json(), br#"{"v":1}"#);
        assert!(sign(&owned.to_json(), &[0; SIGNATURE_BYTES]).len() <= 150);
    }

    #[test]
    fn a_units_record_with_a_doubt_has_an_unknown_owner() {
        for value in [
            &b""[..],
            b"null",
            b"{}",
            br#"{"v":0}"#,
            br#"{"v":2}"#,
            br#"{"v":"1"}"#,
            br#"{"v":1,"o":null}"#,
            br#"{"v":1,"o":"x"}"#,
            br#"{"v":1,"c":0}"#,
            br#"{"v":1,"c":true}"#,
            br#"{"v":1,"o":"AAAAAAAAAAAAAAAAAAAAAA","c":1}"#,
        ] {
            assert_eq!(
                UnitRecord::parse(value),
                None,
                "{}",
                String::from_utf8_lossy(value)
            );
        }
        let later = br#"{"v":1,"o":"AAAAAAAAAAAAAAAAAAAAAA","later":[1]}"#;
        assert!(
            UnitRecord::parse(later).is_some(),
            "unknown fields are left alone"
        );
    }

    #[test]
    fn a_signature_is_of_one_write_alone() {
        let bucket = BucketName::new("leaders").unwrap();
        let key = UnitKey {
            group: GroupName::new("partitions").unwrap(),
            generation: 1,
            unit: UnitName::shard(17),
        };
        let value = UnitRecord::Nobody.to_json();
        let text = signed_text(&bucket, 5, &key, 9, &value);
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "nats-elect-unit-1\nleaders\n5\n_group.u.partitions.1.17\n9\n{\"v\":1}"
        );
    }

    #[test]
    fn a_signature_anywhere_but_at_the_end_is_none() {
        let signed = sign(&UnitRecord::Nobody.to_json(), &[9; SIGNATURE_BYTES]);
        let text = String::from_utf8(signed).unwrap();
        for bad in [
            text.replace(",\"s\"", ", \"s\""),
            text.replace('}', ",\"x\":1}"),
            text.replace('}', "} "),
            text.replace("CQ\"}", "\"}"),
            r#"{"v":1}"#.to_owned(),
            r#""}"#.to_owned(),
            String::new(),
        ] {
            assert_eq!(split_signature(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_member_is_known_by_what_its_epochs_name_proves() {
        let (epoch, secret) = (identity().epoch(), ReleaseSecret::new(1));
        let seen = SeenMember::parse(epoch, &member_json(15_000, secret, &info()));
        assert_eq!(
            (seen.id.as_str(), seen.identity),
            ("node-1", Some(identity()))
        );
        assert_eq!(seen.info, Some(info()));
        assert_eq!(seen.nonce.map(|nonce| nonce.beat), Some(4));
    }

    #[test]
    fn a_forged_member_brings_no_key_no_lease_and_no_secret() {
        let (epoch, secret) = (identity().epoch(), ReleaseSecret::new(1));
        let other_key = MemberInfo {
            key: EpochKey::new([8; 32]),
            ..info()
        };
        for value in [
            member_json(14_999, secret, &info()),
            member_json(15_000, ReleaseSecret::new(2), &info()),
            member_json(15_000, secret, &other_key),
            br#"{"id":"x"}"#.to_vec(),
            b"x".to_vec(),
        ] {
            let seen = SeenMember::parse(epoch, &value);
            assert_eq!((seen.identity, seen.info), (None, None));
        }
    }

    #[test]
    fn a_lease_beyond_the_longest_is_no_identity() {
        let long = Identity {
            ttl: LONGEST_LEASE + Duration::from_millis(1),
            ..identity()
        };
        let value = member_json(60_001, ReleaseSecret::new(1), &info());
        assert_eq!(SeenMember::parse(long.epoch(), &value).identity, None);
    }

    #[test]
    fn a_groups_record_is_read_as_it_was_written() {
        for kind in [
            GroupKind::Spread,
            GroupKind::Sharded {
                shards: 256,
                before: 0,
            },
            GroupKind::Sharded {
                shards: 512,
                before: 256,
            },
        ] {
            for making in [true, false] {
                let record = GroupRecord {
                    kind,
                    generation: 2,
                    making,
                };
                assert_eq!(GroupRecord::parse(&record.to_json()), Some(record));
            }
        }
    }

    #[test]
    fn a_generation_never_gets_other_units() {
        let of = |generation, shards, before| GroupRecord {
            kind: GroupKind::Sharded { shards, before },
            generation,
            making: false,
        };
        let known = of(2, 512, 256);
        assert!(known.may_follow(&known));
        assert!(of(3, 64, 512).may_follow(&known));
        for other in [of(1, 256, 0), of(2, 300, 256), of(2, 512, 65_536)] {
            assert!(!other.may_follow(&known), "{other:?}");
        }
    }

    #[test]
    fn a_groups_record_that_breaks_a_bound_is_none() {
        for value in [
            r#"{"v":1,"kind":"sharded","n":0,"gen":1}"#,
            r#"{"v":1,"kind":"sharded","n":65537,"gen":1}"#,
            r#"{"v":1,"kind":"sharded","n":4,"gen":0}"#,
            r#"{"v":1,"kind":"sharded","n":4,"before":0,"gen":1}"#,
            r#"{"v":1,"kind":"sharded","n":4,"before":0,"gen":2}"#,
            r#"{"v":1,"kind":"sharded","n":4,"before":4,"gen":1}"#,
            r#"{"v":1,"kind":"sharded","n":4,"gen":4294967296}"#,
            r#"{"v":1,"kind":"sharded","gen":1}"#,
            r#"{"v":1,"kind":"heaped","gen":1}"#,
            r#"{"v":1,"kind":"spread","gen":1,"making":1}"#,
            r#"{"v":2,"kind":"spread","gen":1}"#,
            r#"{"kind":"spread","gen":1}"#,
        ] {
            assert_eq!(GroupRecord::parse(value.as_bytes()), None, "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parsers_panic(value in proptest::collection::vec(any::<u8>(), 0..512)) {
            let _ = UnitRecord::parse(&value);
            let _ = GroupRecord::parse(&value);
            let _ = split_signature(&value);
            prop_assert_eq!(SeenMember::parse(identity().epoch(), &value).identity, None);
        }

        #[test]
        fn a_signature_reads_back(bytes in proptest::collection::vec(any::<u8>(), SIGNATURE_BYTES), owned in any::<bool>()) {
            let record = if owned { UnitRecord::Owned(identity().epoch()) } else { UnitRecord::Closed };
            let signature: [u8; SIGNATURE_BYTES] = bytes.try_into().unwrap();
            let unsigned = record.to_json();
            let value = sign(&unsigned, &signature);
            prop_assert_eq!(UnitRecord::parse(&value), Some(record));
            prop_assert_eq!(split_signature(&value), Some((unsigned, signature)));
        }

        #[test]
        fn a_value_splits_in_one_way(body in "\\{\"v\":1[a-z\",:]{0,9}", signature in "[-_A-Za-z0-9]{84,88}") {
            let value = format!("{body},\"s\":\"{signature}\"}}");
            if let Some((unsigned, signature)) = split_signature(value.as_bytes()) {
                prop_assert_eq!(sign(&unsigned, &signature), value.into_bytes());
            }
        }
    }
}
