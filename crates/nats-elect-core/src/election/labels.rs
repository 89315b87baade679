//! What the outside is told: state, leader, connection.

use std::time::Duration;

use super::machine::{Election, Phase};
use crate::event::Event;
use crate::moment::Moment;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};

impl Election {
    /// Goes to a state along the edges of the design, through `Candidate` where need be.
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

    /// When an outage has lasted too long, outside of a term.
    pub(super) fn connection_lost_at(&self) -> Option<Moment> {
        self.link_lost_at
            .map(|since| since + self.adaptive_timeout())
            .filter(|lost_at| *lost_at > self.now)
    }

    pub(super) fn connection(&self) -> ConnectionStatus {
        let since = match &self.phase {
            Phase::Leading(leadership) => leadership.suspended_since,
            _ => self.link_lost_at,
        };
        match since {
            None => ConnectionStatus::Connected,
            Some(since) if self.now < since + self.adaptive_timeout() => {
                ConnectionStatus::Suspended
            }
            Some(_) => ConnectionStatus::Lost,
        }
    }

    /// How long a role outlives its connection, at most.
    pub(super) fn adaptive_timeout(&self) -> Duration {
        self.settings
            .grace
            .map_or(self.settings.ttl, |grace| grace.min(self.settings.ttl))
    }

    /// Brings labels and announcements in line with what happened in this step.
    pub(super) fn relabel(&mut self) {
        if let Phase::Waiting(waiting) = &self.phase {
            let followed = self.followed();
            if waiting.cooling_until().is_some() && self.state == RoleState::Demoted {
                // Out for the cool-down, whoever leads.
            } else if followed {
                self.become_state(RoleState::Follower);
            } else if self.state != RoleState::Init || self.bucket.is_some() {
                self.become_state(RoleState::Candidate);
            }
        }
        let leader = self.known_leader();
        if leader != self.leader {
            self.leader.clone_from(&leader);
            self.tell(Event::LeaderChanged(leader));
        }
        let connection = self.connection();
        if connection != self.told_connection {
            self.told_connection = connection;
            self.tell(Event::ConnectionChanged(connection));
        }
    }

    /// Whether somebody else's lease is believed to last.
    pub(super) fn followed(&self) -> bool {
        self.observed_role.foreign_content().is_some()
            && self
                .observed_role
                .free_at()
                .is_some_and(|free_at| self.now < free_at)
    }

    fn known_leader(&self) -> Option<LeaderInfo> {
        if matches!(self.phase, Phase::Leading(_)) {
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
