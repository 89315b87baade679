//! A last will is carried out on NATS.

use std::time::Duration;

use tokio::sync::watch;

use crate::actors::Link;
use crate::actors::outcomes::{failure_of, outcome_of};
use crate::clock;
use crate::store::Bucket;
use nats_elect_core::event::FailureKind;
use nats_elect_core::name::RoleName;
use nats_elect_core::{Failure, LastWill, WillEnd, WillStep, WriteOutcome};

/// How long a request may take before it is tried again.
const PATIENCE: Duration = Duration::from_secs(1);

/// Does what the will says, from this step on, until it has ended.
pub(super) async fn carry_out(
    role: RoleName,
    mut will: LastWill,
    mut step: WillStep,
    link: watch::Receiver<Link>,
) -> WillEnd {
    loop {
        step = match step {
            WillStep::Release { over, release } => {
                let outcome = match bucket(&link) {
                    Ok(bucket) => {
                        let written = bucket.release(&role, over, &release, PATIENCE).await;
                        outcome_of(written)
                    }
                    Err(failure) => WriteOutcome::Failed(failure),
                };
                will.written(clock::now(), &outcome)
            }
            WillStep::Read => {
                let snapshot = match bucket(&link) {
                    Ok(bucket) => {
                        let read = bucket.snapshot(&role, PATIENCE).await;
                        read.map_err(|error| failure_of(&error))
                    }
                    Err(failure) => Err(failure),
                };
                will.read(clock::now(), &snapshot)
            }
            WillStep::Pause(pause) => {
                tokio::time::sleep(pause).await;
                will.rested(clock::now())
            }
            WillStep::Ended(end) => return end,
        };
    }
}

/// Returns the creation time of the bucket at the other end of the link, if its sequences are never
/// used twice.
pub(super) fn certain_epoch(link: &watch::Receiver<Link>) -> Option<u64> {
    match &*link.borrow() {
        Link::Up { info, .. } if info.unique_sequences => Some(info.epoch),
        _ => None,
    }
}

fn bucket(link: &watch::Receiver<Link>) -> Result<Bucket, Failure> {
    match &*link.borrow() {
        Link::Up { bucket, .. } => Ok(bucket.clone()),
        Link::Unusable(failure) => Err(failure.clone()),
        Link::Down => Err(Failure {
            kind: FailureKind::Unavailable,
            detail: "no connection".into(),
        }),
    }
}
