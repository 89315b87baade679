//! What an election was heard to say: among the effects that were not taken yet.

use super::Solo;
use crate::event::{EndCause, Event, FailureKind, Outcome};
use crate::status::RoleState;
use crate::{Effect, Reply, RequestId, TermId};

impl Solo {
    pub fn started(&self) -> Option<TermId> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::StartTerm(start) => Some(start.term),
            _ => None,
        })
    }

    pub fn has(&self, what: impl Fn(&Effect) -> bool) -> bool {
        self.effects.iter().any(what)
    }

    pub fn told(&self, what: impl Fn(&Event) -> bool) -> bool {
        self.has(|effect| matches!(effect, Effect::Event(event) if what(event)))
    }

    pub fn writes(&self) -> bool {
        self.has(|effect| matches!(effect, Effect::Write(_)))
    }

    pub fn reads(&self) -> bool {
        self.has(|effect| matches!(effect, Effect::Read { .. }))
    }

    /// Whether it sends NATS any request.
    pub fn asks(&self) -> bool {
        self.writes() || self.reads()
    }

    pub fn extends(&self) -> bool {
        self.has(|effect| matches!(effect, Effect::Extend { .. }))
    }

    pub fn revokes(&self) -> bool {
        self.has(|effect| matches!(effect, Effect::Revoke { .. }))
    }

    pub fn aborts(&self) -> bool {
        self.has(|effect| matches!(effect, Effect::Abort { .. }))
    }

    /// Why the term ends, if it does.
    pub fn ending(&self) -> Option<EndCause> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Event(Event::TermEnding { cause, .. }) => Some(*cause),
            _ => None,
        })
    }

    pub fn ends(&self, with: EndCause) -> bool {
        self.told(|event| matches!(event, Event::TermEnding { cause, .. } if *cause == with))
    }

    pub fn fails(&self, with: FailureKind) -> bool {
        self.told(|event| matches!(event, Event::Failure { kind, .. } if *kind == with))
    }

    /// Whether the role was freed, if the term is over.
    pub fn released(&self) -> Option<bool> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Event(Event::TermEnded { released, .. }) => Some(*released),
            _ => None,
        })
    }

    pub fn heartbeat_ended(&self, with: Outcome) -> bool {
        self.told(
            |event| matches!(event, Event::HeartbeatEnded { outcome, .. } if *outcome == with),
        )
    }

    /// The sequence of the fencing token, if a term starts.
    pub fn promoted_at(&self) -> Option<u64> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::StartTerm(start) => Some(start.fencing_token.sequence),
            _ => None,
        })
    }

    pub fn state(&self) -> RoleState {
        self.election.status().state
    }

    pub fn reply(&self, to: RequestId) -> Option<&Reply> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Reply { request, reply } if *request == to => Some(reply),
            _ => None,
        })
    }
}
