//! One trace per term: a span from the claim to the end of the handler, with spans for the
//! operations in it.
//!
//! ```text
//! term ─┬─ claim     from the claim to the promotion, or to losing it; in it `fence` (level debug)
//!       ├─ renew     each heartbeat (level debug)
//!       ├─ handoff   winding down and freeing the role; `wind_down` without anything to hand over
//!       └─ whatever the handler does
//! ```

use tracing::Span;
use tracing::field::Empty;
use uuid::Uuid;

use crate::role::RoleScope;
use nats_elect_core::event::{EndCause, Event, Outcome};
use nats_elect_core::token::CorrelationId;
use nats_elect_core::{TermId, TermStart, Write, WriteKind};

pub(super) struct Spans {
    incarnation: Uuid,
    /// The number that distinguishes the terms of an election from those of other roles, and from
    /// those of the election that it replaces after a crash.
    generation: u64,
    current: Option<Traced>,
}

/// An acquisition, and its term.
struct Traced {
    term: TermId,
    id: CorrelationId,
    span: Span,
    claim: Span,
    handoff: Span,
}

impl Spans {
    pub const fn new(incarnation: Uuid, generation: u64) -> Self {
        Self {
            incarnation,
            generation,
            current: None,
        }
    }

    /// Begins the span of a term. The span is a root, so that a trace belongs to a term and not to
    /// a process. Returns the term's correlation id with it.
    pub fn promoted(&mut self, scope: &RoleScope, start: &TermStart) -> (CorrelationId, Span) {
        let traced = self.traced(scope, start.term);
        let token = tracing::field::display(start.fencing_token);
        traced.span.record("fencing_token", &token);
        traced.claim = Span::none();
        (traced.id.clone(), traced.span.clone())
    }

    /// Returns the correlation id of the term that was traced last.
    pub fn last_id(&self) -> Option<&CorrelationId> {
        self.current.as_ref().map(|traced| &traced.id)
    }

    /// Returns the span of a write.
    pub fn write(&mut self, scope: &RoleScope, write: &Write) -> Span {
        let traced = self.traced(scope, write.term);
        match &write.kind {
            WriteKind::Claim { over, .. } => {
                traced.claim = tracing::info_span!(parent: &traced.span, "claim", over, revision = Empty, outcome = Empty);
                traced.claim.clone()
            }
            WriteKind::Fence { .. } => {
                tracing::debug_span!(parent: &traced.claim, "fence", revision = Empty)
            }
            WriteKind::Renew { over, .. } => {
                tracing::debug_span!(parent: &traced.span, "renew", over, revision = Empty)
            }
            WriteKind::Release { release, .. } => {
                if let Some(heir) = &release.heir {
                    traced.handoff.record("heir", tracing::field::display(heir));
                }
                traced.handoff.clone()
            }
        }
    }

    /// Returns the span that an event belongs to. Closes the span that ends with the event.
    pub fn event(&mut self, event: &Event) -> Option<Span> {
        let traced = self.current.as_mut()?;
        let span = traced.span.clone();
        match event {
            Event::ClaimEnded {
                outcome: outcome @ (Outcome::Conflict | Outcome::Failed),
            } => {
                traced.claim.record("outcome", outcome.as_str());
                self.current = None;
            }
            Event::ClaimEnded { outcome } => {
                traced.claim.record("outcome", outcome.as_str());
            }
            Event::TermEnding { cause, .. } => {
                let cause_name = cause.as_str();
                traced.handoff = if matches!(
                    cause,
                    EndCause::SteppedDown
                        | EndCause::Preempted
                        | EndCause::Cordoned
                        | EndCause::Stopped
                ) {
                    tracing::info_span!(parent: &span, "handoff", cause = cause_name, heir = Empty, revision = Empty, released = Empty)
                } else {
                    tracing::info_span!(parent: &span, "wind_down", cause = cause_name, heir = Empty, revision = Empty, released = Empty)
                };
            }
            Event::TermEnded { released, .. } => {
                traced.handoff.record("released", released);
                self.current = None;
            }
            Event::TermStarted { .. } | Event::HeartbeatEnded { .. } => {}
            _ => return None,
        }
        Some(span)
    }

    fn traced(&mut self, scope: &RoleScope, term: TermId) -> &mut Traced {
        let known = self.current.take_if(|traced| traced.term == term);
        let traced = known.unwrap_or_else(|| {
            let id = CorrelationId::new(self.incarnation, self.generation, term.0);
            let span = scope.instance.term_span(&scope.role, &id);
            Traced {
                term,
                id,
                span,
                claim: Span::none(),
                handoff: Span::none(),
            }
        });
        self.current.insert(traced)
    }
}
