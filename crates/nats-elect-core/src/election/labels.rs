//! The reported state, leader, connection status and circuit breaker.

use std::time::Duration;

use super::phase::Phase;
use super::scene::Scene;
use crate::event::Event;
use crate::lease::Held;
use crate::moment::Moment;
use crate::status::{ConnectionStatus, LeaderInfo, RoleState};

impl Phase {
    /// Brings the reported values in line with this step, and reports changes.
    pub fn relabel(&self, at: &mut Scene) {
        // Outside of a term the link alone counts.
        if at.wire.is_up() && !self.is_leading() {
            at.suspended_since = None;
        }
        if let Self::Waiting(waiting) = self {
            let followed = at.followed();
            if waiting.cooling_until.is_some() && at.state == RoleState::Demoted {
                // An instance in its cool-down stays `Demoted`, even if another one leads.
            } else if followed {
                at.become_state(RoleState::Follower);
            } else if at.state != RoleState::Init || at.wire.bucket.is_some() {
                at.become_state(RoleState::Candidate);
            }
        }
        let leader = self.known_leader(at);
        if leader != at.leader {
            at.leader_seen(leader.as_ref());
            at.leader.clone_from(&leader);
            at.tell(Event::LeaderChanged(leader));
        }
        at.relabel_failing();
        let connection = at.connection(self.held());
        if connection != at.told_connection {
            at.told_connection = connection;
            at.tell(Event::ConnectionChanged(connection));
        }
        let is_open = at.wire.retry.is_open();
        if std::mem::replace(&mut at.told_open, is_open) != is_open {
            at.tell(if is_open {
                Event::CircuitOpened
            } else {
                Event::CircuitClosed
            });
        }
    }

    fn known_leader(&self, at: &Scene) -> Option<LeaderInfo> {
        if self.is_leading() {
            return Some(LeaderInfo {
                instance_id: at.candidate.instance_id.clone(),
                incarnation: Some(at.candidate.incarnation),
                priority: at.settings.priority,
                meta: at.settings.meta.clone(),
                is_self: true,
                signer: None,
            });
        }
        if !at.followed() {
            return None;
        }
        LeaderInfo::shown_by(at.observed_role.foreign_content()?)
    }
}

impl Scene {
    /// Goes to a state along the allowed transitions, through `Candidate` where need be.
    pub fn become_state(&mut self, next: RoleState) {
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
    pub fn connection_lost_at(&self, held: Option<&Held>) -> Option<Moment> {
        self.out_of_touch_since(held)
            .map(|since| since + self.connection_grace())
            .filter(|lost_at| *lost_at > self.now)
    }

    pub fn connection(&self, held: Option<&Held>) -> ConnectionStatus {
        match self.out_of_touch_since(held) {
            None => ConnectionStatus::Connected,
            Some(since) if self.now < since + self.connection_grace() => {
                ConnectionStatus::Suspended
            }
            Some(_) => ConnectionStatus::Lost,
        }
    }

    /// The longest time for which a role outlives its connection.
    pub fn connection_grace(&self) -> Duration {
        self.settings
            .grace
            .map_or(self.settings.ttl, |grace| grace.min(self.settings.ttl))
    }

    /// Whether the lease of another instance is believed to last.
    pub fn followed(&self) -> bool {
        self.observed_role.foreign_content().is_some()
            && Some(self.now) < self.observed_role.free_at()
    }
}
