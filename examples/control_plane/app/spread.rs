//! The same roles as a group: they are spread over the instances, and an instance has one lease for
//! all that it leads.

use std::sync::Arc;

use futures::StreamExt;
use nats_elect::{Group, GroupEvent, GroupHandle, RoleHandler, UnitOwner};

use super::{Role, Witness};

pub const NAME: &str = "control";

/// The group, with a handler for each role.
pub fn group<H: RoleHandler>(handler: impl Fn(Role) -> H) -> Group {
    Role::ALL
        .into_iter()
        .fold(Group::spread(NAME), |group, role| {
            group.unit(role.name(), handler(role))
        })
}

/// Tells the witness who leads which role, now and whenever that changes.
pub async fn watch(group: GroupHandle, witness: Arc<dyn Witness>) {
    let mut events = group.events();
    let sees = |unit: &str, owner: Option<UnitOwner>| {
        if let Some(role) = Role::of(unit) {
            let owner = owner.as_ref().map(|owner| owner.instance_id.as_str());
            witness.sees(role, owner);
        }
    };
    loop {
        for (unit, owner) in group.owners() {
            sees(&unit, owner);
        }
        // Until this was too slow for an event.
        loop {
            match events.next().await {
                Some(GroupEvent::OwnerChanged { unit, owner }) => sees(&unit, owner),
                Some(GroupEvent::Reset | GroupEvent::Missed(_)) => break,
                Some(_) => {}
                None => return,
            }
        }
    }
}
