//! The report of an instance about itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::{AdminReply, GroupReport};
use crate::model::bequests::LastWillStatus;
use crate::model::config::Takeover;
use nats_elect_core::duration::seconds;
use nats_elect_core::event::FailureKind;
use nats_elect_core::status::{ConnectionStatus, RoleState};
use nats_elect_core::token::FencingToken;
use nats_elect_core::whole;

/// The report of an instance about itself and its roles.
///
/// In its JSON, durations are numbers of seconds in fields that end in `_seconds`, and a fencing
/// token is the text that its `Display` writes. A whole number beyond 2^53 is the text of its
/// digits. The report contains no lease token.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InstanceReport {
    /// The type of this document: `io.nats-elect.admin.v1.status`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The instance's id.
    pub instance_id: String,
    /// Names this start of the instance.
    pub incarnation: Uuid,
    /// The version of this crate that the instance runs.
    pub version: String,
    /// The bucket in whose elections the instance takes part.
    pub bucket: String,
    /// The application of the instance, as
    /// [`ManagerConfig::application`](field@crate::ManagerConfig::application) has it, or the name of
    /// its program's file. `None` from a version that does not tell it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Facts that the instance tells about itself, as
    /// [`ManagerConfig::meta`](field@crate::ManagerConfig::meta) has them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub meta: BTreeMap<String, String>,
    /// Time since the instance's manager started.
    #[serde(rename = "uptime_seconds", with = "seconds", default)]
    pub uptime: Duration,
    /// The reason, in words, why the bucket can't be used just now. `None` if it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// The state of the companion process of [`last_will`](mod@crate::last_will). `None` if there
    /// is to be none, and from a version that knows of more states or of none.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_will: Option<LastWillStatus>,
    /// The instance's roles by name: all of them, or the one that was asked about.
    #[serde(default)]
    pub roles: BTreeMap<String, RoleReport>,
    /// The groups in which the instance takes part, by name. Empty if one role was asked about.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<String, GroupReport>,
}

/// The report of an instance about one of its roles. Times are as of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RoleReport {
    /// The state of the instance. `None` is a state that this version does not know.
    #[serde(default, deserialize_with = "known")]
    pub state: Option<RoleState>,
    /// Whether the instance leads, by its own clock at the time of the answer.
    pub is_leader: bool,
    /// Whether the instance is paused. A paused instance takes no new term until it is resumed. A
    /// term that it has goes on.
    #[serde(default)]
    pub paused: bool,
    /// How long the instance still waits for another chance, because its terms failed one after the
    /// other. Until then it asks no leader for the role, is no heir, and claims last.
    #[serde(rename = "failing_seconds", with = "seconds::option", default)]
    pub failing: Option<Duration>,
    /// How long the instance, which leads by an operator's order, keeps the role against candidates
    /// of higher priority.
    #[serde(rename = "kept_seconds", with = "seconds::option", default)]
    pub kept: Option<Duration>,
    /// The leader, as far as the instance knows.
    #[serde(default)]
    pub leader: Option<LeaderReport>,
    /// The fencing token of the instance's term, if it leads.
    #[serde(default)]
    pub fencing_token: Option<FencingToken>,
    /// Time until the instance's lease ends unless it is renewed, if it holds one.
    #[serde(rename = "lease_remaining_seconds", with = "seconds::option", default)]
    pub lease_remaining: Option<Duration>,
    /// Time since the last confirmed heartbeat of the instance's term was sent.
    #[serde(rename = "last_heartbeat_seconds", with = "seconds::option", default)]
    pub last_heartbeat: Option<Duration>,
    /// How long that heartbeat took, from sending it to its answer. `None` before the first
    /// heartbeat of a term, and from versions that do not report it.
    #[serde(rename = "heartbeat_took_seconds", with = "seconds::option", default)]
    pub heartbeat_took: Option<Duration>,
    /// Time since the instance's state last changed.
    #[serde(rename = "last_transition_seconds", with = "seconds", default)]
    pub last_transition: Duration,
    /// Revision of the role's key, as last seen.
    #[serde(with = "whole::option", default)]
    pub revision: Option<u64>,
    /// How far the role can rely on NATS. `None` is a status that this version does not know.
    #[serde(default, deserialize_with = "known")]
    pub connection: Option<ConnectionStatus>,
    /// Whether the handler passes its health check, or has none of its own. `None` if the handler
    /// did not answer within a second, or the runtime that runs it does not answer.
    #[serde(default)]
    pub healthy: Option<bool>,
    /// The instance's priority.
    #[serde(with = "whole", default)]
    pub priority: i64,
    /// Whether the instance takes the role from a leader of lower priority. `None` is a setting
    /// that this version does not know.
    #[serde(deserialize_with = "known", default)]
    pub takeover: Option<Takeover>,
    /// How long the instance's lease lasts without renewal.
    #[serde(rename = "ttl_seconds", with = "seconds", default)]
    pub ttl: Duration,
    /// Time between the instance's renewals.
    #[serde(rename = "heartbeat_seconds", with = "seconds", default)]
    pub heartbeat: Duration,
    /// How long the instance's handler may take to wind down.
    #[serde(rename = "stop_budget_seconds", with = "seconds", default)]
    pub stop_budget: Duration,
    /// The longest time that the instance may take to answer a request to step down.
    #[serde(rename = "answers_within_seconds", with = "seconds", default)]
    pub answers_within: Duration,
    /// How often the instance's handler still ran when the lease had ended, since the start.
    #[serde(with = "whole", default)]
    pub overruns: u64,
    /// The last failure, if nothing has succeeded since.
    #[serde(default)]
    pub last_failure: Option<LastFailure>,
}

/// The leader of a role, as an instance sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LeaderReport {
    /// The leader's instance id. Empty if its record does not contain it.
    pub instance_id: String,
    /// The start of that instance. Records of other libraries have none.
    #[serde(default)]
    pub incarnation: Option<Uuid>,
    /// The leader's priority.
    #[serde(with = "whole", default)]
    pub priority: i64,
    /// The public key that signed for the leader, if the reporting instance has trusted keys or is
    /// the leader itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
}

/// A failure after which nothing has succeeded yet. Its age shows whether it still goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LastFailure {
    /// The kind of failure. `None` is a kind that this version does not know.
    #[serde(default, deserialize_with = "known")]
    pub kind: Option<FailureKind>,
    /// A description: what failed, and what to do about it.
    #[serde(default)]
    pub detail: String,
    /// Time since the failure.
    #[serde(rename = "ago_seconds", with = "seconds", default)]
    pub ago: Duration,
}

impl AdminReply for InstanceReport {
    const KIND: &'static str = "io.nats-elect.admin.v1.status";
}

/// Reads a value that a later version may express differently. Returns `None` if it is not
/// understood.
pub(crate) fn known<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::admin::{AdminRequest, Done, PlanReply, Taken, parse};
    use crate::model::unit_explanation::UnitExplanation;

    fn report() -> InstanceReport {
        let role = RoleReport {
            state: Some(RoleState::Leader),
            is_leader: true,
            paused: true,
            failing: Some(Duration::from_secs(240)),
            kept: Some(Duration::from_secs(3600)),
            leader: Some(LeaderReport {
                instance_id: "a".into(),
                incarnation: Some(Uuid::from_u128(1)),
                priority: 3,
                signer: None,
            }),
            fencing_token: Some(FencingToken {
                epoch: u64::MAX,
                sequence: 7,
            }),
            lease_remaining: Some(Duration::from_millis(1500)),
            last_heartbeat: Some(Duration::ZERO),
            heartbeat_took: Some(Duration::from_micros(830)),
            last_transition: Duration::from_secs(1),
            revision: Some(9),
            connection: Some(ConnectionStatus::Connected),
            healthy: None,
            priority: 3,
            takeover: Some(Takeover::Cooperative),
            ttl: Duration::from_secs(15),
            heartbeat: Duration::from_secs(1),
            stop_budget: Duration::from_secs(3),
            answers_within: Duration::from_secs(20),
            overruns: 1,
            last_failure: Some(LastFailure {
                kind: Some(FailureKind::Timeout),
                detail: "slow".into(),
                ago: Duration::from_secs(2),
            }),
        };
        InstanceReport {
            kind: InstanceReport::KIND.into(),
            instance_id: "a".into(),
            incarnation: Uuid::from_u128(1),
            version: "0.1.0".into(),
            bucket: "b".into(),
            application: Some("billing".into()),
            meta: BTreeMap::from([("zone".into(), "eu-1".into())]),
            uptime: Duration::from_secs(3),
            trouble: None,
            last_will: Some(LastWillStatus::Watching),
            roles: BTreeMap::from([("scheduler".into(), role)]),
            groups: BTreeMap::from([(
                "partitions".into(),
                GroupReport {
                    units: 7,
                    still_running: 1,
                    load: Some(120),
                    takes_units: true,
                    answers_within: Duration::from_secs(30),
                },
            )]),
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let json = serde_json::to_vec(&report()).expect("JSON");
        assert_eq!(parse(&json), Some(report()));
    }

    #[test]
    fn a_reader_that_rounds_numbers_can_send_everything_back() {
        let mut report = report();
        let role = report.roles.get_mut("scheduler").expect("it");
        (role.revision, role.overruns) = (Some(u64::MAX), u64::MAX);
        role.priority = i64::MIN;
        let json = serde_json::to_value(&report).expect("JSON");
        let rounded = crate::model::rounded(&json);
        assert_eq!(parse(rounded.to_string().as_bytes()), Some(report));
        let role = &rounded["roles"]["scheduler"];
        assert_eq!(role["fencing_token"], "ffffffffffffffff0000000000000007");
        let request = serde_json::json!({"expected_fencing_token": role["fencing_token"]});
        let request = AdminRequest::parse(request.to_string().as_bytes()).expect("a request");
        let expected = request.expected_fencing_token.expect("a token");
        assert_eq!((expected.epoch, expected.sequence), (u64::MAX, 7));
    }

    #[test]
    fn the_known_parts_of_a_report_of_a_later_version_are_read() {
        let mut json = serde_json::to_value(report()).expect("JSON");
        json["moon"] = "full".into();
        let role = &mut json["roles"]["scheduler"];
        role["state"] = "meditating".into();
        role["takeover"] = serde_json::json!({"polite": 7});
        role["last_failure"]["kind"] = 7.into();
        let fields = role.as_object_mut().expect("a map");
        assert_eq!(fields["heartbeat_took_seconds"], 0.00083);
        fields.retain(|name, _| {
            !["heartbeat_seconds", "heartbeat_took_seconds"].contains(&name.as_str())
        });
        let read: InstanceReport = parse(json.to_string().as_bytes()).expect("a report");
        let role = &read.roles["scheduler"];
        assert_eq!((role.state, role.takeover), (None, None));
        assert_eq!(
            (role.heartbeat, role.heartbeat_took),
            (Duration::ZERO, None)
        );
        assert_eq!(role.connection, Some(ConnectionStatus::Connected));
    }

    #[test]
    fn text_from_outside_is_made_printable() {
        let mut odd = report();
        odd.instance_id = "a\u{1b}[2J".into();
        odd.meta = BTreeMap::from([("zone\u{7}".into(), "eu\n1".into())]);
        odd.roles.get_mut("scheduler").expect("it").last_failure = Some(LastFailure {
            kind: None,
            detail: "x\r\ny".repeat(1000),
            ago: Duration::ZERO,
        });
        let json = serde_json::to_vec(&odd).expect("JSON");
        let read: InstanceReport = parse(&json).expect("a report");
        assert_eq!(read.instance_id, "a[2J");
        assert_eq!(read.meta["zone"], "eu1");
        let failure = read.roles["scheduler"].last_failure.as_ref();
        let detail = &failure.expect("it").detail;
        assert!(
            detail.starts_with("xyxy") && detail.len() <= 255,
            "{detail}"
        );
    }

    #[test]
    fn an_answer_of_another_type_is_not_read() {
        let mut json = serde_json::to_value(report()).expect("JSON");
        json["type"] = "io.nats.micro.v1.info_response".into();
        assert_eq!(parse::<InstanceReport>(json.to_string().as_bytes()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = (parse::<InstanceReport>(&bytes), parse::<Done>(&bytes));
            let _ = (parse::<PlanReply>(&bytes), parse::<Taken>(&bytes), parse::<UnitExplanation>(&bytes));
        }
    }
}
