//! A policy of the application, whose panics cost balance alone.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nats_elect_core::group::policy::{Explanation, Fleet, Plan, Policy};
use nats_elect_core::name::UnitName;

/// Plans nothing when the policy panics. The panic would end the actor that renews the lease, and
/// all handlers with it, on one instance after the other.
#[derive(Debug)]
pub(crate) struct GuardedPolicy<P>(pub P);

impl<P: Policy> Policy for GuardedPolicy<P> {
    fn plan(&self, fleet: &Fleet) -> Plan {
        let planned = catch_unwind(AssertUnwindSafe(|| self.0.plan(fleet)));
        planned.unwrap_or_else(|_| {
            tracing::error!("a group's policy panicked: its units stay where they are");
            Plan::idle(fleet.round)
        })
    }

    fn explain(&self, fleet: &Fleet, unit: &UnitName) -> Option<Explanation> {
        catch_unwind(AssertUnwindSafe(|| self.0.explain(fleet, unit))).ok()?
    }
}
