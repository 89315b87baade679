//! Which candidates could take a role over, by their own reports.

use nats_elect::admin::{Instance, RoleReport};
use nats_elect::{ConnectionStatus, RoleState};

use crate::instances::Candidate;

/// To be said wherever the want of a candidate is told.
pub const UNSEEN: &str = "instances without an admin service can't be seen";

/// Which candidates of a role beside its leader could not take it over, and why. `None` if one could.
pub fn hindered(leader: &Instance, role: &str, found: &[Candidate]) -> Option<Vec<String>> {
    let mut hindered = Vec::new();
    for one in found.iter().filter(|it| it.instance != *leader) {
        let why = match &one.report {
            Ok(report) => match report.roles.get(role) {
                Some(role) => hindrance(role).or_else(|| stays_out(role))?,
                None => continue,
            },
            Err(_) => "did not report its status",
        };
        hindered.push(format!("{} {why}", one.instance));
    }
    Some(hindered)
}

/// Why an instance could not lead that would otherwise take part in the election; none if it could.
pub fn hindrance(role: &RoleReport) -> Option<&'static str> {
    let is_away = |it| matches!(it, ConnectionStatus::Suspended | ConnectionStatus::Lost);
    if role.paused {
        Some("is paused")
    } else if role.healthy == Some(false) {
        Some("fails its health check")
    } else if role.failing.is_some() {
        Some("keeps failing as leader")
    } else if role.connection.is_some_and(is_away) {
        Some("is out of touch with NATS")
    } else if role.state == Some(RoleState::Stopped) {
        Some("is stopping")
    } else {
        None
    }
}

/// Why an instance takes no part in the election for a while; none if it does.
fn stays_out(role: &RoleReport) -> Option<&'static str> {
    match role.state {
        Some(RoleState::Demoted) => Some("is in a cool-down or hold-off"),
        Some(RoleState::Draining) => Some("winds its last term down"),
        _ => None,
    }
}
