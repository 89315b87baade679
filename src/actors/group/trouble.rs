//! What is logged of the lease, and of requests that fail.

use super::GroupState;
use crate::clock;
use crate::repeated::Repeated;
use nats_elect_core::assignment::{Epoch, Key};
use nats_elect_core::event::{EndCause, FailureKind};
use nats_elect_core::member::Input;
use nats_elect_core::{Failure, Moment, WriteOutcome};

/// What was logged so far.
#[derive(Default)]
pub(super) struct Trouble {
    pub logged: Repeated,
    /// The lease, as it was seen last.
    lease: Option<(Epoch, Moment)>,
    /// Whether the member waits for leases of another bucket.
    waits: bool,
    /// Whether its writes of the map keep failing.
    aside: bool,
}

impl GroupState {
    /// Logs that the member has a lease, has lost one, or can't own units by the one that it has.
    pub(super) fn log_lease(&mut self) {
        let now = clock::now();
        let lease = self.member.epoch().zip(self.member.lease_until());
        let before = std::mem::replace(&mut self.trouble.lease, lease);
        let epoch = lease.map(|(epoch, _)| epoch);
        let group = &self.scope.name;
        if let Some((lost, until)) = before
            && epoch != Some(lost)
            && self.stopping.is_none()
        {
            let cause = if until <= now {
                EndCause::LeaseExpired
            } else {
                EndCause::Superseded
            };
            let terms = self.running.len();
            tracing::warn!(
                %group,
                epoch = %lost,
                cause = cause.as_str(),
                terms,
                "the member's lease is lost: all terms of its units end, and it joins again"
            );
        }
        let Some(epoch) = epoch else {
            return;
        };
        if before.map(|(it, _)| it) != Some(epoch) {
            tracing::info!(%group, %epoch, "this instance is a member");
            self.trouble.logged.clear();
        }
        let waits = self.member.waits();
        if !std::mem::replace(&mut self.trouble.waits, waits) && waits {
            tracing::warn!(
                %group,
                "the bucket is another one than before, or lost writes: this member owns no unit until leases of before are over"
            );
        }
        let aside = self.member.is_aside();
        if !std::mem::replace(&mut self.trouble.aside, aside) && aside {
            tracing::warn!(
                %group,
                "this member can't write the group's map, and leaves that to others for five minutes at a time"
            );
        }
    }

    /// Logs and counts the failure of a request, if this is one.
    pub(super) fn log_failure(&mut self, answer: &Input) {
        let (Input::BeatEnded {
            outcome: WriteOutcome::Failed(failure),
            ..
        }
        | Input::Written {
            outcome: WriteOutcome::Failed(failure),
            ..
        }
        | Input::Looked {
            found: Err(failure),
            ..
        }) = answer
        else {
            return;
        };
        let Failure { kind, detail } = failure;
        if *kind == FailureKind::Contended {
            return;
        }
        self.scope.labels.failed(*kind);
        // Each attempt to join has an epoch of its own.
        let of_all = Key::members_of(&self.scope.name);
        let trouble = without_epoch(detail, of_all.trim_end_matches('*'));
        if self.trouble.logged.is_due(&trouble, clock::now()).is_none() {
            return;
        }
        let text = if let Input::Written { .. } = answer {
            "a value of the group was not written"
        } else {
            "the member's lease is in trouble"
        };
        let (group, kind) = (&self.scope.name, *kind);
        if kind == FailureKind::BucketUnfit {
            tracing::error!(kind = kind.as_str(), %group, detail, "{text}");
        } else {
            tracing::warn!(kind = kind.as_str(), %group, detail, "{text}");
        }
    }
}

/// The text without the epoch in the first key that begins so.
fn without_epoch(text: &str, before: &str) -> String {
    let Some((head, tail)) = text.split_once(before) else {
        return text.to_owned();
    };
    let is_of_epoch = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let tail = tail.trim_start_matches(is_of_epoch);
    format!("{head}{before}*{tail}")
}

#[cfg(test)]
mod tests {
    use super::without_epoch;

    #[test]
    fn failures_of_several_epochs_are_one() {
        let told = |epoch: &str| {
            let text = format!("may not publish to \"$KV.b._groups.g.member.{epoch}\": grant it");
            without_epoch(&text, "_groups.g.member.")
        };
        assert_eq!(
            told("qEqiMgv59ww5WqECoufHkw"),
            told("4JWViKAJZbrY6AII59xt-_")
        );
        assert!(told("A").ends_with("member.*\": grant it"), "{}", told("A"));
        assert_eq!(without_epoch("timeout", "_groups.g.member."), "timeout");
    }
}
