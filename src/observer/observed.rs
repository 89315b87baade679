//! The reports of an observer about roles.

use std::time::{Duration, SystemTime};

use serde::Serialize;

use nats_elect_core::event::Distrust;
use nats_elect_core::labels;
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::token::FencingToken;

/// The state of a role, as it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// An instance leads. A record stands whose lease was not seen to run out.
    Led,
    /// A record stands, but no trusted key signed it. If trusted keys are set, no leader is
    /// reported then.
    Untrusted,
    /// The leader freed the role.
    Released,
    /// The leader freed the role in the name of a successor. The other instances leave it to the
    /// successor for a while.
    HandedOver,
    /// The role's key was deleted by another client than its leader, or the server let it expire.
    Deleted,
    /// The last leader's record still stands there, but its lease has passed without a heartbeat.
    Expired,
    /// The role's key has no value. The role was never led, or its key was removed without a trace.
    Unclaimed,
    /// The state is not known. Either the lease of the last leader has passed while the observer
    /// could not see heartbeats, or the bucket is another one and was not read yet.
    Unknown,
}

labels!(Standing {
    Led => "led",
    Untrusted => "untrusted",
    Released => "released",
    HandedOver => "handed_over",
    Deleted => "deleted",
    Expired => "expired",
    Unclaimed => "unclaimed",
    Unknown => "unknown",
});

impl Standing {
    /// Returns whether it is certain that no instance leads. A claim would succeed, or will succeed
    /// once the others have waited for as long as they must.
    pub const fn is_free(self) -> bool {
        matches!(
            self,
            Self::Released | Self::HandedOver | Self::Deleted | Self::Expired | Self::Unclaimed
        )
    }
}

/// A role as an observer sees it, at the time of the call.
///
/// Leases are counted on this process's own monotonic clock, from the moment when data was received
/// here. So they are too short by the time that the data was under way. How long something has
/// lasted (`since`, `since_at`, `unled`) is dated by the server, so that it does not begin anew with
/// an observer. No clock of another machine decides who is reported to lead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Observed {
    /// The state of the role.
    pub standing: Standing,
    /// The leader, if [`standing`](Self::standing) is [`Led`](Standing::Led). A record that can't
    /// be read has a leader without a name.
    pub leader: Option<LeaderInfo>,
    /// Whether the leader was seen alive: it claimed the role or sent a heartbeat while this watch
    /// was running.
    ///
    /// This is `false` at first, and after each interruption of the watch. The record of a leader
    /// that died long ago looks the same until its lease has passed.
    pub confirmed: bool,
    /// Time since the leader's term began, as the server dated its fence record. Without that
    /// record: since the first record of this leader that was seen was stored.
    pub since: Option<Duration>,
    /// When the leader's term began, as the server dated its fence record. If no leader is
    /// reported: since when that is so. That is the end of the last lease, or when the server
    /// stored the marker that freed the role; or when it was first seen, where the stream does not
    /// tell.
    ///
    /// The time is by the server's clock, so it does not change if another observer looks. It is
    /// for people, not for comparing.
    pub since_at: Option<SystemTime>,
    /// For how long no leader has been known to be alive: for zero at least while a leader is
    /// reported that was not seen alive, or whose lease has passed. `None` while one is known to be
    /// alive. It is counted from the time of the server's clock in `since_at`.
    pub unled: Option<Duration>,
    /// The fencing token of the leader's term. It is not known for leaders that write no fence
    /// record, and between a claim and its fence record. If trusted keys are set, it is the token
    /// that was signed.
    pub fencing_token: Option<FencingToken>,
    /// Revision of the role's key. `None` if the key has no value.
    pub revision: Option<u64>,
    /// The lease of the current record, as the record states it. Otherwise the bucket's max age, or
    /// else the observer's default. If the role has no leader: the lease of the last one, if it is
    /// known.
    pub ttl: Option<Duration>,
    /// Age of the lease: time since the last heartbeat was received, or since the record was first
    /// shown here.
    pub age: Option<Duration>,
    /// Time until the lease has passed as seen from here, if no heartbeat comes. The leader itself
    /// counts from when it sent the heartbeat, and stops before its own end.
    pub remaining: Option<Duration>,
    /// Whether the current value is not a readable record.
    pub opaque: bool,
    /// The reason why the record is not trusted, if it is not.
    pub distrust: Option<Distrust>,
    /// The last leader, if no leader is reported now and one was reported before.
    pub last_leader: Option<LeaderInfo>,
}

/// Whether the reports of an observer are current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WatchStatus {
    /// The observer is connected and the watch is running. For all roles it has seen the data that
    /// the stream leader had when the watch began.
    Current,
    /// The reports are not current. Everything is as it was last seen.
    Stale {
        /// Time since something was last received.
        since: Duration,
        /// The reason, in words.
        reason: String,
    },
}

impl WatchStatus {
    /// Returns whether it is [`Current`](Self::Current).
    pub const fn is_current(&self) -> bool {
        matches!(self, Self::Current)
    }
}

/// The reason why a role changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeCause {
    /// The role was in this state when the watch began, or began again after an interruption. Such
    /// a leader is not yet [`confirmed`](Observed::confirmed). Or the last leader, which was out of
    /// sight, sent a heartbeat.
    Found,
    /// A new leader claimed the role. The release before it may not have been shown: a claim that
    /// follows at once writes over it.
    Claimed,
    /// The successor that the last leader had named claimed the role.
    HandedOver,
    /// The leader freed the role.
    Released,
    /// The role's key was deleted by another client, expired in the server, or was removed without
    /// a trace.
    Deleted,
    /// The leader sent no heartbeat for a whole lease.
    Expired,
    /// The leader's lease has passed while the observer could see nothing. It is not known whether
    /// it still leads.
    LostSight,
    /// No trusted key signed the current record, or the last signed statement has expired.
    Untrusted,
    /// The bucket was deleted and created again. Nothing of the old bucket is valid any more. The
    /// state of the role in the new bucket is reported when that bucket was read. Until then the
    /// role is [`Unknown`](Standing::Unknown).
    BucketReplaced,
}

labels!(ChangeCause {
    Found => "found",
    Claimed => "claimed",
    HandedOver => "handed_over",
    Released => "released",
    Deleted => "deleted",
    Expired => "expired",
    LostSight => "lost_sight",
    Untrusted => "untrusted",
    BucketReplaced => "bucket_replaced",
});

/// A change of a role's leader or standing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleChange {
    /// The role.
    pub role: String,
    /// The leader before, as far as it was reported.
    pub from: Option<LeaderInfo>,
    /// The leader now. If only the standing changed, it may be the same as before, and then both
    /// are `None`.
    pub to: Option<LeaderInfo>,
    /// The state of the role now.
    pub standing: Standing,
    /// The reason of the change.
    pub cause: ChangeCause,
    /// For a new leader: time from the last sign of the one before to the claim, on this process's
    /// monotonic clock. The sign is its release, or else its last heartbeat. After a release it is
    /// the time for which nobody led. After a crash nobody led for at most this long.
    ///
    /// `None` if the sign or the claim was not received as it came: before the watch, or in an
    /// interruption.
    #[serde(
        rename = "silence_seconds",
        serialize_with = "nats_elect_core::duration::seconds::option::serialize"
    )]
    pub silence: Option<Duration>,
    /// When the change was seen, by this machine's wall clock. The time is for people, not for
    /// comparing.
    pub at: SystemTime,
}

/// A change that an observer reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// A role changed.
    Role(Box<RoleChange>),
    /// From now on the reports are current.
    Current,
    /// From now on the reports show the state as it was last seen.
    Stale {
        /// The reason, in words.
        reason: String,
    },
    /// The reader of this stream was too slow, and changes are missing here.
    /// [`roles`](super::Observer::roles) returns the current state.
    Lagged {
        /// The number of missing changes.
        missed: u64,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_label_is_the_same_in_json_and_in_text() {
        for label in Standing::ALL {
            assert_eq!(json!(label), label.to_string());
        }
        for label in ChangeCause::ALL {
            assert_eq!(json!(label), label.to_string());
        }
    }
}
