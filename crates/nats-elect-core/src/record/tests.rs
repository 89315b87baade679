use proptest::prelude::*;

use super::*;

fn record() -> Record {
    Record {
        id: "node-1".into(),
        token: LeaseToken::new(Uuid::from_u128(7)),
        priority: 10,
        meta: BTreeMap::from([("region".into(), "eu-west-1".into())]),
        ttl: Duration::from_secs(15),
        nonce: Nonce {
            incarnation: Uuid::from_u128(1),
            beat: 17,
        },
        release: ReleaseSecret::new(5).hash(),
        heirs: Heirs::NONE,
        proof: None,
        application: None,
    }
}

fn parsed(value: &[u8]) -> SeenRecord {
    match Content::parse(value) {
        Content::Record(record) => *record,
        other => panic!("no record: {other:?}"),
    }
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let seen = parsed(&record().to_json());
    assert_eq!(seen.id, "node-1");
    assert_eq!(seen.priority, 10);
    assert_eq!(seen.meta["region"], "eu-west-1");
    assert_eq!(seen.ttl, Some(Duration::from_secs(15)));
    assert_eq!(seen.nonce(), Some(record().nonce));
    assert_eq!(seen.release, Some(record().release));
}

#[test]
fn a_proof_is_kept_unless_it_is_too_long() {
    assert_eq!(parsed(&record().to_json()).proof, None);
    for (bytes, carried) in [(MAX_PROOF_BYTES, true), (MAX_PROOF_BYTES + 1, false)] {
        let proof = Some("p".repeat(bytes));
        let signed = Record {
            proof: proof.clone(),
            ..record()
        };
        assert_eq!(parsed(&signed.to_json()).proof, proof.filter(|_| carried));
    }
    assert_eq!(parsed(br#"{"id":"n","proof":{"of":"what"}}"#).proof, None);
}

#[test]
fn heirs_are_read_as_they_were_written_and_rubbish_is_none() {
    let heirs: Heirs = [Uuid::from_u128(8), Uuid::from_u128(9)]
        .into_iter()
        .collect();
    let named = Record { heirs, ..record() };
    assert_eq!(parsed(&named.to_json()).heirs, heirs);
    assert!(!String::from_utf8_lossy(&record().to_json()).contains("heirs"));
    for rubbish in [r#""x""#, "7", r#"["x", 7, null]"#, "{}"] {
        let value = format!(r#"{{"id":"n","heirs":{rubbish}}}"#);
        assert!(parsed(value.as_bytes()).heirs.is_empty(), "{rubbish}");
    }
}

#[test]
fn a_go_record_has_no_ttl_and_no_nonce() {
    let seen = parsed(br#"{"id":"go-1","token":"abc","priority":3}"#);
    assert_eq!((seen.id.as_str(), seen.priority), ("go-1", 3));
    assert_eq!((seen.ttl, seen.nonce()), (None, None));
}

#[test]
fn known_fields_of_a_newer_schema_are_read() {
    let seen = parsed(br#"{"id":"n","v":99,"ttl_ms":2000,"shape":{"of":["things","to","come"]}}"#);
    assert_eq!(seen.ttl, Some(Duration::from_secs(2)));
}

#[test]
fn a_claimed_lease_is_clamped() {
    for (ms, bounded) in [
        ("0", FOREIGN_LEASE.0),
        ("18446744073709551615", FOREIGN_LEASE.1),
    ] {
        let seen = parsed(format!(r#"{{"id":"n","ttl_ms":{ms}}}"#).as_bytes());
        assert_eq!(seen.ttl, Some(bounded));
    }
}

#[test]
fn fields_of_the_wrong_type_count_as_missing() {
    let seen = parsed(
        br#"{"id":7,"ttl_ms":"soon","priority":"high","meta":[1],"incarnation":"x","beat":-1}"#,
    );
    assert_eq!(seen.id, "");
    assert_eq!((seen.ttl, seen.nonce(), seen.priority), (None, None, 0));
}

#[test]
fn a_value_that_is_no_json_object_is_an_opaque_leader() {
    let huge = format!(r#"{{"id":"{}"}}"#, "x".repeat(MAX_RECORD_BYTES));
    let deep = "[".repeat(100_000);
    for value in [
        &b""[..],
        b"\xff\xfe",
        b"null",
        b"[1]",
        b"leader",
        huge.as_bytes(),
        deep.as_bytes(),
    ] {
        assert_eq!(Content::parse(value), Content::Opaque);
    }
}

#[test]
fn names_from_the_bucket_cannot_forge_log_lines() {
    let seen = parsed(br#"{"id":"a\nERROR b","meta":{"k\u0007":"v\r"}}"#);
    assert_eq!(seen.id, "aERROR b");
    assert_eq!(seen.meta["k"], "v");
    let seen =
        parsed("{\"id\":\"no\u{202e}de\u{200b}-1\",\"meta\":{\"k\u{2028}\":\"a b\"}}".as_bytes());
    assert_eq!((seen.id.as_str(), &*seen.meta["k"]), ("node-1", "a b"));
}

#[test]
fn a_nonce_reads_back() {
    let nonce = record().nonce;
    assert_eq!(Nonce::parse(&nonce.to_string()), Some(nonce));
    for bad in [
        "",
        ":",
        "x:1",
        "00000000-0000-0000-0000-000000000001:",
        "1:00000000-0000-0000-0000-000000000001",
    ] {
        assert_eq!(Nonce::parse(bad), None, "{bad}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_parsers_panic(value in proptest::collection::vec(any::<u8>(), 0..512)) {
        let _ = Content::parse(&value);
        let _ = FenceRecord::parse(&value);
    }
}
