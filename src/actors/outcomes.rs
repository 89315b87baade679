//! The store's answers, as the state machines of the core take them.

use crate::store::StoreError;
use nats_elect_core::{Failure, WriteOutcome};

pub(crate) fn failure_of(error: &StoreError) -> Failure {
    let detail = match error {
        StoreError::PermissionDenied(denied) => {
            format!("{denied}: grant it, or let this instance not stand for the role")
        }
        error => error.to_string(),
    };
    Failure {
        kind: error.kind(),
        detail,
    }
}

pub(crate) fn outcome_of(result: Result<u64, StoreError>) -> WriteOutcome {
    match result {
        Ok(revision) => WriteOutcome::Acked { revision },
        Err(StoreError::Conflict { current }) => WriteOutcome::Conflict { current },
        Err(error) => WriteOutcome::Failed(failure_of(&error)),
    }
}
