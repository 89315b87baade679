//! The handler of a role: it works while this instance leads.

use std::sync::Arc;

use nats_elect::{BoxError, LeaderInfo, RoleHandler, Term};

use super::{Role, Witness, tell};

/// The handler of one role.
pub struct Worker {
    pub role: Role,
    pub witness: Arc<dyn Witness>,
}

impl RoleHandler for Worker {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let (role, token) = (self.role, term.fencing_token());
        self.witness.began(role, &term);
        tell(&format!("leads {role} with token {token}"));
        let mut n = 0;
        while !term.is_cancelled() {
            n += 1;
            // The end of the term drops it half-way. The time until then counts as work, too.
            term.run_until_cancelled(tokio::time::sleep(role.effort()))
                .await;
            self.witness.worked(role, &term);
        }
        self.witness.ended(role, &term);
        tell(&format!("no longer leads {role}, after {n} pieces of work"));
        Ok(())
    }

    async fn on_leader_change(&self, leader: Option<LeaderInfo>) {
        let role = self.role;
        if let Some(leader) = leader.as_ref().filter(|leader| !leader.is_self) {
            tell(&format!("sees {} lead {role}", leader.instance_id));
        }
        let leader = leader.as_ref().map(|leader| leader.instance_id.as_str());
        self.witness.sees(role, leader);
    }
}
