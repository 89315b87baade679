//! Interprets the messages of the bucket.

use async_nats::HeaderMap;
use async_nats::header::NATS_MARKER_REASON;

use nats_elect_core::heirs::Heirs;
use nats_elect_core::record::{
    Content, Entry, FenceEntry, FenceRecord, HEIR_HEADER, LINE_HEADER, Nonce, RELEASE_HEADER,
    RELEASE_SECRET_HEADER, Release,
};
use nats_elect_core::release::ReleaseSecret;

/// The header by which Key-Value clients distinguish a delete marker from a value.
pub const OPERATION_HEADER: &str = "KV-Operation";
/// The header's value in a marker that deletes a key.
pub const DELETE: &str = "DEL";
const PURGE: &str = "PURGE";

/// Interprets a message under a role's key.
pub fn role_entry(revision: u64, headers: Option<&HeaderMap>, payload: &[u8]) -> Entry {
    let content = match Marker::of(headers) {
        None => Content::parse(payload),
        Some(Marker::Released(release)) => Content::Release(release),
        Some(Marker::Foreign) => Content::ForeignMarker,
    };
    Entry { revision, content }
}

/// Interprets a message under a role's fence key.
pub fn fence_entry(revision: u64, headers: Option<&HeaderMap>, payload: &[u8]) -> FenceEntry {
    let record = match Marker::of(headers) {
        None => FenceRecord::parse(payload),
        Some(_) => None,
    };
    FenceEntry { revision, record }
}

/// Returns whether the message deletes its key, whichever client wrote it.
pub fn is_marker(headers: &HeaderMap) -> bool {
    Marker::of(Some(headers)).is_some()
}

/// The headers of a message, each value with its name.
pub fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(|value| (name.as_ref(), value.as_str())))
}

enum Marker {
    Released(Release),
    Foreign,
}

impl Marker {
    fn of(headers: Option<&HeaderMap>) -> Option<Self> {
        let headers = headers?;
        // The server writes a reason into the markers of keys that expired. It never writes our
        // header.
        if headers.get(NATS_MARKER_REASON).is_some() {
            return Some(Self::Foreign);
        }
        let last = |name: &str| Some(headers.get_last(name)?.as_str());
        match last(OPERATION_HEADER)? {
            DELETE => Some(match last(RELEASE_HEADER) {
                Some(nonce) => Self::Released(Release {
                    nonce: Nonce::parse(nonce),
                    heir: last(HEIR_HEADER).and_then(|heir| heir.parse().ok()),
                    line: last(LINE_HEADER).map(Heirs::parse).unwrap_or_default(),
                    secret: last(RELEASE_SECRET_HEADER).and_then(ReleaseSecret::parse),
                }),
                None => Self::Foreign,
            }),
            PURGE => Some(Self::Foreign),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn content(headers: &[(&str, &str)], payload: &[u8]) -> Content {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, *value);
        }
        role_entry(1, Some(&map), payload).content
    }

    #[test]
    fn a_marker_with_our_header_is_a_release() {
        let nonce = Nonce {
            incarnation: Uuid::from_u128(1),
            beat: 9,
        };
        let text = nonce.to_string();
        let read = content(&[("KV-Operation", "DEL"), (RELEASE_HEADER, &text)], b"");
        let old_form = Release {
            nonce: Some(nonce),
            ..Release::default()
        };
        assert_eq!(read, Content::Release(old_form));
        let read = content(&[("KV-Operation", "DEL"), (RELEASE_HEADER, "?")], b"");
        assert_eq!(read, Content::Release(Release::default()));
        let secret = ReleaseSecret::new(7);
        let headers = [
            ("KV-Operation", "DEL"),
            (RELEASE_HEADER, &text),
            (RELEASE_SECRET_HEADER, &secret.expose()),
            (HEIR_HEADER, "00000000-0000-0000-0000-000000000002"),
            (LINE_HEADER, "00000000-0000-0000-0000-000000000003,?"),
        ];
        let told = Release {
            secret: Some(secret),
            heir: Some(Uuid::from_u128(2)),
            line: [Uuid::from_u128(3)].into_iter().collect(),
            ..old_form
        };
        assert_eq!(content(&headers, b""), Content::Release(told));
    }

    #[test]
    fn every_other_marker_is_foreign() {
        for headers in [
            &[("KV-Operation", "DEL")][..],
            &[("KV-Operation", "PURGE"), ("Nats-Rollup", "sub")],
            &[("KV-Operation", "PURGE"), (RELEASE_HEADER, "x:1")],
            &[("Nats-Marker-Reason", "MaxAge")],
            &[("Nats-Marker-Reason", "Remove"), ("KV-Operation", "DEL")],
            &[("Nats-Marker-Reason", "of a later server")],
        ] {
            assert_eq!(content(headers, b""), Content::ForeignMarker, "{headers:?}");
        }
    }

    #[test]
    fn a_value_remains_a_value_with_any_other_headers() {
        for headers in [
            &[][..],
            &[("KV-Operation", "PUT")],
            &[(RELEASE_HEADER, "x:1")],
        ] {
            assert!(
                matches!(content(headers, br#"{"id":"a"}"#), Content::Record(_)),
                "{headers:?}"
            );
        }
        assert_eq!(role_entry(1, None, b"").content, Content::Opaque);
    }

    #[test]
    fn a_deleted_fence_has_a_revision_and_no_nonce() {
        let mut headers = HeaderMap::new();
        headers.insert("KV-Operation", "DEL");
        let value = br#"{"id":"a","incarnation":"00000000-0000-0000-0000-000000000001","beat":3}"#;
        assert!(fence_entry(5, None, value).nonce().is_some());
        let deleted = fence_entry(7, Some(&headers), b"");
        assert_eq!((deleted.revision, deleted.record), (7, None));
    }
}
