//! The reported state, leader and connection status.

use std::time::Duration;

use super::machine::Election;
use super::phase::Phase;
use crate::event::Event;
use crate::lease::Held;
use crate::moment::Moment;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};

impl Election {
    /// Goes to a state along the allowed transitions, through `Candidate` where need be.
    pub(super) fn become_state(&mut self, next: RoleState) {
        if self.state == next {
            return;
        }
        if !self.state.may_become(next) {
            debug_assert!(
                self.state.may_become(RoleState::Candidate)
                    && RoleState::Candidate.may_become(next),
                "no way from {} to {next}",
                self.state
            );
            self.become_state(RoleState::Candidate);
        }
        let from = std::mem::replace(&mut self.state, next);
        self.last_transition = self.now;
        self.tell(Event::StateChanged { from, to: next });
    }

    /// When an outage outside of a term has lasted so long that the connection counts as lost.
    pub(super) fn connection_lost_at(&self, held: Option<&Held>) -> Option<Moment> {
        self.out_of_touch_since(held)
            .map(|since| since + self.connection_grace())
            .filter(|lost_at| *lost_at > self.now)
    }

    pub(super) fn connection(&self, held: Option<&Held>) -> ConnectionStatus {
        match self.out_of_touch_since(held) {
            None => ConnectionStatus::Connected,
            Some(since) if self.now < since + self.connection_grace() => {
                ConnectionStatus::Suspended
            }
            Some(_) => ConnectionStatus::Lost,
        }
    }

    /// The longest time for which a role outlives its connection.
    pub(super) fn connection_grace(&self) -> Duration {
        self.settings
            .grace
            .map_or(self.settings.ttl, |grace| grace.min(self.settings.ttl))
    }

    /// Brings the reported values in line with this step, and reports changes.
    pub(super) fn relabel(&mut self) {
        // Outside of a term the link alone counts.
        if self.wire.is_up() && !self.phase.is_leading() {
            self.suspended_since = None;
        }
        if let Phase::Waiting(waiting) = &self.phase {
            let followed = self.followed();
            if waiting.cooling_until.is_some() && self.state == RoleState::Demoted {
                // An instance in its cool-down stays `Demoted`, even if another one leads.
            } else if followed {
                self.become_state(RoleState::Follower);
            } else if self.state != RoleState::Init || self.wire.bucket.is_some() {
                self.become_state(RoleState::Candidate);
            }
        }
        let leader = self.known_leader();
        if leader != self.leader {
            self.leader_seen(leader.as_ref());
            self.leader.clone_from(&leader);
            self.tell(Event::LeaderChanged(leader));
        }
        self.relabel_failing();
        let connection = self.connection(self.phase.held());
        if connection != self.told_connection {
            self.told_connection = connection;
            self.tell(Event::ConnectionChanged(connection));
        }
    }

    /// Whether the lease of another instance is believed to last.
    pub(super) fn followed(&self) -> bool {
        self.observed_role.foreign_content().is_some()
            && self
                .observed_role
                .free_at()
                .is_some_and(|free_at| self.now < free_at)
    }

    fn known_leader(&self) -> Option<LeaderInfo> {
        if self.phase.is_leading() {
            return Some(LeaderInfo {
                instance_id: self.candidate.instance_id.clone(),
                incarnation: Some(self.candidate.incarnation),
                priority: self.settings.priority,
                meta: self.settings.meta.clone(),
                is_self: true,
                signer: None,
            });
        }
        if !self.followed() {
            return None;
        }
        LeaderInfo::shown_by(self.observed_role.foreign_content()?)
    }
}
