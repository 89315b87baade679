//! Records the metrics of groups, and of this instance as a member of them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use nats_elect_core::name::GroupName;

use super::labels::Labels;
use super::{
    GROUP_COORDINATOR, GROUP_IDLE_FOR, GROUP_IMBALANCE, GROUP_IMBALANCE_PLANNED, GROUP_MEMBERS,
    GROUP_TERMS_ENDED, GROUP_TERMS_STARTED, GROUP_UNITS, GROUP_UNOWNED, GROUP_UNOWNED_FOR,
    MEMBER_LEASE_REMAINING, MEMBER_LEASE_TTL,
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
pub(crate) struct GroupLabels(Labels);

impl GroupLabels {
    pub fn new(group: &str, instance_id: &str, bucket: &str) -> Self {
        Self(Labels::of(&[
            ("group", group),
            ("instance_id", instance_id),
            ("bucket", bucket),
        ]))
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
        self.0.set(GROUP_UNITS, now.units as f64);
        self.0.set(GROUP_UNOWNED, now.unowned as f64);
        self.0.set(GROUP_UNOWNED_FOR, now.unowned_for.as_secs_f64());
        self.0.set(GROUP_IDLE_FOR, now.idle_for.as_secs_f64());
        self.0.set(GROUP_MEMBERS, now.members as f64);
        self.0.set(GROUP_COORDINATOR, now.plans.into());
        self.0.set(GROUP_IMBALANCE, now.imbalance);
        self.0.set(GROUP_IMBALANCE_PLANNED, now.imbalance_planned);
    }

    /// Records that terms on units began.
    pub fn started(&self, terms: u64) {
        self.0.add(GROUP_TERMS_STARTED, &[], terms);
    }

    /// Records that terms on units are over.
    pub fn ended(&self, cause: UnitTermEnd, terms: u64) {
        self.0
            .add(GROUP_TERMS_ENDED, &[("cause", cause.as_str())], terms);
    }
}

/// The leases of an instance as a member, one for each of its groups. The gauges tell the one that
/// ends first.
pub(crate) struct MemberLeases {
    labels: Labels,
    /// By group: how long the lease lasts without renewal, and what is left of it.
    leases: Mutex<BTreeMap<GroupName, (Duration, Duration)>>,
}

impl MemberLeases {
    pub fn new(instance_id: &str, bucket: &str) -> Self {
        Self {
            labels: Labels::of(&[("instance_id", instance_id), ("bucket", bucket)]),
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
        self.labels.set(MEMBER_LEASE_TTL, ttl.as_secs_f64());
        self.labels
            .set(MEMBER_LEASE_REMAINING, remaining.as_secs_f64());
    }
}
