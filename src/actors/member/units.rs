//! The units of this member: their records, their terms and their handlers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ractor::ActorRef;

use super::{MemberState, Running, Step};
use crate::actors::messages::MemberMsg;
use crate::actors::outcomes::{failure_of, outcome_of};
use crate::metrics::UnitTermEnd;
use crate::role::{Ask, UnitOnBoard};
use crate::store::{FencedBy, Shown, StoreError};
use nats_elect_core::duration::exact;
use nats_elect_core::event::FailureKind;
use nats_elect_core::group::{
    Epoch, GroupContent, GroupEffect, GroupInput, GroupWrite, Hint, MemberContent, UnitKey,
};
use nats_elect_core::token::{CorrelationId, FencingToken, LeaseToken};
use nats_elect_core::{
    Failure, HandlerEnd, Input, Moment, OpId, Reply, TermId, TermStart, WriteOutcome,
};

impl MemberState {
    /// Takes a message of the watch.
    pub(super) fn shown(&mut self, shown: Shown, steps: &mut VecDeque<Step>) {
        let Shown {
            mut message,
            signed: signature,
            entry,
        } = shown;
        match &mut message.content {
            GroupContent::Member(epoch, content) => {
                if let MemberContent::Record(seen) = &*content
                    && seen.identity.is_some()
                {
                    self.meet(*epoch, &seen.id);
                }
                if let Some(entry) = entry
                    && self.keeper(*epoch).is_some()
                {
                    steps.push_back(Step::lease(*epoch, Input::Observed(*entry)));
                }
            }
            GroupContent::Group(name, _) => {
                self.count_ages_of(name);
                self.told.insert(name.clone());
            }
            GroupContent::Unit { key, signed, .. } => {
                if let Some(signature) = signature
                    && let Some(checked) = &self.checked
                    && let Some(over) = message.over
                    && let Some((giver, public)) = self.group.giver(key, over)
                    && checked.is_signed_by(
                        &public,
                        key,
                        over,
                        &signature.unsigned,
                        &signature.signature,
                    )
                {
                    *signed = Some(giver);
                }
                self.count_ages_of(&key.group);
                self.touched.insert(key.clone());
                self.told.insert(key.group.clone());
            }
        }
        steps.push_front(Step::Group(GroupInput::Shown(message)));
    }

    fn meet(&self, epoch: Epoch, id: &str) {
        for scope in self.groups.values() {
            let is_known = scope.read(|board| board.members.contains_key(&epoch));
            if !is_known {
                scope.write(|board| {
                    board.members.insert(epoch, id.into());
                });
            }
        }
    }

    /// Sends hints to another member, which may not get them.
    pub(super) fn send_hints(&self, to: Epoch, hints: Vec<Hint>) {
        if let Some(bucket) = self.bucket.clone() {
            tokio::spawn(async move {
                if let Err(error) = bucket.send_hints(to, &hints).await {
                    tracing::debug!(%error, "a hint was not sent");
                }
            });
        }
    }

    /// The reason why a term ends that would end for this one, if the instance did not leave.
    pub(super) const fn drained_or(&self, otherwise: UnitTermEnd) -> UnitTermEnd {
        if self.stopping.is_some() {
            UnitTermEnd::Drained
        } else {
            otherwise
        }
    }

    pub(super) fn carry_out(
        &mut self,
        myself: &ActorRef<MemberMsg>,
        effect: GroupEffect,
        steps: &mut VecDeque<Step>,
    ) {
        match effect {
            GroupEffect::Write { op, write } => self.write(myself, op, write),
            GroupEffect::HeartbeatNow => self.tell_now(steps),
            GroupEffect::Rewatch if self.watch.looking.is_under_way() => {}
            GroupEffect::Rewatch => self.begin_watch(myself),
            // The last handlers under the lost lease are aborted. If it were renewed while one of them
            // blocks, nobody could have its other units.
            GroupEffect::NewEpoch => {
                if let Some(epoch) = self.present.take() {
                    self.leave_epoch(epoch, steps);
                }
            }
            GroupEffect::Retire { epoch } => {
                self.end_lease_if_idle(epoch, steps);
                self.leave_epoch(epoch, steps);
            }
            GroupEffect::Extend { until } => self.extend(until, steps),
            // Nobody would end this term. Its record stays, as those of the others do.
            GroupEffect::Start { .. } if self.keeps() => {}
            // A term under a lease that is renewed no more would be aborted in the midst of its work.
            GroupEffect::Start { unit, sequence, .. }
                if self.present.is_some_and(|epoch| self.is_ending(epoch)) =>
            {
                steps.push_back(Step::Group(GroupInput::HandlerEnded {
                    unit,
                    sequence,
                    end: HandlerEnd::Returned,
                }));
            }
            GroupEffect::Start {
                unit,
                sequence,
                until,
            } => self.start(myself, unit, sequence, until, steps),
            GroupEffect::Cancel { unit, sequence } => {
                let cause = self.drained_or(UnitTermEnd::Given);
                if let Some(running) = self.running_at(&unit, sequence) {
                    running.cancel(cause);
                }
                self.touched.insert(unit);
            }
            GroupEffect::Hint { to, hints } => {
                self.send_hints(to, hints);
            }
            GroupEffect::Revoke { unit, sequence } => {
                // Its record and its lease stand: then it is the handler that took too long.
                let (own, stands) = (self.group.own_epoch(), self.group.unit_owner(&unit));
                let is_held = own.is_some() && stands == Some((sequence, own));
                let cause = if is_held {
                    UnitTermEnd::Overrun
                } else {
                    UnitTermEnd::Lost
                };
                self.end_term(unit, sequence, cause);
            }
        }
    }

    /// Ends a unit's term for good, and aborts its handler.
    pub(super) fn end_term(&mut self, unit: UnitKey, sequence: u64, cause: UnitTermEnd) {
        if let Some(running) = self.running.get_mut(&unit)
            && running.sequence == sequence
        {
            if cause == UnitTermEnd::Overrun {
                let stop_budget = exact(self.settings.stop_budget);
                tracing::warn!(
                    group = %unit.group,
                    unit = %unit.unit,
                    %stop_budget,
                    "the handler did not end in time after its term was cancelled: aborting it; its unit is given away when it has ended, and a lease later at the latest"
                );
            }
            running.end(cause);
            running.count_end(&self.groups, &unit);
        }
        self.touched.insert(unit);
    }

    fn running_at(&mut self, unit: &UnitKey, sequence: u64) -> Option<&mut Running> {
        let running = self.running.get_mut(unit);
        running.filter(|running| running.sequence == sequence)
    }

    fn start(
        &mut self,
        myself: &ActorRef<MemberMsg>,
        unit: UnitKey,
        sequence: u64,
        until: Moment,
        steps: &mut VecDeque<Step>,
    ) {
        let (Some(scope), Some(checked)) = (self.groups.get(&unit.group), &self.checked) else {
            return;
        };
        let shards = self.group.record(&unit.group).and_then(|it| it.shards());
        let margin = self
            .settings
            .ttl
            .saturating_sub(self.settings.drift_margin());
        let start = TermStart {
            term: TermId(sequence),
            lease_token: LeaseToken::new(
                uuid::Builder::from_random_bytes(rand::random()).into_uuid(),
            ),
            fencing_token: FencingToken {
                epoch: checked.created,
                sequence,
            },
            lease: until,
            proved: until - margin,
        };
        let id = CorrelationId::new(self.instance.incarnation, self.generation, sequence);
        let span = self.instance.unit_span(&unit, &id, start.fencing_token);
        let (asks, asked_of) = (myself.clone(), unit.clone());
        let ask: Ask = Arc::new(move |request| {
            let _ = asks.send_message(MemberMsg::Ask(asked_of.clone(), sequence, request));
        });
        let (reports, of) = (myself.clone(), unit.clone());
        let report = move |report| {
            let _ = reports.send_message(MemberMsg::Handler(of.clone(), report));
        };
        let Some(term) = scope.start(
            (&unit, FencedBy::Record),
            shards,
            &start,
            (id, span),
            ask,
            report,
        ) else {
            // Without a handler there is nothing to run. The machine gives the unit up.
            steps.push_back(Step::Group(GroupInput::HandlerEnded {
                unit,
                sequence,
                end: HandlerEnd::Failed,
            }));
            return;
        };
        let running = Running {
            sequence,
            epoch: self.present,
            term,
            lives: true,
            cause: None,
            counted: false,
        };
        scope.meter.started(1);
        self.touched.insert(unit.clone());
        self.running.insert(unit, running);
    }

    /// The handler is over. What it spawned is told to end, and is aborted like a handler if it does
    /// not: nobody else would end it while the lease lasts, and the unit would be nobody's work.
    pub(super) fn handler_ending(&mut self, unit: &UnitKey, sequence: u64) {
        let Some(running) = self.running_at(unit, sequence) else {
            return;
        };
        let term = running.term.clone();
        let patience = self.settings.stop_budget;
        if !term.has_ended() {
            tokio::spawn(async move {
                if tokio::time::timeout(patience, term.ended()).await.is_err() {
                    term.abort();
                }
            });
        }
    }

    pub(super) fn handler_ended(
        &mut self,
        unit: UnitKey,
        sequence: u64,
        end: HandlerEnd,
        steps: &mut VecDeque<Step>,
    ) {
        let Some(running) = self.running_at(&unit, sequence) else {
            return;
        };
        let epoch = running.epoch;
        running.lives = false;
        running.term.revoke();
        if let Some(mut running) = self.running.remove(&unit) {
            running.count_end(&self.groups, &unit);
        }
        if let Some(scope) = self.groups.get(&unit.group) {
            scope.ended(&unit.unit);
        }
        self.touched.insert(unit.clone());
        self.health.forget(&unit);
        if !self.keeps() {
            steps.push_back(Step::Group(GroupInput::HandlerEnded {
                unit,
                sequence,
                end,
            }));
        }
        if let Some(epoch) = epoch
            && (self.present != Some(epoch) || self.is_ending(epoch))
        {
            self.end_lease_if_idle(epoch, steps);
        }
    }

    /// Moves the deadline of all terms, and answers those who wait for a proof.
    fn extend(&mut self, until: Moment, steps: &mut VecDeque<Step>) {
        let present = self.present;
        self.tell_of_itself(steps);
        let length = self
            .settings
            .ttl
            .saturating_sub(self.settings.drift_margin());
        let sent = until - length;
        let mut all_extended = true;
        for running in self.running.values() {
            if running.lives && running.epoch == present {
                all_extended &= running.term.extend(until, sent);
            }
        }
        if !all_extended && let Some(epoch) = present {
            // Somebody has seen the deadline as over.
            steps.push_back(Step::Group(GroupInput::LeaseLost { epoch }));
        }
        let (proved, waiting) = std::mem::take(&mut self.proofs)
            .into_iter()
            .partition::<Vec<_>, _>(|proof| proof.asked <= sent);
        self.proofs = waiting;
        for proof in proved {
            let running = self.running_at(&proof.unit, proof.sequence);
            let acts = running
                .filter(|running| running.lives && running.term.remaining() > Duration::ZERO);
            let reply = acts.map_or(Reply::NotLeader, |running| {
                Reply::Proved(running.term.fencing_token())
            });
            // The asker may have gone.
            let _ = proof.reply.send(reply);
        }
    }

    /// How long a caller waits for a proof.
    pub(super) fn proof_timeout(&self) -> Duration {
        self.settings.request_timeout * 2
    }

    /// Answers those who have waited for too long, or whose term is over.
    pub(super) fn give_up_proofs(&mut self, now: Moment) {
        let patience = self.proof_timeout();
        for proof in std::mem::take(&mut self.proofs) {
            let running = self.running_at(&proof.unit, proof.sequence);
            if running.is_none_or(|running| !running.lives) {
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

    fn write(&mut self, myself: &ActorRef<MemberMsg>, op: OpId, write: GroupWrite) {
        let (Some(bucket), Some(checked)) = (self.bucket.clone(), &self.checked) else {
            let failed = WriteOutcome::Failed(failure_of(&StoreError::Unavailable(
                "there is no connection".into(),
            )));
            let _ = myself.send_message(MemberMsg::WriteEnded {
                machine: self.machines,
                op,
                outcome: failed,
            });
            return;
        };
        let value = match &write {
            GroupWrite::Unit {
                key,
                over,
                record,
                sign: Some(epoch),
            } => {
                let keeper = self.keepers.iter().find(|it| it.epoch == *epoch);
                keeper.map_or_else(
                    || record.to_json(),
                    |it| it.sign(&checked.bucket, checked.created, key, *over, *record),
                )
            }
            GroupWrite::Unit { record, .. } => record.to_json(),
            GroupWrite::Depose { .. } | GroupWrite::Group { .. } => Vec::new(),
        };
        if let GroupWrite::Unit { key, .. } = &write {
            self.written.insert(op, key.clone());
        }
        let (myself, turns, machine) = (myself.clone(), Arc::clone(&self.writes), self.machines);
        let within = self.settings.request_timeout;
        tokio::spawn(async move {
            // It was for another bucket, if it gets no turn.
            let Ok(_turn) = turns.acquire_owned().await else {
                return;
            };
            // Thousands may wait. The memory for a request is taken when its turn has come.
            let written = Box::pin(async {
                match write {
                    GroupWrite::Unit { key, over, .. } => {
                        bucket.write_unit(&key, over, value, within).await
                    }
                    GroupWrite::Depose {
                        epoch,
                        over,
                        identity,
                    } => bucket.depose(epoch, over, identity, within).await,
                    GroupWrite::Group {
                        group,
                        over,
                        record,
                    } => bucket.write_group(&group, over, &record, within).await,
                }
            });
            let outcome = outcome_of(written.await);
            let _ = myself.send_message(MemberMsg::WriteEnded {
                machine,
                op,
                outcome,
            });
        });
    }

    /// Enters what has changed on the boards of the groups.
    pub(super) fn show(&mut self) {
        // Before that units are known whose owners are not. Nor does what it knew of another bucket
        // count.
        if self.forget.is_some() || !self.group.has_caught_up() {
            return;
        }
        let touched = std::mem::take(&mut self.touched);
        if !touched.is_empty() {
            self.meter.unit_changed();
        }
        for key in touched {
            let Some(scope) = self.groups.get(&key.group) else {
                continue;
            };
            if !scope.read(|board| board.has(&key)) {
                continue;
            }
            let (sequence, owner) = self.group.unit_owner(&key).unwrap_or_default();
            let running = self.running.get(&key);
            let acts_here = running.is_some_and(|it| it.lives && it.sequence == sequence);
            let now = UnitOnBoard {
                sequence,
                owner,
                acts_here,
            };
            scope.enter(&key.unit, now);
        }
    }
}
