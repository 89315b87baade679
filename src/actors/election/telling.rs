//! What an election tells of itself: its leader, its status, its terms.

use super::ElectionState;
use crate::actors::announce::{announce, log_no_leader};
use crate::clock;
use crate::model::leader_event::{LeaderChange, LeaderEvent};
use nats_elect_core::event::{Event, Outcome, Vacancy};
use nats_elect_core::status::LeaderInfo;

impl ElectionState {
    /// Reports the leader, if the reportable information differs from the last report.
    pub(super) fn tell_leader(&mut self, leader: Option<LeaderInfo>) {
        // Without a trusted signature a known leader is not reported.
        let is_known = leader.is_some();
        let leader = self.signatures.told(leader, clock::now());
        if leader != self.told {
            self.leaderless_since = leader.is_none().then(clock::now);
            if let Some(before) = std::mem::replace(&mut self.told, leader.clone()) {
                if !is_known {
                    log_no_leader(&self.scope, &before, self.election.vacancy());
                }
                // A value that is no record names nobody.
                self.predecessor = Some(before.instance_id).filter(|id| !id.is_empty());
            }
            self.publish_status();
            announce(&self.scope, Event::LeaderChanged(leader));
        }
    }

    /// Has the event publisher report the beginning and the end of a term, and records how it came
    /// about.
    pub(super) fn publish(&mut self, event: &Event) {
        let (fencing_token, change) = match *event {
            Event::ClaimBegan { vacancy } => {
                self.vacancy = vacancy;
                let own = self.scope.instance.incarnation;
                self.last_sign = match vacancy {
                    Vacancy::Untouched => None,
                    _ => self.leaderless.last_sign(own),
                };
                self.stages.claim_began(self.last_sign, self.stepped);
                return;
            }
            Event::ClaimEnded {
                outcome: Outcome::Confirmed,
            } => {
                self.stages.claim_confirmed(self.stepped);
                return;
            }
            Event::TermStarted { fencing_token } => {
                self.stages.term_started(&self.scope.labels, self.stepped);
                self.scope.labels.term_started(self.vacancy);
                let previous = self.predecessor.clone();
                let silence = self.last_sign.map(|at| self.stepped.since(at));
                let change = LeaderChange::started(self.vacancy, previous, silence);
                (fencing_token, change)
            }
            Event::TermEnded {
                fencing_token,
                cause,
                lasted,
                released,
                ..
            } => (fencing_token, LeaderChange::ended(cause, lasted, released)),
            _ => return,
        };
        let (Some(publisher), Some(id)) = (&self.publisher, self.spans.last_id()) else {
            return;
        };
        let instance = &self.scope.instance;
        publisher.tell(LeaderEvent {
            bucket: instance.bucket.as_str().to_owned(),
            role: self.scope.role.as_str().to_owned(),
            instance_id: instance.id.as_str().to_owned(),
            incarnation: instance.incarnation,
            correlation_id: id.clone(),
            fencing_token,
            at_ms: clock::unix_micros() / 1000,
            change,
        });
    }

    pub(super) fn publish_status(&self) {
        let mut status = self.election.status();
        status.leader = self.signatures.told(status.leader, clock::now());
        self.scope.status.send_if_modified(|current| {
            let changed = *current != status;
            *current = status;
            changed
        });
    }
}
