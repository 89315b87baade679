//! What to grant where the server forbids something.

use nats_elect::Denied;

/// Returns what to grant.
pub fn advice(denied: &Denied) -> String {
    let kind = if denied.publish {
        "publish"
    } else {
        "subscribe"
    };
    let permission = denied.permission();
    format!("grant {kind} {permission:?}: `nats-elect permissions`, docs/security.md")
}
