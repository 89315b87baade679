//! Announces the events of a role to metrics, logs and subscribers.

use tracing::Span;

use crate::role::RoleScope;
use nats_elect_core::event::{Event, FailureKind, Outcome};
use nats_elect_core::handoff::Handoff;
use nats_elect_core::peer::Refusal;

/// Announces one event that belongs to no term.
pub(super) fn announce(scope: &RoleScope, event: Event) {
    announce_in(scope, event, &scope.span);
}

/// Announces one event, in this span.
pub(super) fn announce_in(scope: &RoleScope, event: Event, span: &Span) {
    scope.labels.record(&event, &scope.settings);
    scope.note(&event);
    span.in_scope(|| log(&event));
    match &event {
        Event::LeaderChanged(leader) => {
            scope.leader.send_replace(leader.clone());
        }
        Event::ConnectionChanged(status) => {
            scope.connection.send_replace(*status);
        }
        _ => {}
    }
    // Without a subscriber the event is not needed.
    let _ = scope.events.send(event);
}

fn log(event: &Event) {
    match event {
        Event::StateChanged { from, to } => tracing::debug!(%from, %to, "state changed"),
        Event::Paused => tracing::info!("paused: stands for no new term"),
        Event::Resumed => tracing::info!("resumed: stands again"),
        Event::LeaderChanged(Some(leader)) => {
            tracing::info!(leader = %leader.instance_id, is_self = leader.is_self, "leader changed");
        }
        Event::LeaderChanged(None) => tracing::info!("no leader known"),
        Event::TermStarted { fencing_token } => tracing::info!(%fencing_token, "term started"),
        Event::TermEnding {
            fencing_token,
            cause,
        } => {
            tracing::info!(%fencing_token, cause = cause.as_str(), "term ending");
        }
        Event::TermEnded {
            fencing_token,
            cause,
            lasted,
            released,
        } => {
            tracing::info!(%fencing_token, cause = cause.as_str(), ?lasted, released, "term ended");
        }
        Event::ClaimBegan { vacancy } => tracing::debug!(vacancy = vacancy.as_str(), "claiming"),
        Event::HandedOver { outcome } => {
            tracing::info!(outcome = outcome.map(Handoff::as_str), "handed over");
        }
        Event::HandoffRefused { why } => {
            let why = why.map_or("absent", Refusal::as_str);
            tracing::warn!(why, "the named successor does not take the role");
        }
        Event::ClaimEnded { outcome } => tracing::debug!(outcome = outcome.as_str(), "claim ended"),
        Event::HeartbeatEnded {
            outcome: Outcome::Confirmed,
            took,
        } => tracing::trace!(?took, "heartbeat confirmed"),
        Event::HeartbeatEnded { outcome, took } => {
            tracing::warn!(outcome = outcome.as_str(), ?took, "heartbeat not confirmed");
        }
        Event::HealthCheckFailed { consecutive } => {
            tracing::warn!(consecutive, "health check failed");
        }
        Event::HealthCheckUnanswered => {
            tracing::warn!(
                "no health check: the runtime that runs handlers does not answer, something blocks it"
            );
        }
        Event::ValidationFailed => tracing::warn!("another client wrote to the role's key"),
        Event::ConnectionChanged(status) => tracing::info!(%status, "connection changed"),
        Event::Failure {
            kind: FailureKind::Timeout | FailureKind::Unavailable | FailureKind::Contended,
            detail,
        } => {
            tracing::debug!(detail, "request failed");
        }
        Event::Failure { kind, detail } => tracing::error!(kind = kind.as_str(), detail, "failure"),
        Event::CircuitOpened => tracing::warn!("too many failures in a row: trying more slowly"),
        Event::CircuitClosed => tracing::info!("requests succeed again"),
        Event::HandlerOverrun { fencing_token } => {
            tracing::error!(%fencing_token, "the handler still runs although its lease has ended");
        }
        Event::UntrustedRecord { why } => {
            tracing::debug!(why = why.as_str(), "a record that no trusted key signed");
        }
        Event::WaitingForLease {
            holder,
            why,
            revision,
            waited,
            left,
        } => {
            let holder = holder.as_deref().unwrap_or("unknown");
            tracing::warn!(
                holder,
                why = why.as_str(),
                revision,
                ?waited,
                ?left,
                "nobody leads: a lease longer than this role's ttl is waited for; if its holder is certainly gone, `nats-elect end-lease` ends the wait"
            );
        }
        _ => {}
    }
}
