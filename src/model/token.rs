//! The two tokens of a term: one secret, one to show around.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The secret of one term: whoever knows it can prove to have held the lease.
///
/// `Debug` and `Display` show four characters of it, enough to tell two apart in a log; [`expose`](Self::expose) gives
/// the whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken(Uuid);

impl LeaseToken {
    /// Used in the crate itself and to drive its core.
    #[doc(hidden)]
    pub const fn new(uuid: Uuid) -> Self {
        Self(uuid)
    }

    /// The whole token. Do not log it or put it in an error.
    pub const fn expose(&self) -> Uuid {
        self.0
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeaseToken({self})")
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.simple().to_string();
        write!(f, "{}…", &text[..4])
    }
}

/// The ordered number of a term: of two terms of a role, the later one has the greater token.
///
/// Safe to log and to hand to other systems; they protect themselves against a stale leader by remembering the greatest
/// token they saw and refusing smaller ones. It is ordered by the bucket's creation time first, then by the stream
/// sequence of the term's fence record, and so grows across a recreation of the bucket too. A bucket restored from a
/// backup keeps its creation time and may go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FencingToken {
    /// Creation time of the bucket, in nanoseconds since the Unix epoch, by the server's clock.
    pub epoch: u64,
    /// Stream sequence of the term's fence record.
    pub sequence: u64,
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_token_never_shows_itself_whole() {
        let uuid = Uuid::from_u128(0x1234_5678_9abc_def0_1234_5678_9abc_def0);
        let token = LeaseToken::new(uuid);
        for shown in [format!("{token:?}"), format!("{token}")] {
            assert!(shown.contains("1234…"), "{shown}");
            assert!(!shown.contains("5678"), "{shown}");
        }
        assert_eq!(token.expose(), uuid);
    }

    #[test]
    fn a_recreated_bucket_outranks_every_sequence_of_the_old_one() {
        let old = FencingToken {
            epoch: 1,
            sequence: u64::MAX,
        };
        let new = FencingToken {
            epoch: 2,
            sequence: 1,
        };
        assert!(old < new);
    }
}
