//! The errors of a manager, an observer or the history.

use std::time::Duration;

use thiserror::Error;

use crate::model::config::ConfigError;
use crate::role::TermError;
use crate::store::StoreError;
use nats_elect_core::duration::exact;
use nats_elect_core::name::{GroupName, NameError, RoleName};
use nats_elect_core::peer::Refusal;
use nats_elect_core::token::FencingToken;

/// The reason why a manager, a role, an observer or the history could not do what was requested.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting breaks a rule.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting of a role breaks a rule.
    #[error("role `{role}`: {error}")]
    RoleConfig {
        /// The role.
        role: String,
        /// The error of the setting.
        error: ConfigError,
    },
    /// A name breaks a rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Two roles have the same name.
    #[error(
        "there is a role `{0}` already: give each role a name of its own, or remove the other first"
    )]
    DuplicateRole(RoleName),
    /// There is no role of this name.
    #[error("there is no role `{0}` here: add it first")]
    UnknownRole(String),
    /// Two groups have the same name.
    #[error("there is a group `{0}` already: give each group a name of its own")]
    DuplicateGroup(GroupName),
    /// There is no group of this name.
    #[error("there is no group `{0}` here: give it to the builder")]
    UnknownGroup(String),
    /// A setting of a group breaks a rule.
    #[error("group `{group}`: {error}")]
    GroupConfig {
        /// The group.
        group: String,
        /// The error of the setting.
        error: ConfigError,
    },
    /// `start` was called outside a tokio runtime. Handlers need one to run on.
    #[error("no tokio runtime: call `start` inside one, because handlers run on it")]
    NoRuntime,
    /// The system could not create a thread or a runtime for the elections.
    #[error("the election thread could not be started: {0}")]
    Thread(String),
    /// There can be no companion process for `last_will`.
    #[error("`last_will` needs a companion process: {0}")]
    LastWill(String),
    /// NATS could not be reached or used within `start_timeout`.
    #[error("NATS could not be used within {}: {reason}", exact(*.after))]
    Unavailable {
        /// How long the attempts lasted.
        after: Duration,
        /// The last cause.
        reason: String,
    },
    /// NATS refused the credentials.
    #[error("{0}")]
    Authentication(String),
    /// TLS could not be set up, or one side refused the other's certificate.
    #[error("{0}")]
    Tls(String),
    /// JetStream is off on the server or for this account.
    #[error("JetStream is not enabled ({0}): enable it on the server and for this account")]
    JetStreamDisabled(String),
    /// The bucket does not exist.
    #[error("bucket {0:?} does not exist: create it, or set `bucket_auto_create`")]
    BucketMissing(String),
    /// Leader changes of the bucket are not kept: see [`History`](crate::History).
    #[error(
        "there is no stream {stream} of leader changes: `nats-elect create-bucket` makes it, and keeps them from now on"
    )]
    HistoryNotKept {
        /// The stream that was looked for.
        stream: String,
    },
    /// The bucket can't serve elections.
    #[error("{0}")]
    BucketUnfit(String),
    /// The role is or was led by an instance of another application, and both set their names
    /// ([`ManagerConfig::application`](field@crate::ManagerConfig::application)).
    #[error(
        "role {role:?} in bucket {bucket:?} is of application {other:?} (led by {instance_id:?}), and this is {own:?}: \
         use another bucket (`bucket`, NATS_ELECT_BUCKET) or another name of the role; if the application was renamed, \
         stop the instances of {other:?} first, and run `nats-elect role retire {role}` if one crashed"
    )]
    OtherApplication {
        /// The role.
        role: String,
        /// The bucket.
        bucket: String,
        /// The name of this application.
        own: String,
        /// The name of the other one.
        other: String,
        /// The instance that led last.
        instance_id: String,
    },
    /// The connected server, or the one that leads the bucket's stream, is older than 2.11.2.
    #[error("nats-server {version} is too old for elections: upgrade it to 2.11.2 or later")]
    ServerTooOld {
        /// The server's version, as far as it reported it.
        version: String,
    },
    /// The NATS user lacks a permission that is needed.
    #[error("permission denied: {0}: grant it to this user")]
    PermissionDenied(String),
    /// The server refused a request for another reason.
    #[error("{0}")]
    Rejected(String),
    /// The instance does not lead the role.
    #[error("this instance does not lead the role")]
    NotLeader,
    /// The instance leads the role, but in another term than the expected one. Nothing was done.
    #[error(
        "this instance leads the role in another term, with the fencing token {fencing_token}; nothing was done"
    )]
    UnexpectedTerm {
        /// The fencing token of the term that goes on.
        fencing_token: FencingToken,
    },
    /// Leadership could not be proved just now.
    #[error(
        "leadership could not be proved just now ({reason}): do nothing critical, and ask again"
    )]
    Unproven {
        /// The cause of the failure.
        reason: String,
    },
    /// The named successor did not answer in time, or no process of that name is there. This
    /// instance still leads.
    #[error(
        "no answer from {successor:?}: it is not running, is cut off, or may not answer; this instance leads on"
    )]
    SuccessorAbsent {
        /// The successor's instance id.
        successor: String,
    },
    /// The named successor can't take the role now. This instance still leads.
    #[error("{successor:?} can't take the role now: {}; this instance leads on", reason.describe())]
    SuccessorRefused {
        /// The successor's instance id.
        successor: String,
        /// The reason.
        reason: Refusal,
    },
    /// The role or the manager has been stopped.
    #[error("the role is stopped on this instance: add it again, or start a new manager")]
    Stopped,
    /// The process of the instance should be restarted: see [`Probe::live`](crate::Probe::live).
    #[error("{0}")]
    NotLive(String),
    /// Handlers did not end in time, or NATS was out of reach so that their roles could not be
    /// freed. The leases run out.
    #[error("not left after {}: {}; either a handler still runs (it must return when its term is cancelled), or NATS is out of reach; the leases run out", exact(*.after), .roles.join(", "))]
    StopTimedOut {
        /// How long the manager waited.
        after: Duration,
        /// The roles that were not left.
        roles: Vec<String>,
    },
}

impl Error {
    /// Returns whether the same call may succeed later without any intervention.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable { .. }
                | Self::Unproven { .. }
                | Self::SuccessorAbsent { .. }
                | Self::SuccessorRefused { .. }
        )
    }

    /// The bucket can't be used, and that does not pass by itself.
    pub(crate) fn of_bucket(error: StoreError) -> Self {
        match error {
            StoreError::BucketMissing { bucket } => Self::BucketMissing(bucket),
            StoreError::JetStreamDisabled(detail) => Self::JetStreamDisabled(detail),
            StoreError::PermissionDenied(detail) => Self::PermissionDenied(detail),
            StoreError::ServerTooOld { version } => Self::ServerTooOld { version },
            StoreError::BucketUnfit(_) => Self::BucketUnfit(error.to_string()),
            error => Self::Rejected(error.to_string()),
        }
    }

    /// A read of the bucket failed, which was tried for so long.
    pub(crate) fn of_reading(error: StoreError, tried: Duration) -> Self {
        match error {
            StoreError::Unavailable(_) | StoreError::Timeout { .. } => Self::Unavailable {
                after: tried,
                reason: error.to_string(),
            },
            error => Self::of_bucket(error),
        }
    }
}

impl From<TermError> for Error {
    fn from(error: TermError) -> Self {
        match error {
            TermError::NotLeader => Self::NotLeader,
            TermError::Unproven { reason } => Self::Unproven { reason },
            TermError::Stopped => Self::Stopped,
        }
    }
}
