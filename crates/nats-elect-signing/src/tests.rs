//! Tests of proofs: their form, and that nothing else is accepted as a proof.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use data_encoding::BASE64URL_NOPAD;
use proptest::prelude::*;
use uuid::Uuid;

use crate::statement::{decode, encode, signed};
use crate::{LeaderProof, ProofError, PublicKey, SigningKey, TrustedKeys};
use nats_elect::{FencingToken, LeaderStatement, RoleName};
use nats_elect_core::record::MAX_PROOF_BYTES;

const ISSUED: u64 = 1_800_000_000_000;

fn key() -> SigningKey {
    let seed = nkeys::KeyPair::new_from_raw(nkeys::KeyPairType::User, [1; 32]);
    SigningKey::from_seed(&seed.and_then(|pair| pair.seed()).expect("a seed")).expect("a key")
}

fn trusted() -> TrustedKeys {
    key().public_key().clone().into()
}

fn statement() -> LeaderStatement {
    LeaderStatement {
        bucket: "leaders".to_owned(),
        role: RoleName::new("scheduler").expect("a name"),
        fencing_token: FencingToken {
            epoch: 1_790_000_000_000_000_000,
            sequence: 1_790_000_000_000_007,
        },
        instance_id: "node-1".to_owned(),
        incarnation: Uuid::from_u128(7),
        priority: 10,
        meta: BTreeMap::from([("region".to_owned(), "eu-west-1".to_owned())]),
        issued_at: at(ISSUED),
        expires_at: at(ISSUED + 14_700),
        signer: key().public_key().to_string(),
    }
}

fn at(millis: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
}

/// Returns the error of a text for a verifier that trusts the key.
fn verdict(text: &str) -> Option<ProofError> {
    let verified = text
        .parse::<LeaderProof>()
        .and_then(|proof| proof.verify(&trusted(), at(ISSUED), Duration::ZERO));
    verified.err()
}

/// Returns a proof's text of these bytes, signed as they are.
fn proof_of(statement: &[u8], signed: &[u8]) -> String {
    let signature = BASE64URL_NOPAD.encode(&key().sign(signed).to_bytes());
    let statement = BASE64URL_NOPAD.encode(statement);
    format!("leader-proof-1.{statement}.{signature}")
}

/// Any statement that can be made.
fn statements() -> impl Strategy<Value = LeaderStatement> {
    let names = (
        "[a-zA-Z0-9_-]{1,255}",
        "[a-zA-Z0-9=/-]{1,255}",
        "[!-~é]{1,120}",
    );
    let meta = proptest::collection::btree_map(".{0,8}", ".{0,40}", 0..4);
    let times = (0..ISSUED * 2, 1u64..3_600_000);
    (names, any::<(u64, u64, u128, i64)>(), meta, times).prop_map(
        |((bucket, role, id), (epoch, sequence, incarnation, priority), meta, (from, lasts))| {
            LeaderStatement {
                bucket,
                role: RoleName::new(&role).expect("a name"),
                fencing_token: FencingToken { epoch, sequence },
                instance_id: id,
                incarnation: Uuid::from_u128(incarnation),
                priority,
                meta,
                issued_at: at(from),
                expires_at: at(from + lasts),
                signer: key().public_key().to_string(),
            }
        },
    )
}

#[test]
fn a_proof_has_the_form_that_the_documentation_gives() {
    let statement = statement();
    let proof = LeaderProof::sign(statement.clone(), &key());
    let text = proof.to_string();
    let json = r#"{"bucket":"leaders","role":"scheduler","fencing_token":"18d75b8423f3000000065bfeda25e007","instance_id":"node-1","incarnation":"00000000-0000-0000-0000-000000000007","priority":10,"meta":{"region":"eu-west-1"},"issued_at_ms":1800000000000,"expires_at_ms":1800000014700,"key":"KEY"}"#;
    let json = json.replace("KEY", key().public_key().as_str());
    assert_eq!(text, include_str!("../../../docs/leader-proof.txt").trim());
    let carried: Vec<_> = text.split('.').collect();
    assert_eq!(carried.len(), 3);
    assert_eq!(carried[0], "leader-proof-1");
    let bytes = BASE64URL_NOPAD
        .decode(carried[1].as_bytes())
        .expect("base64");
    assert_eq!(String::from_utf8(bytes).expect("text"), json);

    let verified = proof
        .verify(&trusted(), at(ISSUED), Duration::ZERO)
        .expect("valid");
    assert_eq!(verified, statement);
}

#[test]
fn serde_reads_and_writes_a_proof_as_its_text() {
    let proof = LeaderProof::sign(statement(), &key());
    let json = serde_json::to_string(&proof).expect("json");
    assert_eq!(json, format!("\"{proof}\""));
    assert_eq!(serde_json::from_str::<LeaderProof>(&json).ok(), Some(proof));
    assert!(serde_json::from_str::<LeaderProof>("\"leader-proof-1..\"").is_err());
}

#[test]
fn a_proof_is_valid_from_its_making_to_its_expiry_with_the_skew_on_both_sides() {
    let proof = LeaderProof::sign(statement(), &key());
    let end = ISSUED + 14_700;
    let ms = Duration::from_millis;
    for (time, skew, expected) in [
        (at(ISSUED), ms(0), None),
        (at(end), ms(0), None),
        (at(end + 1), ms(0), Some(ProofError::Expired)),
        (at(ISSUED - 1), ms(0), Some(ProofError::NotYetValid)),
        (at(end + 500), ms(500), None),
        (at(end + 501), ms(500), Some(ProofError::Expired)),
        (at(ISSUED - 500), ms(500), None),
        (at(ISSUED - 501), ms(500), Some(ProofError::NotYetValid)),
        // A verifier can't allow for more than the maximum.
        (at(end) + LeaderProof::MAX_SKEW, Duration::MAX, None),
        (
            at(end + 1) + LeaderProof::MAX_SKEW,
            Duration::MAX,
            Some(ProofError::Expired),
        ),
        (at(ISSUED) - LeaderProof::MAX_SKEW, Duration::MAX, None),
        (at(0), Duration::MAX, Some(ProofError::NotYetValid)),
        (at(0) - ms(1), Duration::MAX, Some(ProofError::NotYetValid)),
    ] {
        let verified = proof.verify(&trusted(), time, skew);
        assert_eq!(verified.err(), expected, "{time:?} within {skew:?}");
    }
}

#[test]
fn a_proof_that_would_outlast_every_lease_proves_nothing() {
    let lasting = |millis| {
        let statement = LeaderStatement {
            expires_at: at(ISSUED + millis),
            ..statement()
        };
        verdict(&LeaderProof::sign(statement, &key()).to_string())
    };
    assert_eq!(lasting(3_600_000), None);
    assert_eq!(lasting(3_600_001), Some(ProofError::TooLong));
    assert_eq!(lasting(0), Some(ProofError::Malformed));
    // With these times arithmetic would overflow somewhere.
    for time in [u64::MAX, u64::MAX - 1, 1 << 62] {
        let statement = LeaderStatement {
            issued_at: at(time - 1),
            expires_at: at(time),
            ..statement()
        };
        let text = LeaderProof::sign(statement, &key()).to_string();
        assert_eq!(verdict(&text), Some(ProofError::Malformed));
    }
}

#[test]
fn only_a_trusted_key_is_believed() {
    let other = nkeys::KeyPair::new_user().seed().expect("a seed");
    let other = SigningKey::from_seed(&other).expect("a key");
    let of_other = LeaderStatement {
        signer: other.public_key().to_string(),
        ..statement()
    };
    let proof = LeaderProof::sign(of_other.clone(), &other);
    let untrusted =
        |keys: &TrustedKeys| proof.verify(keys, at(ISSUED), LeaderProof::MAX_SKEW).err();
    let key_named = other.public_key().to_string();
    let refused = Some(ProofError::UntrustedKey { key: key_named });
    assert_eq!(untrusted(&trusted()), refused);
    assert_eq!(untrusted(&TrustedKeys::default()), refused);
    let both: TrustedKeys = [key(), other.clone()]
        .iter()
        .map(|key| key.public_key().clone())
        .collect();
    assert_eq!(untrusted(&both), None);
    // One key signed it, in the name of the other.
    let bytes = encode(&of_other);
    let text = proof_of(&bytes, &signed(&bytes));
    let lent: LeaderProof = text.parse().expect("well formed");
    let verified = lent.verify(&both, at(ISSUED), LeaderProof::MAX_SKEW);
    assert_eq!(verified.err(), Some(ProofError::BadSignature));
}

#[test]
fn a_signature_of_a_server_nonce_is_no_proof() {
    let bytes = encode(&statement());
    assert_eq!(verdict(&proof_of(&bytes, &signed(&bytes))), None);
    assert!(
        std::str::from_utf8(&signed(&bytes)).is_err(),
        "no nonce, which is text, has these bytes"
    );
    for nonce in [&bytes[..], &signed(&bytes)[1..]] {
        let text = proof_of(&bytes, nonce);
        assert_eq!(verdict(&text), Some(ProofError::BadSignature));
    }
}

#[test]
fn a_statement_in_another_form_is_refused_even_if_signed() {
    let bytes = encode(&statement());
    let json = String::from_utf8(bytes).expect("text");
    for other in [
        json.replace("\":", "\": "),
        json.replace("\"priority\":10", "\"priority\":1e1"),
        json.replace("\"priority\":10", "\"priority\":10,\"priority\":10"),
        json.replace("\"priority\":10", "\"more\":1,\"priority\":10"),
        json.replace("\"priority\":10,", ""),
        json.replace("leaders", "lead\\u0065rs"),
        json.replace("00000000-0000", "000000000000"),
        json.replace("18d75b84", "18D75B84"),
        json.replace("scheduler", "_fence"),
        json.replace("node-1", "no\u{202e}de-1"),
        format!("{json} "),
        String::new(),
        "[".repeat(4000),
    ] {
        assert_ne!(other, json);
        let other = other.as_bytes();
        let text = proof_of(other, &signed(other));
        assert_eq!(verdict(&text), Some(ProofError::Malformed), "{text}");
    }
}

#[test]
fn a_second_valid_signature_cannot_be_made_from_a_good_one() {
    // This is the order of the group. A signature whose second half is greater by it would fit the
    // same equation.
    let order: [u8; 32] = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
    ];
    let bytes = encode(&statement());
    let mut signature = key().sign(&signed(&bytes)).to_bytes();
    let mut carry = 0;
    for (byte, more) in signature[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(more) + carry;
        *byte = u8::try_from(sum & 0xff).expect("a byte");
        carry = sum >> 8;
    }
    assert_eq!(carry, 0);
    let statement = BASE64URL_NOPAD.encode(&bytes);
    let signature = BASE64URL_NOPAD.encode(&signature);
    let text = format!("leader-proof-1.{statement}.{signature}");
    assert_eq!(verdict(&text), Some(ProofError::BadSignature));
}

#[test]
fn the_longest_proof_fits_into_a_record() {
    let statement = LeaderStatement {
        bucket: "b".repeat(255),
        role: RoleName::new(&"r".repeat(255)).expect("a name"),
        instance_id: "\"".repeat(255),
        priority: i64::MIN,
        // This is the longest meta that a role may have, in JSON.
        meta: BTreeMap::from([("k".to_owned(), "x".repeat(4088))]),
        ..statement()
    };
    let text = LeaderProof::sign(statement, &key()).to_string();
    assert!(text.len() <= MAX_PROOF_BYTES, "{}", text.len());
    assert_eq!(verdict(&text), None);
    let longer = text + &"A".repeat(MAX_PROOF_BYTES);
    assert_eq!(verdict(&longer), Some(ProofError::Malformed));
}

#[test]
fn an_unverified_proof_is_marked_as_such() {
    let proof = LeaderProof::sign(statement(), &key());
    assert!(format!("{proof:?}").contains("not verified"));
}

proptest! {
    #[test]
    fn each_statement_reads_back_as_itself(statement in statements()) {
        let bytes = encode(&statement);
        prop_assert_eq!(decode(&bytes), Some(statement));
    }

    #[test]
    fn a_proof_with_one_character_changed_proves_nothing(place: prop::sample::Index, by in 1u8..128) {
        let mut text = LeaderProof::sign(statement(), &key()).to_string().into_bytes();
        let place = place.index(text.len());
        text[place] ^= by;
        if let Ok(text) = String::from_utf8(text) {
            prop_assert!(verdict(&text).is_some(), "{}", text);
        }
    }

    #[test]
    fn a_statement_with_one_bit_changed_is_refused(place: prop::sample::Index, bit in 0u8..8) {
        let bytes = encode(&statement());
        let mut changed = bytes.clone();
        changed[place.index(bytes.len())] ^= 1 << bit;
        let text = proof_of(&changed, &signed(&bytes));
        prop_assert!(verdict(&text).is_some(), "{}", text);
    }

    #[test]
    fn a_public_key_reads_back_from_what_it_displays(secret: [u8; 32]) {
        let pair = nkeys::KeyPair::new_from_raw(nkeys::KeyPairType::User, secret).expect("32 bytes");
        let key: PublicKey = pair.public_key().parse().expect("the key of a user");
        prop_assert_eq!(key.to_string().parse(), Ok(key));
    }

    #[test]
    fn any_text_is_read_without_a_panic_and_written_back_unchanged(
        text in ".{0,200}",
        statement in proptest::collection::vec(any::<u8>(), 0..200),
        signature in proptest::collection::vec(any::<u8>(), 60..68),
    ) {
        prop_assert_eq!(verdict(&text), Some(ProofError::Malformed));
        let statement = BASE64URL_NOPAD.encode(&statement);
        let noise = BASE64URL_NOPAD.encode(&signature);
        for text in [
            format!("leader-proof-1.{statement}.{noise}"),
            format!("leader-proof-1.{text}.{noise}"),
            format!("leader-proof-1.{statement}.{text}"),
        ] {
            prop_assert_eq!(verdict(&text), Some(ProofError::Malformed));
        }
    }

    #[test]
    fn each_proof_reads_back_from_its_text_and_no_other_signature_fits(
        statement in statements(),
        noise in proptest::collection::vec(any::<u8>(), 64),
    ) {
        let proof = LeaderProof::sign(statement.clone(), &key());
        let read: LeaderProof = proof.to_string().parse().expect("its own text");
        prop_assert_eq!(&read, &proof);
        let now = statement.issued_at;
        prop_assert!(read.verify(&trusted(), now, Duration::ZERO).is_ok());
        let text = proof.to_string();
        let (stated, _) = text.rsplit_once('.').expect("three parts");
        let forged = format!("{stated}.{}", BASE64URL_NOPAD.encode(&noise));
        let forged: LeaderProof = forged.parse().expect("well formed");
        let refused = forged.verify(&trusted(), now, Duration::ZERO);
        prop_assert_eq!(refused.err(), Some(ProofError::BadSignature));
    }
}
