//! The errors of admin requests.

use thiserror::Error;

use super::{BucketId, Instance};
use crate::model::admin::ProblemCode;
use crate::model::config::ConfigError;
use crate::store::{Asking, StoreError};
use nats_elect_core::duration::rounded;
use nats_elect_core::name::NameError;

/// The reason why a request to an instance did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The bucket's or the role's name breaks a rule.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The subject prefix breaks a rule.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No process listens. The instance has ended, has its admin service switched off, or was
    /// restarted.
    #[error("no instance {0} answers: it may have ended or restarted, so list the instances again")]
    NoSuchInstance(String),
    /// Several running processes have this id.
    #[error(
        "{} instances have the id {id:?}: name one by its incarnation ({})",
        .found.len(),
        .found.iter().map(|it| it.incarnation.to_string()).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The id.
        id: String,
        /// All instances that have it.
        found: Vec<Instance>,
    },
    /// Instances of two buckets of the name answer, each bucket in a `JetStream` domain of its own.
    /// Or the bucket was just created anew, and not all have seen that yet.
    #[error("two buckets {name:?} answer: {}, and {}", .found[0], .found[1])]
    TwoBuckets {
        /// The name of both.
        name: String,
        /// What tells them apart.
        found: Box<[BucketId; 2]>,
    },
    /// No instance that was found leads the role.
    #[error("no instance that answers leads {0:?}")]
    NoLeader(String),
    /// The instance did not do it, and gave a reason.
    #[error("{instance} did not do it ({code}): {reason}")]
    Refused {
        /// The instance.
        instance: Box<Instance>,
        /// The reason, for programs.
        code: ProblemCode,
        /// The reason, in words.
        reason: String,
    },
    /// There was no answer in time. A request that changes something may have been done all the
    /// same, so ask for the status.
    ///
    /// A missing permission looks the same. The server reports it only as an event of the
    /// connection.
    #[error(
        "no answer to {subject:?} within {}: the instance may be cut off, or this user may not publish there or subscribe to \"{}\", where answers come in; \
         the request may have been carried out, so ask for the status",
        rounded(*.after),
        inboxes(.inbox)
    )]
    Timeout {
        /// The subject of the request.
        subject: String,
        /// The subject on which the answer was awaited.
        inbox: String,
        /// How long the client waited.
        after: std::time::Duration,
    },
    /// This version does not understand the answer.
    #[error("the answer of {instance} can't be read: it may be of another version")]
    NotUnderstood {
        /// The instance.
        instance: Box<Instance>,
    },
    /// The connection does not take requests just now.
    #[error("NATS takes no requests just now: {0}")]
    Unavailable(String),
}

impl AdminError {
    /// Converts the error of a connection that does not take requests.
    pub(super) fn unavailable(error: StoreError) -> Self {
        Self::Unavailable(match error {
            StoreError::Unavailable(detail) => detail,
            error => error.to_string(),
        })
    }

    pub(super) fn timed_out(asking: &Asking, after: std::time::Duration) -> Self {
        Self::Timeout {
            subject: asking.subject.clone(),
            inbox: asking.reply.clone(),
            after,
        }
    }

    /// Returns the instance's reason for programs, if the instance refused the request.
    pub const fn refusal(&self) -> Option<ProblemCode> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }
}

/// The subjects of answers, of which each one ends in a random part, as a permission names them.
fn inboxes(inbox: &str) -> String {
    let prefix = inbox.rsplit_once('.').map_or(inbox, |(prefix, _)| prefix);
    format!("{prefix}.>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_random_subject_is_told_as_the_permission_that_is_missing() {
        let error = AdminError::Timeout {
            subject: "nats-elect-admin.b.status.a".into(),
            inbox: "nats-elect-admin.b._answer.e374253a".into(),
            after: std::time::Duration::from_secs(2),
        };
        let text = error.to_string();
        let expected = "subscribe to \"nats-elect-admin.b._answer.>\", where answers come in";
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("e374253a"), "{text}");
    }
}
