//! The units of a member: their terms and their handlers.

use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::{GroupState, Stopping};
use crate::actors::messages::GroupMsg;
use crate::clock;
use crate::metrics::UnitTermEnd;
use crate::role::{Ask, HandlerReport, Request, RunningTerm};
use nats_elect_core::assignment::UnitKey;
use nats_elect_core::duration::exact;
use nats_elect_core::event::FailureKind;
use nats_elect_core::member::{Input, UnitId};
use nats_elect_core::name::GroupName;
use nats_elect_core::token::{CorrelationId, FencingToken, LeaseToken};
use nats_elect_core::{Failure, HandlerEnd, Moment, Reply, TermId, TermStart};

/// A unit's handler at work.
pub(super) struct Running {
    pub term: RunningTerm,
    /// Why it ends, once it was told to.
    cause: Option<UnitTermEnd>,
}

impl Running {
    /// Asks the handler to end.
    pub fn cancel(&mut self, cause: UnitTermEnd) {
        self.cause.get_or_insert(cause);
        self.term.cancel();
    }

    /// Whether its handler may act, and was not told to end.
    pub fn acts(&self) -> bool {
        self.term.in_office().is_some()
    }

    /// Why its term ended.
    fn ended_for(&self, end: HandlerEnd) -> UnitTermEnd {
        match self.cause {
            None => UnitTermEnd::Handler,
            Some(UnitTermEnd::Lost) => UnitTermEnd::Lost,
            Some(_) if end == HandlerEnd::Aborted => UnitTermEnd::Overrun,
            Some(cause) => cause,
        }
    }
}

/// A caller who waits until the ownership of a unit is proved.
pub(super) struct Proof {
    unit: UnitId,
    term: TermId,
    asked: Moment,
    reply: oneshot::Sender<Reply>,
}

impl GroupState {
    /// Starts the handler of a unit.
    pub(super) fn start(
        &mut self,
        myself: &ActorRef<GroupMsg>,
        unit: UnitId,
        token: FencingToken,
        until: Moment,
    ) -> Vec<Input> {
        // Its own units were told to end when it began to stop.
        if self.stopping.is_some_and(|it| it != Stopping::Leaving) {
            return Vec::new();
        }
        let settings = &self.scope.settings;
        let length = settings.ttl.saturating_sub(settings.drift_margin());
        let term = TermId(token.sequence);
        let start = TermStart {
            term,
            lease_token: LeaseToken::new(
                uuid::Builder::from_random_bytes(rand::random()).into_uuid(),
            ),
            fencing_token: token,
            lease: until,
            proved: until - length,
        };
        let key = UnitKey {
            group: self.scope.name.clone(),
            generation: unit.generation,
            unit: unit.unit().name(),
        };
        let id = CorrelationId::new(self.scope.instance.incarnation, self.generation, term.0);
        let span = self.scope.instance.unit_span(&key, &id, token);
        let (asks, asked_of) = (myself.clone(), unit.clone());
        let ask: Ask = Arc::new(move |request| {
            let _ = asks.send_message(GroupMsg::Ask(asked_of.clone(), term, request));
        });
        let (reports, of) = (myself.clone(), unit.clone());
        let report = move |report| {
            let _ = reports.send_message(GroupMsg::Handler(of.clone(), report));
        };
        let shards = self.member.map().and_then(|map| map.units().shards());
        let started = self
            .scope
            .start(&key, shards, start, (id, span), ask, report);
        let Some(term) = started else {
            // Without a handler there is nothing to run: the unit goes elsewhere.
            let ended = Input::HandlerEnded(unit.clone(), HandlerEnd::Failed);
            return vec![Input::Unhealthy(unit), ended];
        };
        self.scope.meter.started(1);
        self.running.insert(unit, Running { term, cause: None });
        Vec::new()
    }

    /// Asks a handler to end, and aborts it if it does not.
    pub(super) fn cancel(&mut self, unit: &UnitId, until: Moment) {
        let cause = self.cause();
        if let Some(running) = self.running.get_mut(unit) {
            running.cancel(cause);
            let budget = self.scope.settings.stop_budget;
            let left = until.since(clock::now()).min(budget);
            abort_later(&self.scope.name, unit, &running.term, left);
        }
    }

    pub(super) fn handler_told(
        &mut self,
        myself: &ActorRef<GroupMsg>,
        unit: &UnitId,
        report: HandlerReport,
    ) {
        let is_it = |it: &&Running, term: TermId| it.term.id() == term;
        match report {
            // What it spawned is told to end, and is aborted like a handler if it does not.
            HandlerReport::Ending(term, _) => {
                if let Some(running) = self.running.get(unit).filter(|it| is_it(it, term)) {
                    let budget = self.scope.settings.stop_budget;
                    abort_later(&self.scope.name, unit, &running.term, budget);
                }
            }
            HandlerReport::Ended(term, end) => {
                if self.running.get(unit).is_some_and(|it| is_it(&it, term))
                    && let Some(running) = self.running.remove(unit)
                {
                    running.term.revoke();
                    self.scope.meter.ended(running.ended_for(end), 1);
                    self.stirred.insert(unit.clone());
                    self.scope.ended(&unit.unit().name());
                    self.health.forget(&Some(unit.clone()));
                    self.step(myself, Input::HandlerEnded(unit.clone(), end));
                }
            }
        }
    }

    /// Moves the deadline of all terms, and answers those who wait for a proof.
    pub(super) fn extend(&mut self, until: Moment, proved: Moment) {
        for running in self.running.values() {
            if running.term.in_office().is_some() {
                running.term.extend(until, proved);
            }
        }
        for proof in std::mem::take(&mut self.proofs) {
            if proof.asked > proved {
                self.proofs.push(proof);
                continue;
            }
            let running = self.running.get(&proof.unit);
            let token = running
                .filter(|it| it.term.id() == proof.term)
                .and_then(|it| it.term.in_office());
            // The asker may have gone.
            let _ = proof
                .reply
                .send(token.map_or(Reply::NotLeader, Reply::Proved));
        }
    }

    pub(super) fn asked(
        &mut self,
        myself: &ActorRef<GroupMsg>,
        unit: UnitId,
        term: TermId,
        request: Request,
    ) {
        match request {
            Request::Validate { reply, .. } => {
                let asked = clock::now();
                self.proofs.push(Proof {
                    unit,
                    term,
                    asked,
                    reply,
                });
                self.step(myself, Input::Prove);
            }
            Request::Superseded { .. } => {
                let running = self.running.get(&unit);
                if let Some(running) = running.filter(|it| it.term.id() == term) {
                    // The machine is told when the handler has ended.
                    running.term.revoke();
                    running.term.abort();
                    self.stirred.insert(unit);
                }
            }
            _ => {}
        }
    }

    /// Answers those who have waited for too long, or whose term is over.
    pub(super) fn give_up_proofs(&mut self) {
        let (now, patience) = (clock::now(), self.scope.settings.request_timeout * 2);
        for proof in std::mem::take(&mut self.proofs) {
            let running = self.running.get(&proof.unit);
            if running.is_none_or(|it| it.term.id() != proof.term) {
                let _ = proof.reply.send(Reply::NotLeader);
            } else if proof.asked + patience <= now {
                let _ = proof.reply.send(Reply::Unproven(Failure {
                    kind: FailureKind::Timeout,
                    detail: "no heartbeat was confirmed and shown in time".into(),
                }));
            } else {
                self.proofs.push(proof);
            }
        }
    }
}

/// Aborts a handler that does not end in time.
fn abort_later(group: &GroupName, unit: &UnitId, term: &RunningTerm, patience: Duration) {
    if term.has_ended() {
        return;
    }
    let (group, unit, term) = (group.clone(), unit.unit().name(), term.clone());
    let aborting = async move {
        if tokio::time::timeout(patience, term.ended()).await.is_err() {
            let stop_budget = exact(patience);
            tracing::warn!(
                %group,
                %unit,
                %stop_budget,
                "the handler did not end in time after its term was cancelled: aborting it; its unit goes elsewhere when it has ended, and a lease later at the latest"
            );
            term.abort();
        }
    };
    tokio::spawn(aborting.in_current_span());
}
