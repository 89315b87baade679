//! Records the metrics of groups, and of this instance as a member of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{Label, counter, gauge};
use nats_elect_core::name::GroupName;

use super::labels::{label, with};
use super::{
    GROUP_COORDINATOR, GROUP_IDLE_FOR, GROUP_IMBALANCE, GROUP_IMBALANCE_PLANNED, GROUP_MEMBERS,
    GROUP_TERMS_ENDED, GROUP_TERMS_STARTED, GROUP_UNITS, GROUP_UNOWNED, GROUP_UNOWNED_FOR,
    MEMBER_LEASE_REMAINING, MEMBER_LEASE_TTL, Metric,
};
use crate::lock::lock;

/// The reason why this instance's term on a unit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnitTermEnd {
    /// The unit goes to another member.
    Given,
    /// This instance leaves its groups.
    Drained,
    /// The handler ended by itself.
    Handler,
    /// The handler did not end within its budget, and the term was revoked.
    Overrun,
    /// The handler failed its health checks.
    Unhealthy,
    /// The lease ended, or the unit's record was replaced.
    Lost,
}

nats_elect_core::labels!(UnitTermEnd {
    Given => "given",
    Drained => "drained",
    Handler => "handler",
    Overrun => "overrun",
    Unhealthy => "unhealthy",
    Lost => "lost",
});

/// What the gauges of a group show.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct GroupGauges {
    pub units: usize,
    pub unowned: usize,
    /// For how long some unit has had no living owner.
    pub unowned_for: Duration,
    /// For how long some unit that is this instance's has had no handler that runs.
    pub idle_for: Duration,
    pub members: usize,
    pub plans: bool,
    pub imbalance: f64,
    pub imbalance_planned: f64,
}

/// The labels of one group on one instance.
#[derive(Clone, Debug)]
pub(crate) struct GroupLabels(Arc<[Label; 3]>);

impl GroupLabels {
    pub fn new(group: &str, instance_id: &str, bucket: &str) -> Self {
        Self(Arc::new([
            label("group", group),
            label("instance_id", instance_id),
            label("bucket", bucket),
        ]))
    }

    fn set(&self, metric: Metric, value: f64) {
        gauge!(metric.name, with(&*self.0, &[])).set(value);
    }

    /// Creates gauges and counters before anything happens.
    pub fn register(&self) {
        self.show(&GroupGauges::default());
        self.started(0);
        for &cause in UnitTermEnd::ALL {
            self.ended(cause, 0);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "far fewer units and members")]
    pub fn show(&self, now: &GroupGauges) {
        self.set(GROUP_UNITS, now.units as f64);
        self.set(GROUP_UNOWNED, now.unowned as f64);
        self.set(GROUP_UNOWNED_FOR, now.unowned_for.as_secs_f64());
        self.set(GROUP_IDLE_FOR, now.idle_for.as_secs_f64());
        self.set(GROUP_MEMBERS, now.members as f64);
        self.set(GROUP_COORDINATOR, if now.plans { 1.0 } else { 0.0 });
        self.set(GROUP_IMBALANCE, now.imbalance);
        self.set(GROUP_IMBALANCE_PLANNED, now.imbalance_planned);
    }

    /// Records that terms on units began.
    pub fn started(&self, terms: u64) {
        counter!(GROUP_TERMS_STARTED.name, with(&*self.0, &[])).increment(terms);
    }

    /// Records that terms on units are over.
    pub fn ended(&self, cause: UnitTermEnd, terms: u64) {
        let cause = [("cause", cause.as_str())];
        counter!(GROUP_TERMS_ENDED.name, with(&*self.0, &cause)).increment(terms);
    }
}

/// The leases of an instance as a member, one for each of its groups. The gauges tell the one that
/// ends first.
pub(crate) struct MemberLeases {
    labels: [Label; 2],
    /// By group: how long the lease lasts without renewal, and what is left of it.
    leases: Mutex<BTreeMap<GroupName, (Duration, Duration)>>,
}

impl MemberLeases {
    pub fn new(instance_id: &str, bucket: &str) -> Self {
        Self {
            labels: [label("instance_id", instance_id), label("bucket", bucket)],
            leases: Mutex::default(),
        }
    }

    /// Records the lease in a group: how long it lasts without renewal, and what is left of it.
    pub fn lease(&self, group: &GroupName, ttl: Duration, remaining: Duration) {
        let mut leases = lock(&self.leases);
        leases.insert(group.clone(), (ttl, remaining));
        // Those of groups that it has left count no more.
        let kept = || leases.values().filter(|(ttl, _)| !ttl.is_zero());
        let ttl = kept().map(|it| it.0).max().unwrap_or_default();
        let remaining = kept().map(|it| it.1).min().unwrap_or_default();
        gauge!(MEMBER_LEASE_TTL.name, with(&self.labels, &[])).set(ttl.as_secs_f64());
        gauge!(MEMBER_LEASE_REMAINING.name, with(&self.labels, &[])).set(remaining.as_secs_f64());
    }
}
