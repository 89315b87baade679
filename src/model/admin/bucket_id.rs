//! What tells buckets of one name apart.

use std::fmt;
use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::micro::Identity;
use nats_elect_core::text::printable;
use nats_elect_core::whole;

/// The names in an instance's metadata.
const DOMAIN: &str = "domain";
const EPOCH: &str = "bucket_epoch";

/// What tells buckets of one name apart. A hub and a leaf node with `JetStream` domains of their own
/// can each have a bucket of the same name in one account, whose subjects they share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct BucketId {
    /// The `JetStream` domain. `None` if the domain has no name.
    pub domain: Option<String>,
    /// The bucket's creation time, in nanoseconds since the Unix epoch.
    pub epoch: u64,
}

impl BucketId {
    pub(crate) fn new(domain: Option<&str>, epoch: u64) -> Self {
        let domain = domain.filter(|it| !it.is_empty()).map(printable);
        Self { domain, epoch }
    }

    /// Reads it from the metadata of an instance. An instance that has no bucket just now tells
    /// none, nor does one of an older version.
    pub(crate) fn of(identity: &Identity) -> Option<Self> {
        let epoch = identity.says(EPOCH)?.parse().ok()?;
        Some(Self::new(identity.says(DOMAIN), epoch))
    }

    /// Adds it to the metadata of an instance.
    pub(crate) fn tell(self, identity: &mut Identity) {
        let domain = self.domain.map(|domain| (DOMAIN, domain));
        let told = domain.into_iter().chain([(EPOCH, self.epoch.to_string())]);
        let told = told.map(|(name, value)| (name.to_owned(), value));
        identity.metadata.extend(told);
    }
}

impl fmt::Display for BucketId {
    /// Writes the domain and the creation time.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.domain {
            Some(domain) => write!(f, "the one in domain {domain:?}")?,
            None => f.write_str("the one in the domain without a name")?,
        }
        let created = UNIX_EPOCH.checked_add(Duration::from_nanos(self.epoch));
        let created = created.unwrap_or(UNIX_EPOCH);
        write!(f, ", created {}", humantime::format_rfc3339_millis(created))
    }
}

/// The body of a search for instances: empty, or JSON. An instance that knows that its bucket is
/// another one keeps silent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Search {
    /// The domain of the bucket. It is empty if the domain has no name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// The creation time of the bucket, in nanoseconds since the Unix epoch.
    #[serde(with = "whole::option", skip_serializing_if = "Option::is_none")]
    pub bucket_epoch: Option<u64>,
}

impl Search {
    /// The search for the instances of this bucket.
    pub fn for_bucket(bucket: &BucketId) -> Self {
        Self {
            domain: Some(bucket.domain.clone().unwrap_or_default()),
            bucket_epoch: Some(bucket.epoch),
        }
    }

    /// Reads a search. Returns `None` if it is not understood: it may be for others.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        if payload.is_empty() {
            return Some(Self::default());
        }
        serde_json::from_slice(payload).ok()
    }

    pub fn to_json(&self) -> Vec<u8> {
        if self.names_any() {
            return Vec::new();
        }
        serde_json::json!(self).to_string().into_bytes()
    }

    /// Whether the search is for the instances of any bucket of the name.
    pub const fn names_any(&self) -> bool {
        self.domain.is_none() && self.bucket_epoch.is_none()
    }

    /// Whether an instance is meant that tells this about its bucket. One that tells nothing is
    /// meant, unless the domain alone was named.
    pub fn means(&self, bucket: Option<&BucketId>) -> bool {
        let Some(bucket) = bucket else {
            return self.domain.is_none() || self.bucket_epoch.is_some();
        };
        self.means_domain(bucket) && self.bucket_epoch.is_none_or(|it| it == bucket.epoch)
    }

    /// Whether buckets in the domain of this one are meant.
    pub fn means_domain(&self, bucket: &BucketId) -> bool {
        let domain = bucket.domain.as_deref().unwrap_or_default();
        self.domain.as_deref().is_none_or(|it| it == domain)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn id(domain: Option<&str>, epoch: u64) -> BucketId {
        BucketId::new(domain, epoch)
    }

    #[test]
    fn metadata_is_read_as_it_was_written() {
        let mut identity = Identity {
            name: "nats-elect".into(),
            id: "x".into(),
            version: "0.1.0".into(),
            metadata: BTreeMap::new(),
        };
        assert_eq!(BucketId::of(&identity), None);
        for known in [id(None, 7), id(Some("hub"), u64::MAX)] {
            known.clone().tell(&mut identity);
            assert_eq!(BucketId::of(&identity), Some(known));
        }
    }

    #[test]
    fn a_search_means_the_bucket_that_it_names() {
        let (hub, leaf) = (id(Some("hub"), 1), id(Some("leaf"), 2));
        let anew = id(Some("hub"), 3);
        let nameless = id(None, 4);
        let of_hub = Search::for_bucket(&hub);
        let in_domain = |domain: &str| Search {
            domain: Some(domain.into()),
            bucket_epoch: None,
        };
        let meant = |search: &Search| {
            let told = [Some(&hub), Some(&leaf), Some(&anew), Some(&nameless), None];
            told.map(|told| search.means(told))
        };
        assert_eq!(meant(&Search::default()), [true; 5]);
        assert_eq!(meant(&of_hub), [true, false, false, false, true]);
        assert_eq!(meant(&in_domain("hub")), [true, false, true, false, false]);
        assert_eq!(meant(&in_domain("")), [false, false, false, true, false]);
        let in_its_domain = [&hub, &leaf, &anew, &nameless].map(|it| of_hub.means_domain(it));
        assert_eq!(in_its_domain, [true, false, true, false]);
        for search in [Search::default(), of_hub, in_domain("")] {
            assert_eq!(Search::parse(&search.to_json()), Some(search));
        }
        assert_eq!(Search::parse(br#"{"cluster":"c"}"#), None);
    }
}
