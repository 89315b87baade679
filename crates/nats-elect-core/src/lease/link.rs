//! The link to the bucket, and the bucket.

use std::time::Duration;

use super::input::Failure;
use crate::duration::exact;
use crate::event::FailureKind;
use crate::moment::Moment;

/// The link to the bucket.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Link {
    /// There is no connection. Nothing is published, because a client would queue it and send it
    /// later.
    Down {
        /// When it was lost. The grace period counts from there, however late this comes.
        since: Moment,
    },
    /// There is a connection, but the bucket cannot be used, for this reason.
    Unusable(Failure),
    /// The bucket can be used.
    Up(Bucket),
}

/// The properties of a bucket that matter, from the stream configuration that the server returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bucket {
    /// The creation time in nanoseconds since the Unix epoch. It is the bucket's identity.
    pub epoch: u64,
    /// The age at which the server drops a key, if there is one.
    pub max_age: Option<Duration>,
    /// Whether the sequences of a recreated bucket lie above the ones of this bucket.
    pub unique_sequences: bool,
}

impl Bucket {
    /// Why no lease of this length can be kept in the bucket, if that is so.
    pub(crate) fn unfit_for(&self, ttl: Duration) -> Option<Failure> {
        let max_age = self.max_age.filter(|max_age| *max_age < ttl)?;
        let detail = format!(
            "the bucket drops keys after {}, before the lease of {} ends: choose a shorter ttl or a longer max age",
            exact(max_age),
            exact(ttl)
        );
        Some(Failure::new(FailureKind::BucketUnfit, detail))
    }
}
