//! Leading: heartbeats, proofs on demand, health checks, and the conditions under which a term must end.

use std::time::Duration;

use super::agenda::Task;
use super::core::{Election, Hold, Phase};
use super::effect::{Effect, Reply};
use super::input::{Failure, Link, RequestId, Snapshot, TermId};
use super::keeping::Keeper;
use super::mutation::mutated;
use super::succession::Handing;
use crate::config::RoleSettings;
use crate::event::{EndCause, Event, FailureKind};
use crate::moment::Moment;
use crate::token::{FencingToken, LeaseToken};

/// A term in office.
#[derive(Clone, Debug, Hash)]
pub(super) struct Tenure {
    pub keeper: Keeper,
    pub fencing_token: FencingToken,
    pub started: Moment,
    /// Since when the connection is down, or heartbeats late.
    pub suspended_since: Option<Moment>,
    /// Callers who want a proof, and the first beat that was sent after they asked.
    pub proofs: Vec<(RequestId, u64)>,
    /// A named successor is asked whether it is ready.
    pub handing: Option<Handing>,
    verify_at: Moment,
    /// When the lease token is replaced.
    rotate_at: Option<Moment>,
    check_at: Moment,
    checking: bool,
    failed_checks: u32,
}

impl Tenure {
    pub fn new(
        hold: Hold,
        fencing_token: FencingToken,
        now: Moment,
        settings: &RoleSettings,
    ) -> Self {
        Self {
            keeper: Keeper::new(hold, hold.sent + settings.heartbeat),
            fencing_token,
            started: now,
            suspended_since: None,
            proofs: Vec::new(),
            handing: None,
            verify_at: now + settings.validation_interval,
            rotate_at: settings.rotation_interval.map(|interval| now + interval),
            check_at: now + settings.health.interval,
            checking: false,
            failed_checks: 0,
        }
    }

    /// The instance may call itself leader until the lease or the grace period ends, whichever comes first.
    pub fn acting_until(&self, grace: Option<Duration>) -> Moment {
        let until = self.keeper.hold.until;
        self.grace_until(grace)
            .map_or(until, |grace_until| until.min(grace_until))
    }

    pub fn hash_situation(
        &self,
        now: Moment,
        settings: &RoleSettings,
        hasher: &mut impl std::hash::Hasher,
    ) {
        use std::hash::Hash;

        let Self {
            keeper,
            fencing_token,
            started,
            suspended_since,
            proofs,
            handing,
            verify_at,
            rotate_at,
            check_at,
            checking,
            failed_checks,
        } = self;
        // It has lasted long enough for its end not to count among failures in a row.
        let lasted = now.since(*started).min(settings.max_cooldown);
        // Without a grace period it does not matter since when.
        let suspended_since = suspended_since.map(|since| settings.grace.map(|_| since));
        (keeper, fencing_token, lasted, suspended_since, proofs).hash(hasher);
        handing.hash(hasher);
        (verify_at, rotate_at, check_at, checking, failed_checks).hash(hasher);
    }

    fn grace_until(&self, grace: Option<Duration>) -> Option<Moment> {
        Some(self.suspended_since? + grace?)
    }
}

impl Election {
    pub(super) fn leading_agenda(&self, tenure: &Tenure) -> Vec<(Moment, Task)> {
        let last_call = tenure.keeper.hold.until - self.settings.stop_budget;
        let mut agenda = vec![(last_call, Task::WindDown(EndCause::LeaseExpired))];
        if let Some(grace_until) = tenure.grace_until(self.settings.grace) {
            agenda.push((grace_until, Task::WindDown(EndCause::ConnectionLost)));
        }
        // Once it is too late to go on, a heartbeat would only make others wait for longer.
        let too_late = agenda.iter().any(|(due, _)| *due <= self.now);
        if !tenure.checking {
            agenda.push((tenure.check_at, Task::CheckHealth));
        }
        if self.may_send() && !too_late {
            let (due, task) = tenure.keeper.due(self.retry.at());
            // A look at the fence must not delay a heartbeat, let alone one that is late already.
            let verify_at = tenure.verify_at.max(self.retry.at()).max(self.now);
            let takes = self.read_takes();
            // On a slow network it never fits between two heartbeats: then the lease must have room for it, and for two more.
            let overdue = tenure.verify_at + self.settings.validation_interval <= self.now
                && self.now + takes * 2 <= last_call;
            if task == Task::Renew && (verify_at + takes <= due || overdue) {
                agenda.push((verify_at, Task::VerifyFence));
            }
            let asked = !tenure.proofs.is_empty() && task == Task::Renew;
            agenda.push((if asked { self.retry.at() } else { due }, task));
        }
        agenda
    }

    /// The token of the next heartbeat: after the rotation interval, a new one.
    pub(super) fn next_token(&self, hold: &Hold) -> LeaseToken {
        let due = |tenure: &Tenure| tenure.rotate_at.is_some_and(|at| at <= self.now);
        match &self.phase {
            Phase::Leading(tenure) if due(tenure) => self.fresh.lease_token,
            _ => hold.secrets.token,
        }
    }

    /// A heartbeat with this token was confirmed.
    pub(super) fn rotated(&mut self, token: LeaseToken, sent: Moment) {
        let next = self
            .settings
            .rotation_interval
            .map(|interval| sent + interval);
        let Some(keeper) = self.keeper() else { return };
        if std::mem::replace(&mut keeper.hold.secrets.token, token) == token {
            return;
        }
        let term = keeper.hold.term;
        if let Phase::Leading(tenure) = &mut self.phase {
            tenure.rotate_at = next;
        }
        let lease_token = token;
        self.emit(Effect::Rotate { term, lease_token });
    }

    /// The connection broke or a heartbeat is late.
    pub(super) fn suspend(&mut self) {
        let now = self.now;
        let grace = self.settings.grace;
        let Phase::Leading(tenure) = &mut self.phase else {
            return;
        };
        if tenure.suspended_since.is_none() {
            tenure.suspended_since = Some(now);
            if grace.is_some() {
                let (term, acting) = (tenure.keeper.hold.term, tenure.acting_until(grace));
                self.emit(Effect::Suspend { term, acting });
            }
        }
    }

    /// The watch showed something that is not ours, at this revision: ask for proof at once. At our own revision a
    /// heartbeat would prove nothing: it would write over what stands there now.
    pub(super) fn suspect(&mut self, revision: u64) {
        let now = self.now;
        let Some(keeper) = self.keeper() else { return };
        if revision == keeper.hold.revision {
            keeper.look_for_impostor();
        } else if revision > keeper.hold.revision {
            keeper.renew_at = now;
        }
    }

    /// There is a link to the bucket again: a leader verifies by a heartbeat before it goes on.
    pub(super) fn linked(&mut self, replaced: bool) {
        let now = self.now;
        mutated!(ForgetDeadlineOnReconnect => self.extend_unproved());
        match &mut self.phase {
            Phase::Leading(_) | Phase::Draining(_) if replaced => {
                self.lost(EndCause::BucketLost, None);
            }
            Phase::Acquiring(_) if replaced => self.abandon_claim(),
            Phase::Leading(tenure) => tenure.keeper.renew_at = now,
            Phase::Standing(_) => self.standing_must_read(now, false),
            Phase::Acquiring(_) | Phase::Draining(_) | Phase::Stopped => {}
        }
    }

    pub(super) fn bucket_unusable(&mut self, failure: &Failure) {
        match failure.kind {
            FailureKind::BucketMissing | FailureKind::BucketUnfit => {
                self.lost(EndCause::BucketLost, None);
            }
            _ if failure.is_transient() => self.suspend(),
            _ if matches!(self.phase, Phase::Leading(_)) => self.wind_down(EndCause::BucketLost),
            _ => {}
        }
    }

    pub(super) fn lease_over(&mut self, term: TermId) {
        if self.hold().is_some_and(|hold| hold.term == term) {
            self.lost(EndCause::LeaseExpired, None);
        }
    }

    /// Whoever moved the fence holds the role, or has broken what this term's writes rest on.
    pub(super) fn superseded(&mut self, term: TermId) {
        let in_office = matches!(self.phase, Phase::Leading(_) | Phase::Draining(_));
        if in_office && self.hold().is_some_and(|hold| hold.term == term) {
            if matches!(self.phase, Phase::Leading(_)) {
                self.tell(Event::ValidationFailed);
            }
            self.lost(EndCause::Superseded, None);
        }
    }

    pub(super) fn validate(&mut self, request: RequestId, term: Option<TermId>) {
        let next_beat = self.ledger.next_beat();
        let linked = matches!(self.link, Link::Up(_));
        match &mut self.phase {
            Phase::Leading(tenure) if term.is_none_or(|term| term == tenure.keeper.hold.term) => {
                if linked {
                    tenure.proofs.push((request, next_beat));
                    return;
                }
                let detail = "not connected to NATS".to_owned();
                let failure = Failure {
                    kind: FailureKind::Unavailable,
                    detail,
                };
                self.reply(request, Reply::Unproven(failure));
            }
            _ => self.reply(request, Reply::NotLeader),
        }
    }

    /// Callers who waited for the proof of this beat, or of an earlier one, can't have it just now.
    pub(super) fn refuse_proofs(&mut self, beat: u64, failure: &Failure) {
        let Phase::Leading(tenure) = &mut self.phase else {
            return;
        };
        let refused: Vec<_> = tenure
            .proofs
            .extract_if(.., |(_, first)| *first <= beat)
            .collect();
        for (request, _) in refused {
            self.reply(request, Reply::Unproven(failure.clone()));
        }
    }

    pub(super) fn check_health(&mut self) {
        let Phase::Leading(tenure) = &mut self.phase else {
            return;
        };
        tenure.checking = true;
        let term = tenure.keeper.hold.term;
        self.emit(Effect::CheckHealth { term });
    }

    pub(super) fn health_checked(&mut self, term: TermId, healthy: bool) {
        let next = self.now + self.settings.health.interval;
        let Phase::Leading(tenure) = &mut self.phase else {
            return;
        };
        if tenure.keeper.hold.term != term || !tenure.checking {
            return;
        }
        tenure.checking = false;
        tenure.check_at = next;
        if healthy {
            tenure.failed_checks = 0;
            return;
        }
        tenure.failed_checks += 1;
        let consecutive = tenure.failed_checks;
        self.tell(Event::HealthCheckFailed { consecutive });
        if consecutive >= self.settings.health.max_consecutive_failures {
            self.wind_down(EndCause::Unhealthy);
        }
    }

    /// Heartbeats prove the lease; now and then the fence record is looked at too.
    pub(super) fn verify_fence(&mut self) {
        let next = self.now + self.settings.validation_interval;
        let Phase::Leading(tenure) = &mut self.phase else {
            return;
        };
        tenure.verify_at = next;
        self.send_read();
    }

    /// The keys were read while leading.
    pub(super) fn leader_has_read(&mut self, snapshot: &Snapshot) {
        let own = self.candidate.incarnation;
        // Where keys expire it may be the server's own marker.
        let expires = self.bucket.is_some_and(|bucket| bucket.max_age.is_some());
        let Phase::Leading(tenure) = &mut self.phase else {
            return;
        };
        // What lies above our fence is no stale read. Without a nonce it is somebody's hand, and the token guards nothing any more.
        let outranked = snapshot.fence.is_some_and(|fence| {
            let anothers = fence.nonce().map(|nonce| nonce.incarnation != own);
            fence.revision > tenure.fencing_token.sequence && anothers.unwrap_or(!expires)
        });
        if outranked {
            self.tell(Event::ValidationFailed);
            self.wind_down(EndCause::Superseded);
        } else {
            self.keeper_has_read(snapshot);
        }
    }
}
