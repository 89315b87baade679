//! Announces the events of a role to metrics, logs and subscribers.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tracing::Span;
use tracing::field::display;

use crate::clock;
use crate::lock::lock;
use crate::model::admin::LastFailure;
use crate::role::RoleScope;
use nats_elect_core::Failure;
use nats_elect_core::duration::{exact, rounded};
use nats_elect_core::event::{BucketRequest, EndCause, Event, FailureKind, Outcome, Vacancy};
use nats_elect_core::handoff::Handoff;
use nats_elect_core::peer::Refusal;
use nats_elect_core::status::{ConnectionStatus, LeaderInfo};

/// Announces one event that belongs to no term.
pub(super) fn announce(scope: &RoleScope, event: Event) {
    announce_in(scope, event, &scope.span);
}

/// Announces one event, in this span.
pub(super) fn announce_in(scope: &RoleScope, event: Event, span: &Span) {
    scope.labels.record(&event, &scope.settings);
    scope.note(&event);
    span.in_scope(|| log(scope, &event));
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
    scope.tell(event);
}

/// Logs why no leader is known any more: what became of the last one, and what happens next.
pub(super) fn log_no_leader(scope: &RoleScope, last: &LeaderInfo, vacancy: Vacancy) {
    if last.is_self {
        // The end of this instance's term has been logged, with its cause.
        return;
    }
    let _in_span = scope.span.enter();
    let last_leader = last.instance_id.as_str();
    if last_leader.is_empty() {
        tracing::info!("the value that is no record has been waited for long enough");
        return;
    }
    let server = scope.server();
    let still = *lock(&scope.stood_still);
    let text = match vacancy {
        _ if *scope.connection.borrow() != ConnectionStatus::Connected => {
            "no leader known: NATS is out of reach, and the last lease seen has run out; \
             this instance looks again once NATS answers"
        }
        _ if still.is_some() => {
            "no leader known: this process stood still, and the last lease seen ran out \
             meanwhile; this instance looks again"
        }
        Vacancy::Released | Vacancy::HandedOver => {
            tracing::info!(last_leader, "no leader: the last one released the role");
            return;
        }
        Vacancy::Deleted => {
            "no leader: the role's key was deleted by another client or expired; \
             candidates claim the role when its leader has freed it, or its lease has run out"
        }
        _ => {
            "no leader known: no heartbeat was seen for a whole lease; this instance asks NATS, and \
             claims the role if nobody leads it"
        }
    };
    let stood_still = still.map(|still| display(rounded(still)));
    tracing::warn!(last_leader, server, stood_still, "{text}");
}

/// Logs that a term ends, as a warning if leadership was lost.
fn log_term_ending(scope: &RoleScope, cause: EndCause) {
    let timed_out = matches!(cause, EndCause::LeaseExpired | EndCause::ConnectionLost);
    let still = lock(&scope.stood_still).filter(|_| timed_out);
    let bucket_lost;
    let lost = match cause {
        _ if still.is_some() => {
            "this process stood still, so it confirmed no heartbeat in time; \
             another instance may lead by now"
        }
        EndCause::LeaseExpired => {
            "no heartbeat was confirmed in time; candidates claim the role once NATS answers"
        }
        EndCause::ConnectionLost => {
            "NATS was out of reach for longer than the grace period; \
             instances that reach it claim the role when the lease has run out"
        }
        EndCause::Superseded => {
            "the role's key or its fence key is not as this term left it: \
             another client wrote there, or the bucket was recreated"
        }
        EndCause::Deleted => {
            "the role's key was deleted by another client or expired; \
             candidates claim the role when the handler has ended"
        }
        EndCause::Regressed => {
            "NATS lost confirmed writes; candidates claim the role after a full lease"
        }
        EndCause::BucketLost => {
            let problem = lasting_problem(scope);
            let problem = problem.as_deref().unwrap_or("the bucket was recreated");
            bucket_lost =
                format!("{problem}; candidates claim the role in the bucket that they find");
            &bucket_lost
        }
        EndCause::Crashed => "the election's actor crashed, and starts again",
        _ => {
            tracing::info!(cause = cause.as_str(), "term ending");
            return;
        }
    };
    let stood_still = still.map(|still| display(rounded(still)));
    tracing::warn!(
        cause = cause.as_str(),
        server = scope.server(),
        stood_still,
        "leadership lost: {lost}; the handler is being stopped"
    );
}

/// Logs that a handler returned soon, without being told to, for the second time in a row: once, and
/// then once a minute. Most likely it is not meant to.
fn log_brief_return(scope: &RoleScope, lasted: Duration) {
    let text = "the handler returned `Ok` although its term was not cancelled: the role is freed, \
                and this instance claims it again after its cool-down";
    if let Some(repeats) = lock(&scope.logged).is_due(text, clock::now()) {
        let repeats = (repeats > 0).then_some(repeats);
        let cooldown = exact(scope.settings.cooldown);
        tracing::warn!(lasted = %rounded(lasted), %cooldown, repeats, "{text}");
    }
}

/// Returns the last failure, in words, if it does not pass by itself.
fn lasting_problem(scope: &RoleScope) -> Option<String> {
    let LastFailure { kind, detail, .. } = scope.status().last_failure?;
    let failure = Failure {
        kind: kind?,
        detail,
    };
    (!failure.is_transient()).then_some(failure.detail)
}

/// What a failure of a write that may pass by itself is logged as, whatever its text: of a lease that
/// is held, and of a claim.
const NOT_KEPT: &str = "not confirmed";
const NOT_CLAIMED: &str = "no claim is confirmed";
/// What a pause between attempts is logged as.
const SLOWED_DOWN: &str = "too many failures in a row";

/// Logs a failure: once, and then once a minute while it lasts. One that may pass by itself is told
/// if it is of a write.
fn log_failure(scope: &RoleScope, request: Option<BucketRequest>, kind: FailureKind, detail: &str) {
    let passes = matches!(
        kind,
        FailureKind::Timeout | FailureKind::Unavailable | FailureKind::Contended
    );
    let (key, text) = match request {
        // One claim that is not confirmed is most often a race that another instance wins.
        Some(BucketRequest::Claim)
            if passes && !scope.claim_failed.swap(true, Ordering::Relaxed) =>
        {
            tracing::debug!(detail, "claim not confirmed");
            return;
        }
        Some(BucketRequest::Claim) => {
            let pause = exact(scope.settings.retry.max_backoff);
            let text = format!("{NOT_CLAIMED}: trying on, in pauses of up to {pause}");
            (NOT_CLAIMED, text)
        }
        Some(BucketRequest::Heartbeat | BucketRequest::Fence | BucketRequest::Release) => {
            let request = request.map_or("", BucketRequest::as_str);
            (NOT_KEPT, format!("{request} {NOT_KEPT}"))
        }
        _ if passes => {
            tracing::debug!(detail, "request failed");
            return;
        }
        _ => (detail, "failure".to_owned()),
    };
    let key = if passes { key } else { detail };
    let Some(repeats) = lock(&scope.logged).is_due(key, clock::now()) else {
        return;
    };
    let repeats = (repeats > 0).then_some(repeats);
    let kind = kind.as_str();
    if passes {
        tracing::warn!(kind, detail, repeats, "{text}");
    } else {
        tracing::error!(kind, detail, repeats, "{text}");
    }
}

/// Logs that attempts slow down, unless a failure was logged that slows them down.
fn log_slowdown(scope: &RoleScope) {
    let pause = exact(scope.settings.retry.max_backoff);
    let now = clock::now();
    let is_told = |key: &&str| lock(&scope.logged).is_logged(key, now);
    if lasting_problem(scope).is_none()
        && ![NOT_KEPT, NOT_CLAIMED].iter().any(is_told)
        && lock(&scope.logged).is_due(SLOWED_DOWN, now).is_some()
    {
        let reason = scope.status().last_failure.map(|failure| failure.detail);
        tracing::warn!(reason, "{SLOWED_DOWN}: trying once in {pause}");
    } else {
        tracing::debug!("trying once in {pause}");
    }
}

fn log_failing(terms: u32, pause: Duration) {
    tracing::warn!(
        terms,
        pause = %rounded(pause),
        "terms of this instance failed one after the other, or its processes died early in them: \
         until the pause is over it asks no leader for the role, is no heir, and claims last; \
         once it is mended, `nats-elect resume` and then `nats-elect step-down --to` give it the \
         role before that"
    );
}

/// Logs another leader. The start of the own term is logged as such.
fn log_leader(scope: &RoleScope, leader: &LeaderInfo) {
    if leader.instance_id.is_empty() {
        let revision = scope.status.borrow().revision;
        tracing::warn!(
            revision,
            "a value that is no record is in the role's key: its lease is waited for, and then \
             candidates claim the role over it"
        );
    } else if leader.is_self {
        tracing::debug!("this instance leads");
    } else {
        tracing::info!("following {:?}", leader.instance_id.as_str());
    }
}

fn log_heartbeat(outcome: Outcome, took: Duration) {
    let took = rounded(took);
    match outcome {
        Outcome::Confirmed => tracing::trace!(%took, "heartbeat confirmed"),
        // The failure says why.
        Outcome::Failed | Outcome::TimedOut => tracing::debug!(%took, "heartbeat not confirmed"),
        outcome => {
            tracing::warn!(outcome = outcome.as_str(), %took, "heartbeat not confirmed");
        }
    }
}

fn log(scope: &RoleScope, event: &Event) {
    match event {
        Event::StateChanged { from, to } => tracing::debug!(%from, %to, "state changed"),
        Event::Paused => tracing::info!("paused: does not take part in elections until resumed"),
        Event::Resumed => tracing::info!("resumed: takes part in elections again"),
        Event::Failing { terms, pause } => log_failing(*terms, *pause),
        Event::FailingOver => tracing::info!("this instance gets another chance to lead"),
        Event::LeaderChanged(Some(leader)) => {
            scope.claim_failed.store(false, Ordering::Relaxed);
            log_leader(scope, leader);
        }
        // The span of these has the fencing token.
        Event::TermStarted { .. } => tracing::info!("term started"),
        Event::TermEnding { cause, .. } => log_term_ending(scope, *cause),
        Event::TermEnded {
            cause,
            lasted,
            released,
            cooldown,
            ..
        } => {
            let (lasted_text, cooldown) = (rounded(*lasted), exact(*cooldown));
            tracing::info!(cause = cause.as_str(), lasted = %lasted_text, released, %cooldown, "term ended");
            let is_brief = *cause == EndCause::Returned && *lasted < scope.settings.ttl;
            // One may be meant so, such as the last one of a job that is done.
            if scope.returned_briefly.swap(is_brief, Ordering::Relaxed) && is_brief {
                log_brief_return(scope, *lasted);
            }
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
        Event::HeartbeatEnded { outcome, took } => log_heartbeat(*outcome, *took),
        Event::HealthCheckFailed { consecutive } => {
            tracing::warn!(consecutive, "health check failed");
        }
        Event::HealthCheckUnanswered => {
            tracing::warn!(
                "no health check: the runtime that runs handlers does not answer, something blocks it"
            );
        }
        Event::ValidationFailed => {
            tracing::warn!(
                "the lease can't be proved: the role's key or its fence key has changed"
            );
        }
        // The connection monitor tells of outages, once for all roles.
        Event::ConnectionChanged(status) => tracing::debug!(%status, "connection changed"),
        Event::Failure {
            request,
            kind,
            detail,
        } => log_failure(scope, *request, *kind, detail),
        Event::CircuitOpened => log_slowdown(scope),
        Event::CircuitClosed => {
            lock(&scope.logged).clear();
            tracing::info!("requests succeed again");
        }
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
                waited = %rounded(*waited),
                left = %rounded(*left),
                "nobody leads: a lease longer than this role's ttl is waited for; if its holder is certainly gone, `nats-elect end-lease` ends the wait"
            );
        }
        _ => {}
    }
}
