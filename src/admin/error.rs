//! What can go wrong for those who operate instances.

use thiserror::Error;

use super::Instance;
use crate::model::admin::ProblemCode;
use crate::model::config::ConfigError;
use nats_elect_core::name::NameError;

/// Why a request to an instance did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The bucket's or the role's name breaks a rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The subject prefix breaks a rule.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Nobody listens: the instance has ended, has its admin service switched off, or was started anew.
    #[error("no instance {0} is there: look again who is, it may have been started anew")]
    NoSuchInstance(String),
    /// Several running processes have this id.
    #[error(
        "{} instances are called {id:?}: name one by its incarnation ({})",
        .found.len(),
        .found.iter().map(|it| it.incarnation.to_string()).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The id.
        id: String,
        /// All that have it.
        found: Vec<Instance>,
    },
    /// No instance that was found leads the role.
    #[error("no instance that answers leads {0:?}")]
    NoLeader(String),
    /// The instance did not do it, and says why.
    #[error("{instance} did not do it ({code}): {reason}")]
    Refused {
        /// The instance.
        instance: Box<Instance>,
        /// Why, for programs.
        code: ProblemCode,
        /// Why, in words.
        reason: String,
    },
    /// No answer in time. What acts may have been done all the same: ask for the status.
    ///
    /// A permission that is missing looks the same: the server tells of it only on the side, as an event of the connection.
    #[error(
        "no answer to {subject:?} within {after:?}: the instance may be cut off, or this user may not publish there or subscribe to {inbox:?}; \
         what acts may have been done, ask for the status"
    )]
    Timeout {
        /// Where was asked.
        subject: String,
        /// Where the answer was waited for.
        inbox: String,
        /// How long.
        after: std::time::Duration,
    },
    /// An answer that this version does not understand.
    #[error("{instance} gave an answer that is not understood: it may be of another version")]
    NotUnderstood {
        /// The instance.
        instance: Box<Instance>,
    },
    /// The connection does not take requests just now.
    #[error("NATS can't be asked just now: {0}")]
    Unavailable(String),
}

impl AdminError {
    /// What the instance said for programs, if it was it that refused.
    pub const fn refusal(&self) -> Option<ProblemCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}
