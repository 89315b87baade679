//! While the command does not run: who leads the role, or has its slots.

use std::future::pending;
use std::time::Duration;

use futures::StreamExt;
use nats_elect::{GroupHandle, RoleHandle, RoleManager, RoleState};

use super::handler::RunCommand;
use super::report;

/// Waits until others lead the role, or have all of its slots. Returns false if that was not decided
/// in this time.
pub async fn is_taken(manager: &RoleManager, name: &str, within: Duration) -> bool {
    let taken = async {
        if let Ok(role) = manager.role(name) {
            follows(&role).await;
        } else if let Ok(group) = manager.group(name) {
            let own = manager.instance_id();
            group.wait_until(|group| are_taken(group, own)).await;
        }
    };
    tokio::time::timeout(within, taken).await.is_ok()
}

/// Tells of slots that are not as `--slots` says, and each time that others come to have all of them.
/// It never ends.
pub async fn tell_of_slots(manager: &RoleManager, run: &RunCommand, slots: u32) {
    let Ok(group) = manager.group(&run.role) else {
        return pending().await;
    };
    let mut events = group.events();
    let is_known = |group: &GroupHandle| group.has_joined() && group.shards().is_some();
    group.wait_until(is_known).await;
    if let Some(others) = group.shards().filter(|it| *it != slots) {
        report::other_slots(&run.role, others, slots);
    }
    let mut were_taken = false;
    loop {
        let are_taken = run.waits() && are_taken(&group, manager.instance_id());
        if are_taken && !were_taken {
            report::waiting_for_slot(&run.role);
        }
        were_taken = are_taken;
        if events.next().await.is_none() {
            return pending().await;
        }
    }
}

/// Whether other instances have all slots.
fn are_taken(group: &GroupHandle, own: &str) -> bool {
    let owners = group.owners();
    let are_known = group.shards().is_some_and(|it| it as usize == owners.len());
    let mut owners = owners.values();
    let are_others = owners.all(|it| it.as_ref().is_some_and(|it| it.instance_id != own));
    group.has_joined() && are_known && are_others
}

/// Waits until another instance leads.
async fn follows(role: &RoleHandle) {
    let mut events = role.events();
    // A change is in the status before its event comes.
    while role.status().state != RoleState::Follower {
        if events.next().await.is_none() {
            // The role has ended: this will never be so.
            return pending().await;
        }
    }
}
