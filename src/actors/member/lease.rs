//! The lease of this member: its epochs, and the elections that keep them.

use std::collections::VecDeque;

use ractor::ActorRef;

use super::epoch::Keeper;
use super::{BEATS_PER_EPOCH, MemberState, Running, Step};
use crate::actors::messages::{MemberMsg, SupervisorMsg};
use crate::actors::outcomes::{failure_of, outcome_of};
use crate::clock;
use crate::metrics::UnitTermEnd;
use crate::model::bequests::Lease;
use nats_elect_core::duration::rounded;
use nats_elect_core::event::{EndCause, Event, FailureKind};
use nats_elect_core::group::{Epoch, GroupInput, GroupKey};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::token::LeaseToken;
use nats_elect_core::{
    Effect, Fresh, HandlerEnd, Input, Moment, OpId, RequestId, Write, WriteKind, WriteOutcome,
};

impl MemberState {
    pub(super) fn begin_epoch(&mut self, steps: &mut VecDeque<Step>) {
        self.next_epoch_at = clock::now() + self.settings.heartbeat;
        // The generation of this actor is above those before it.
        let first_beat = (self.generation << 40) + self.epochs * BEATS_PER_EPOCH;
        self.epochs += 1;
        // Nobody gives it a unit before its own watch has shown it its claim.
        let info = |key| self.info(key, true);
        let keeper = Keeper::new(&self.instance, &self.settings, first_beat, info);
        let epoch = keeper.epoch;
        tracing::debug!(%epoch, "claiming a new epoch");
        self.present = Some(epoch);
        for scope in self.groups.values() {
            scope.write(|board| (board.own, board.takes_units) = (Some(epoch), false));
        }
        self.keepers.push(keeper);
        let link = Input::Link(self.link.to_core());
        steps.push_back(Step::lease(epoch, link));
    }

    pub(super) fn keeper(&mut self, epoch: Epoch) -> Option<&mut Keeper> {
        self.keepers.iter_mut().find(|it| it.epoch == epoch)
    }

    pub(super) fn step_lease(
        &mut self,
        myself: &ActorRef<MemberMsg>,
        epoch: Epoch,
        input: Input,
        steps: &mut VecDeque<Step>,
    ) {
        let Some(keeper) = self.keeper(epoch) else {
            return;
        };
        let confirmed = match &input {
            Input::WriteEnded {
                outcome: WriteOutcome::Acked { revision },
                ..
            } => Some(*revision),
            _ => None,
        };
        let effects = keeper.election.step(clock::now(), fresh(), input);
        let sequence = confirmed.max(keeper.election.status().revision);
        self.bequeath(epoch);
        for effect in effects {
            self.carry_out_of_lease(myself, epoch, sequence, effect, steps);
        }
    }

    /// Notes the lease for a companion process: before a unit's handler can start under it, and no
    /// more before its own tombstone is sent.
    fn bequeath(&mut self, epoch: Epoch) {
        let keeper = self.keepers.iter_mut().find(|it| it.epoch == epoch);
        let (Some(bequests), Some(keeper)) = (&self.bequests, keeper) else {
            return;
        };
        let bequest = keeper.election.bequest();
        if bequest != keeper.bequest {
            bequests.set(&Lease::Member(keeper.identity), bequest);
            keeper.bequest = bequest;
        }
    }

    fn carry_out_of_lease(
        &mut self,
        myself: &ActorRef<MemberMsg>,
        epoch: Epoch,
        sequence: Option<u64>,
        effect: Effect,
        steps: &mut VecDeque<Step>,
    ) {
        let granted = |until| {
            sequence.map(|sequence| {
                Step::Group(GroupInput::Granted {
                    epoch,
                    sequence,
                    until,
                })
            })
        };
        match effect {
            Effect::Write(write) => self.write_lease(myself, epoch, write),
            Effect::Read { op, within, .. } => self.read_lease(myself, epoch, op, within),
            Effect::StartTerm(start) => {
                if let Some(keeper) = self.keeper(epoch) {
                    keeper.term = Some(start.term);
                }
                tracing::info!(%epoch, "this instance is a member");
                steps.extend(granted(start.lease));
            }
            Effect::Extend { lease, .. } => steps.extend(granted(lease)),
            // The lease may last on for the handlers to finish.
            Effect::Cancel { .. } => {
                if let Some(keeper) = self.keeper(epoch) {
                    keeper.ending = true;
                }
                let cause = self.drained_or(UnitTermEnd::Lost);
                for running in self.running.values_mut() {
                    if running.epoch == Some(epoch) {
                        running.cancel(cause);
                    }
                }
                self.end_lease_if_idle(epoch, steps);
            }
            Effect::Revoke { .. } | Effect::Abort { .. } => {
                steps.push_back(Step::Group(GroupInput::LeaseLost { epoch }));
                self.end_lease_if_idle(epoch, steps);
            }
            Effect::CheckHealth { term } => {
                let healthy = true;
                steps.push_back(Step::lease(epoch, Input::Health { term, healthy }));
            }
            Effect::Reopen => {
                let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
                // By then the bucket may be another one.
                myself.send_after(self.settings.heartbeat, || MemberMsg::LinkAgain);
            }
            Effect::Event(Event::Failure { kind, detail, .. }) => {
                for scope in self.groups.values() {
                    scope.labels.failed(kind);
                }
                // Each attempt to join has an epoch of its own.
                let trouble = detail.replace(&epoch.to_string(), "*");
                if self.logged.is_due(&trouble, clock::now()).is_none() {
                    return;
                }
                let text = "the member's lease is in trouble";
                if kind == FailureKind::BucketUnfit {
                    tracing::error!(kind = kind.as_str(), detail, "{text}");
                } else {
                    tracing::warn!(kind = kind.as_str(), detail, "{text}");
                }
            }
            Effect::Event(Event::TermEnding { cause, .. }) if cause != EndCause::Stopped => {
                let terms = self.running_under(epoch).count();
                tracing::warn!(
                    %epoch,
                    cause = cause.as_str(),
                    terms,
                    "the member's lease is lost: all terms of its units end, and it joins again"
                );
            }
            // Nobody contends for the lease, and no peer is asked. The group's machine extends the
            // terms of the units.
            Effect::Suspend { .. }
            | Effect::Resign { .. }
            | Effect::AskPeers { .. }
            | Effect::AnswerPeer { .. }
            | Effect::Reply { .. }
            | Effect::Event(_) => {}
        }
    }

    fn running_under(&self, epoch: Epoch) -> impl Iterator<Item = &Running> {
        let all = self.running.values();
        all.filter(move |running| running.epoch == Some(epoch))
    }

    /// Tells the election of an epoch that nothing of it runs any more.
    pub(super) fn end_lease_if_idle(&mut self, epoch: Epoch, steps: &mut VecDeque<Step>) {
        let runs = self.running_under(epoch).next().is_some();
        let Some(keeper) = self.keeper(epoch).filter(|_| !runs) else {
            return;
        };
        if let Some(term) = keeper.term.take() {
            let end = HandlerEnd::Returned;
            steps.push_back(Step::lease(epoch, Input::HandlerEnded { term, end }));
        }
    }

    /// Has the election of an epoch end, if it has not been told so.
    pub(super) fn leave_epoch(&mut self, epoch: Epoch, steps: &mut VecDeque<Step>) {
        let stop = self.keeper(epoch).and_then(Keeper::leave);
        steps.extend(stop.map(|stop| Step::lease(epoch, stop)));
    }

    /// Tells the elections how the connection stands.
    pub(super) fn tell_link(&self, steps: &mut VecDeque<Step>) {
        for keeper in &self.keepers {
            let link = Input::Link(self.link.to_core());
            steps.push_back(Step::lease(keeper.epoch, link));
        }
    }

    /// Whether the election of this epoch renews its lease no more.
    pub(super) fn is_ending(&self, epoch: Epoch) -> bool {
        let mut keepers = self.keepers.iter();
        keepers.any(|it| it.epoch == epoch && it.ending)
    }

    /// Has the member's record say what there is to say. What others wait for is written now, the
    /// rest with the next heartbeat.
    pub(super) fn tell_of_itself(&mut self, steps: &mut VecDeque<Step>) {
        if self.tell(steps) {
            self.heartbeat(steps);
        }
    }

    /// Has the next heartbeat say what there is to say. Returns whether others wait for it.
    fn tell(&mut self, steps: &mut VecDeque<Step>) -> bool {
        let cordoned = self.cordoned || self.stopping.is_some() || !self.group.has_joined();
        let keeper = self.present.and_then(|epoch| self.keeper(epoch));
        let Some((epoch, before)) = keeper.map(|it| (it.epoch, it.info.clone())) else {
            return false;
        };
        self.look_at_ages();
        let info = self.info(before.key, cordoned);
        let is_urgent = !info.takes_the_part_of(&before);
        let told = self.keeper(epoch).and_then(|keeper| keeper.tell(info));
        steps.extend(told.map(|tell| Step::lease(epoch, tell)));
        if is_urgent {
            for (name, scope) in &*self.groups {
                let takes = !cordoned && self.group.misfit(name).is_none();
                scope.write(|board| board.takes_units = takes);
            }
        }
        is_urgent
    }

    /// Writes the next heartbeat now, with what there is to say.
    pub(super) fn tell_now(&mut self, steps: &mut VecDeque<Step>) {
        self.tell(steps);
        self.heartbeat(steps);
    }

    /// Tells the handles whether this instance has joined. An operator's cordon is no part of that.
    pub(super) fn show_joined(&mut self) {
        let can_own = self.group.has_joined() && self.stopping.is_none() && self.forget.is_none();
        // Others give it nothing before its record says that it takes units.
        let is_told = || self.group.own_info().is_some_and(|it| !it.cordoned);
        self.joined = can_own && (self.joined || self.cordoned || is_told());
        for (name, scope) in &*self.groups {
            scope.set_joined(self.joined && self.group.misfit(name).is_none());
        }
    }

    /// Logs for how long it waits before it can own what it found, and why that is long.
    pub(super) fn log_wait(&mut self) {
        let (now, at) = (clock::now(), self.group.joins_at());
        if self.forget.is_some() || at <= now || self.joins_at == Some(at) {
            return;
        }
        self.joins_at = Some(at);
        let present = self.present;
        let others = self.group.members().filter(|it| Some(it.epoch) != present);
        let (known, strange): (Vec<_>, Vec<_>) = others
            .filter(|it| now < it.over_at)
            .partition(|it| it.lease.is_some());
        let wait = rounded(at.since(now));
        // A key that is written again and again puts the end off each time.
        let what = if strange.is_empty() {
            "waits for leases"
        } else {
            "waits for unknown leases"
        };
        if self.logged.is_due(what, now).is_none() {
            return;
        }
        if let Some(first) = strange.first() {
            let (key, keys) = (GroupKey::Member(first.epoch), strange.len());
            tracing::warn!(
                %wait,
                keys,
                "this member owns no unit before that: keys of members tell no lease that can be believed, or units name members that have no key. The first one is {key}. Purge those that no instance writes (docs/operations.md, delete markers of members)"
            );
        } else {
            let leases = known.len();
            tracing::info!(%wait, leases, "this member owns no unit before the leases of those that it found are over, or that it may not have found");
        }
    }

    /// Logs that handlers of a former bucket keep this member from joining the present one.
    pub(super) fn log_what_runs_on(&mut self, now: Moment) {
        let late = |seen: Moment| seen + self.settings.stop_budget <= now;
        let Some((unit, _)) = self.running.first_key_value() else {
            return;
        };
        let what =
            "handlers of the former bucket do not end: this member joins again when they have";
        if self.forget.is_some_and(late) && self.logged.is_due(what, now).is_some() {
            let handlers = self.running.len();
            tracing::warn!(handlers, group = %unit.group, unit = %unit.unit, "{what}");
        }
    }

    /// Writes the next heartbeat now.
    pub(super) fn heartbeat(&mut self, steps: &mut VecDeque<Step>) {
        let keeper = self.present.and_then(|epoch| self.keeper(epoch));
        if let Some(keeper) = keeper
            && let Some(term) = keeper.term
        {
            let validate = Input::Validate {
                request: RequestId::NOBODY,
                term: Some(term),
            };
            steps.push_back(Step::lease(keeper.epoch, validate));
        }
    }

    fn write_lease(&mut self, myself: &ActorRef<MemberMsg>, epoch: Epoch, write: Write) {
        let Write {
            op, within, kind, ..
        } = write;
        let keeper = self.keeper(epoch).map(|keeper| keeper.identity);
        let (Some(bucket), Some(identity)) = (self.bucket.clone(), keeper) else {
            return;
        };
        let patience = self.settings.ttl;
        let writing = async move {
            outcome_of(match kind {
                WriteKind::Claim { over, record } => {
                    // Beside one whose heartbeats had no room, all terms would end again and again.
                    match bucket.require_room_for_member(&record) {
                        Ok(()) => bucket.write_member(epoch, over, &record, patience).await,
                        Err(misfit) => Err(misfit),
                    }
                }
                WriteKind::Renew { over, record } => match bucket.fitting_member(record) {
                    Ok(record) => bucket.write_member(epoch, over, &record, patience).await,
                    Err(misfit) => Err(misfit),
                },
                WriteKind::Release { over, release } => {
                    bucket
                        .retire_member(&identity, over, &release, patience)
                        .await
                }
                WriteKind::Fence { .. } => unreachable!("a member's lease has no fence record"),
            })
        };
        let myself = myself.clone();
        let tell = move |outcome| {
            let _ = myself.send_message(MemberMsg::LeaseWriteEnded { epoch, op, outcome });
        };
        if let Some(keeper) = self.keeper(epoch) {
            let asked = &mut keeper.asked;
            let subject = format!("the record of member {epoch}");
            let no_turn = std::future::ready(());
            asked.ask(
                no_turn,
                within,
                subject,
                writing,
                WriteOutcome::Failed,
                tell,
            );
        }
    }

    fn read_lease(
        &mut self,
        myself: &ActorRef<MemberMsg>,
        epoch: Epoch,
        op: OpId,
        within: std::time::Duration,
    ) {
        let Some(bucket) = self.bucket.clone() else {
            return;
        };
        let patience = self.settings.ttl;
        let reading = async move {
            let read = bucket.read_member(epoch, patience).await;
            read.map_err(|error| failure_of(&error))
        };
        let myself = myself.clone();
        let tell = move |outcome| {
            let _ = myself.send_message(MemberMsg::LeaseReadEnded { epoch, op, outcome });
        };
        if let Some(keeper) = self.keeper(epoch) {
            let subject = format!("the record of member {epoch}");
            let no_turn = std::future::ready(());
            keeper
                .asked
                .ask(no_turn, within, subject, reading, Err, tell);
        }
    }
}

fn fresh() -> Fresh {
    let uuid = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
    Fresh {
        lease_token: LeaseToken::new(uuid),
        release_secret: ReleaseSecret::new(rand::random()),
        chance: rand::random(),
    }
}
