//! The status of a role for applications.

use std::time::Duration;

use nats_elect_core::duration::seconds;
use nats_elect_core::status::{ConnectionStatus, LeaderInfo, RoleState};
use nats_elect_core::token::{CorrelationId, FencingToken};
use nats_elect_core::whole;
use serde::Serialize;

use crate::model::admin::LastFailure;

/// A role's status at one moment, seen from one instance.
///
/// Its serialized form is that of [`admin::RoleReport`](crate::admin::RoleReport): durations are
/// numbers of seconds in fields that end in `_seconds`, a fencing token is text, and so is a whole
/// number beyond 2^53.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RoleStatus {
    /// The state of this instance.
    pub state: RoleState,
    /// Whether this instance leads, by the clock at the time of the call.
    pub is_leader: bool,
    /// Whether this instance is paused. A paused instance takes no new term until it is resumed. A
    /// term that it has goes on.
    pub paused: bool,
    /// How long this instance still waits for another chance, because its terms failed one after
    /// the other. Until then it asks no leader for the role, is no heir, and claims last.
    #[serde(rename = "failing_seconds", with = "seconds::option")]
    pub failing: Option<Duration>,
    /// How long this instance, which leads by an operator's order, keeps the role against
    /// candidates of higher priority.
    #[serde(rename = "kept_seconds", with = "seconds::option")]
    pub kept: Option<Duration>,
    /// The leader, as far as this instance knows.
    pub leader: Option<LeaderInfo>,
    /// The fencing token of this instance's term.
    pub fencing_token: Option<FencingToken>,
    /// The name of this instance's term in logs, spans and published events.
    pub correlation_id: Option<CorrelationId>,
    /// Time since the last confirmed heartbeat of this instance's term was sent.
    #[serde(rename = "last_heartbeat_seconds", with = "seconds::option")]
    pub last_heartbeat: Option<Duration>,
    /// How long the last confirmed heartbeat of this instance's term took, from sending it to its
    /// answer. `None` before the first heartbeat. The write that claims the role is not a
    /// heartbeat.
    #[serde(rename = "heartbeat_took_seconds", with = "seconds::option")]
    pub heartbeat_took: Option<Duration>,
    /// Time since the state last changed.
    #[serde(rename = "last_transition_seconds", with = "seconds")]
    pub last_transition: Duration,
    /// Revision of the role's key, as last seen.
    #[serde(with = "whole::option")]
    pub revision: Option<u64>,
    /// How far the role can rely on NATS.
    pub connection: ConnectionStatus,
    /// Time until this instance's lease ends, if it holds one.
    #[serde(rename = "lease_remaining_seconds", with = "seconds::option")]
    pub lease_remaining: Option<Duration>,
    /// Whether the handler runs on although its lease is over. Only the end of the process ends it
    /// then.
    pub overrun: bool,
    /// The last failure. `None` if since then a term began, a heartbeat was confirmed, another
    /// instance won a claim, or the connection came back. Its age shows whether the failure still
    /// goes on.
    pub last_failure: Option<LastFailure>,
}

#[cfg(test)]
mod tests {
    use nats_elect_core::event::FailureKind;
    use serde_json::json;

    use super::*;

    #[test]
    fn its_json_is_in_the_notation_of_the_admin_service() {
        let status = RoleStatus {
            state: RoleState::Leader,
            is_leader: true,
            paused: false,
            failing: Some(Duration::from_secs(240)),
            kept: None,
            leader: None,
            fencing_token: Some(FencingToken {
                epoch: u64::MAX,
                sequence: 7,
            }),
            correlation_id: None,
            last_heartbeat: Some(Duration::from_millis(1500)),
            heartbeat_took: Some(Duration::from_micros(830)),
            last_transition: Duration::from_secs(60),
            revision: Some(u64::MAX),
            connection: ConnectionStatus::Connected,
            lease_remaining: None,
            overrun: false,
            last_failure: Some(LastFailure {
                kind: Some(FailureKind::Timeout),
                detail: "slow".into(),
                ago: Duration::from_secs(2),
            }),
        };
        let expected = json!({
            "state": "leader",
            "is_leader": true,
            "paused": false,
            "failing_seconds": 240,
            "kept_seconds": null,
            "leader": null,
            "fencing_token": "ffffffffffffffff0000000000000007",
            "correlation_id": null,
            "last_heartbeat_seconds": 1.5,
            "heartbeat_took_seconds": 0.00083,
            "last_transition_seconds": 60,
            "revision": "18446744073709551615",
            "connection": "connected",
            "lease_remaining_seconds": null,
            "overrun": false,
            "last_failure": {"kind": "timeout", "detail": "slow", "ago_seconds": 2},
        });
        let json = serde_json::to_value(&status).expect("JSON");
        assert_eq!(json, expected);
        assert_eq!(crate::model::rounded(&json), expected);
    }
}
