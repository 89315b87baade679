//! What an instance answers about its groups.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::AdminReply;
use crate::model::unit_explanation::UnitExplanation;
use nats_elect_core::duration::seconds;
use nats_elect_core::token::FencingToken;

/// The report of an instance about its part in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GroupReport {
    /// How many units it owns, as far as it knows.
    pub units: usize,
    /// How many handlers still run here of units that it owns no more: they did not end in time, or
    /// the lease was lost. Instances before this field was there count these units among `units`.
    #[serde(default)]
    pub still_running: usize,
    /// The loads that its handlers report, together. `None` if none reports one.
    #[serde(default)]
    pub load: Option<u64>,
    /// Whether it takes units: not if it is cordoned, stops, or has only just started.
    #[serde(default)]
    pub takes_units: bool,
    /// The longest time that it may take to answer a request for a unit.
    #[serde(rename = "answers_within_seconds", with = "seconds", default)]
    pub answers_within: Duration,
}

/// The units of a group that move, that nobody may own, or that are changing hands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanReply {
    pub units: Vec<UnitExplanation>,
}

/// The instance owns the unit now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// The token of its term.
    pub fencing_token: FencingToken,
}

impl AdminReply for PlanReply {
    const KIND: &'static str = "io.nats-elect.admin.v1.group_plan";
}

impl AdminReply for UnitExplanation {
    const KIND: &'static str = "io.nats-elect.admin.v1.unit_explanation";
}

impl AdminReply for Taken {
    const KIND: &'static str = "io.nats-elect.admin.v1.taken";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::admin::{parse, to_json};

    #[test]
    fn a_plan_is_read_with_its_text_made_printable() {
        let json = br#"{"type":"io.nats-elect.admin.v1.group_plan","moon":1,
            "units":[{"group":"g","unit":"7","verdict":"moves","to":"a\u001b[2J","cause":"bal\nance"}]}"#;
        let units = parse::<PlanReply>(json).expect("a plan").units;
        assert_eq!(units[0].to.as_deref(), Some("a[2J"));
        assert_eq!(units[0].cause.as_deref(), Some("balance"));
        let plan = PlanReply { units };
        assert_eq!(parse(&to_json(&plan)), Some(plan));
    }

    #[test]
    fn a_report_without_the_handlers_that_still_run_is_read_as_one_without_any() {
        let read: GroupReport = serde_json::from_str(r#"{"units":3}"#).expect("a report");
        assert_eq!((read.units, read.still_running), (3, 0));
    }
}
