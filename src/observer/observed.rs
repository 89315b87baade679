//! What an observer tells of roles.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use nats_elect_core::event::Distrust;
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::token::FencingToken;

/// How a role stands, as it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// Somebody leads: a record stands whose lease was not seen to run out.
    Led,
    /// A record stands, but no trusted key signed it: where trusted keys are set, nobody is told as the leader then.
    Untrusted,
    /// Its leader freed it.
    Released,
    /// Its leader freed it in the name of an heir, to whom the others leave it for a while.
    HandedOver,
    /// Its key was deleted by another hand than its leader's, or the server let it expire.
    Deleted,
    /// The last leader's record stands there still, but its lease has passed without a heartbeat.
    Expired,
    /// Nothing stands under its key: it was never led, or its key was removed without a trace.
    Unclaimed,
    /// Not known: the lease of the last leader has passed, but nobody could see whether it sent heartbeats; or the bucket is another
    /// one, and was not read yet.
    Unknown,
}

impl Standing {
    /// The standing's name as it stands in logs and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Led => "led",
            Self::Untrusted => "untrusted",
            Self::Released => "released",
            Self::HandedOver => "handed_over",
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::Unclaimed => "unclaimed",
            Self::Unknown => "unknown",
        }
    }

    /// Whether nobody leads for certain: a claim would succeed, or will once others have waited for as long as they must.
    pub const fn is_free(self) -> bool {
        matches!(
            self,
            Self::Released | Self::HandedOver | Self::Deleted | Self::Expired | Self::Unclaimed
        )
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A role as an observer sees it, at the time of the call.
///
/// All times are counted on this process's own monotonic clock from when something was received here, so they are short of the
/// truth by the time that it was under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Observed {
    /// How it stands.
    pub standing: Standing,
    /// Who leads, if [`standing`](Self::standing) is [`Led`](Standing::Led). A record that can't be read has a leader without a
    /// name.
    pub leader: Option<LeaderInfo>,
    /// Whether the leader was seen alive: it claimed the role or sent a heartbeat while this watch was running. Not so at
    /// first, and after each interruption of the watch: the record of a leader that died long ago looks the same until
    /// its lease has passed.
    pub confirmed: bool,
    /// Time since this leader was first seen to lead, interruptions of the watch included.
    pub since: Option<Duration>,
    /// The fencing token of the leader's term. Not known for leaders that write no fence record, and between a claim and its
    /// fence record. Where trusted keys are set it is the one that was signed.
    pub fencing_token: Option<FencingToken>,
    /// Revision of the role's key; none if nothing stands there.
    pub revision: Option<u64>,
    /// The lease of the record that stands there, as it says; else the bucket's max age, else the observer's default.
    pub ttl: Option<Duration>,
    /// Age of the lease: time since the last heartbeat was received, or since the record was first shown here.
    pub age: Option<Duration>,
    /// Time until the lease has passed as seen from here, if no heartbeat comes. The leader itself counts from when it sent the
    /// heartbeat, and stops before its own end.
    pub remaining: Option<Duration>,
    /// Whether the value that stands there is no record that can be read.
    pub opaque: bool,
    /// Why the record is not trusted, if it is not.
    #[serde(serialize_with = "distrust")]
    pub distrust: Option<Distrust>,
    /// Who led last, if nobody is told to lead now and somebody was before.
    pub last_leader: Option<LeaderInfo>,
}

#[expect(
    clippy::ref_option,
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it so"
)]
fn distrust<S: serde::Serializer>(
    why: &Option<Distrust>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    why.map(Distrust::as_str).serialize(serializer)
}

/// Whether what an observer says is current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WatchStatus {
    /// Connected, the watch is running, and of all roles was seen what the stream leader had when the watch began.
    Current,
    /// Not so: everything is as it was last seen.
    Stale {
        /// Time since something was last received.
        since: Duration,
        /// What is the matter, in words.
        reason: String,
    },
}

impl WatchStatus {
    /// Whether it is [`Current`](Self::Current).
    pub const fn is_current(&self) -> bool {
        matches!(self, Self::Current)
    }
}

/// Why a role changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChangeCause {
    /// It stood so when the watch began, or began again after an interruption: such a leader is not yet
    /// [`confirmed`](Observed::confirmed). Or the last leader, of whom sight was lost, sent a heartbeat.
    Found,
    /// A new leader claimed it.
    Claimed,
    /// The heir whom the last leader had named claimed it.
    HandedOver,
    /// Its leader freed it.
    Released,
    /// Its key was deleted by another hand, expired in the server, or was removed without a trace.
    Deleted,
    /// Its leader sent no heartbeat for a whole lease.
    Expired,
    /// Its leader's lease has passed while nothing could be seen: whether it still leads is not known.
    LostSight,
    /// No trusted key signed the record that stands there, or the last signed word has expired.
    Untrusted,
    /// The bucket was deleted and created again: nothing of before holds. How the role stands in the new one is told when that was
    /// read; until then it is [`Unknown`](Standing::Unknown).
    BucketReplaced,
}

impl ChangeCause {
    /// The cause's name as it stands in logs and in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Claimed => "claimed",
            Self::HandedOver => "handed_over",
            Self::Released => "released",
            Self::Deleted => "deleted",
            Self::Expired => "expired",
            Self::LostSight => "lost_sight",
            Self::Untrusted => "untrusted",
            Self::BucketReplaced => "bucket_replaced",
        }
    }
}

impl fmt::Display for ChangeCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A role is led by another than before, or stands otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleChange {
    /// The role.
    pub role: String,
    /// Who led before, as far as it was told.
    pub from: Option<LeaderInfo>,
    /// Who leads now. It may be the same as before, if only the standing changed; then it is nobody.
    pub to: Option<LeaderInfo>,
    /// How the role stands now.
    pub standing: Standing,
    /// Why.
    pub cause: ChangeCause,
    /// When it was seen, by this machine's wall clock: for people, not for comparing.
    pub at: SystemTime,
}

/// What an observer tells as it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Change {
    /// A role changed.
    Role(Box<RoleChange>),
    /// From now on what is told is current.
    Current,
    /// From now on what is told is as it was last seen.
    Stale {
        /// What is the matter, in words.
        reason: String,
    },
    /// The reader of this stream was too slow: so many changes are missing here. [`roles`](super::Observer::roles) tells
    /// how things stand.
    Lagged {
        /// How many.
        missed: u64,
    },
}
