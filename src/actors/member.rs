//! The actor of this instance as a member of groups. It keeps one lease for all units that it owns,
//! and runs their handlers.
//!
//! Two machines decide. An election keeps the lease of the present epoch, and one more ends each
//! epoch before it. The group's machine decides about the units.

mod epoch;
mod health;
mod info;
mod lease;
mod meter;
mod records;
mod requests;
mod units;
mod watching;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{Semaphore, oneshot};

use self::epoch::{Checked, Keeper};
use self::health::Health;
use self::info::Ageing;
use self::meter::Meter;
use self::watching::Watches;
use super::Link;
use super::latest_task::LatestTask;
use super::messages::{MemberMsg, MemberOrder, SupervisorMsg};
use crate::clock;
use crate::metrics::UnitTermEnd;
use crate::model::bequests::Bequests;
use crate::model::config::{RoleSettings, Seat};
use crate::repeated::Repeated;
use crate::role::{Board, GroupScope, HandlerReport, Instance, Request, RunningTerm};
use crate::store::Bucket;
use nats_elect_core::duration::exact;
use nats_elect_core::event::FailureKind;
use nats_elect_core::group::{Epoch, Group, GroupInput, GroupSettings, UnitKey};
use nats_elect_core::name::GroupName;
use nats_elect_core::status::ConnectionStatus;
use nats_elect_core::{Failure, Input, Intent, Moment, Reply, RequestId};

/// The most writes of units under way.
const WRITES_AT_ONCE: usize = 256;
/// The beats of one epoch. The next epoch begins above them.
const BEATS_PER_EPOCH: u64 = 1 << 32;

/// The groups of an instance, by their names.
pub(crate) type Groups = BTreeMap<GroupName, Arc<GroupScope>>;

pub(super) struct MemberActor;

/// The setup of a member.
pub(super) struct MemberSetup {
    pub instance: Arc<Instance>,
    /// The settings of its lease.
    pub settings: RoleSettings,
    pub seat: Seat,
    pub groups: Arc<Groups>,
    pub bequests: Option<Arc<Bequests>>,
    /// The epoch of the bucket that was known last.
    pub bucket: Option<u64>,
    /// When that was seen to be another one than the one before.
    pub replaced: Option<Moment>,
    pub cordoned: bool,
    pub link: Link,
    /// The number of this actor among all elections of its instance.
    pub generation: u64,
    pub supervisor: ActorRef<SupervisorMsg>,
}

pub(super) struct MemberState {
    instance: Arc<Instance>,
    settings: RoleSettings,
    seat: Seat,
    groups: Arc<Groups>,
    bequests: Option<Arc<Bequests>>,
    generation: u64,
    supervisor: ActorRef<SupervisorMsg>,
    link: Link,
    bucket: Option<Bucket>,
    checked: Option<Checked>,
    group: Group,
    /// The keeper of the present epoch, and those of the epochs before that have not ended.
    keepers: Vec<Keeper>,
    present: Option<Epoch>,
    epochs: u64,
    next_epoch_at: Moment,
    running: BTreeMap<UnitKey, Running>,
    /// Units that changed since they were entered on the board.
    touched: BTreeSet<UnitKey>,
    /// Groups of which something was shown since their records were entered there.
    told: BTreeSet<GroupName>,
    /// In which groups the settings differ from what stands there, as it was logged.
    differs: BTreeMap<GroupName, String>,
    proofs: Vec<Proof>,
    writes: Arc<Semaphore>,
    written: BTreeMap<nats_elect_core::OpId, UnitKey>,
    /// The number of the group's machine: each bucket has one of its own.
    machines: u64,
    watch: Watches,
    /// Receives the hints for the present epoch.
    hints: LatestTask,
    timer: LatestTask,
    logged: Repeated,
    /// Whether an operator wants its units to move away.
    cordoned: bool,
    meter: Meter,
    health: Health,
    stopping: Option<Stopping>,
    /// Whether it can own units, and its record says so.
    joined: bool,
    /// When it can own what it found, as it last logged.
    joins_at: Option<Moment>,
    /// Of each group, whether most units were not of age when it was looked at last.
    ageing: BTreeMap<GroupName, Ageing>,
    /// When the bucket was seen to be another one. All that is known counts no more once the handlers
    /// have ended.
    forget: Option<Moment>,
}

/// A unit's handler at work.
struct Running {
    sequence: u64,
    epoch: Option<Epoch>,
    term: RunningTerm,
    /// Whether the term may be extended.
    lives: bool,
    /// Why the term ends, once it does.
    cause: Option<UnitTermEnd>,
    /// Whether its end was counted.
    counted: bool,
}

/// A caller who waits until the ownership of a unit is proved.
struct Proof {
    unit: UnitKey,
    sequence: u64,
    asked: Moment,
    reply: oneshot::Sender<Reply>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopping {
    /// Gives all units away.
    Leaving,
    /// Leaves all records as they are.
    Keeping,
    /// The same, and waits for no handler: nobody waits for this member any more.
    Abandoned,
}

/// An input of one of the machines.
enum Step {
    Group(GroupInput),
    Lease(Epoch, Box<Input>),
}

impl Step {
    fn lease(epoch: Epoch, input: Input) -> Self {
        Self::Lease(epoch, Box::new(input))
    }
}

impl Actor for MemberActor {
    type Msg = MemberMsg;
    type State = MemberState;
    type Arguments = MemberSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<MemberMsg>,
        setup: MemberSetup,
    ) -> Result<MemberState, ActorProcessingErr> {
        // The first step is taken outside the start, so that a failure restarts this actor alone.
        myself.send_message(MemberMsg::Ordered(MemberOrder::LinkChanged(setup.link)))?;
        let settings = group_settings(&setup.settings, &setup.groups);
        let group = match setup.replaced {
            Some(seen) => Group::in_replaced_bucket(settings, seen, clock::now()),
            None => Group::new(settings, clock::now()),
        };
        let checked = setup.bucket.map(|created| Checked {
            bucket: Arc::new(setup.instance.bucket.clone()),
            created,
        });
        let meter = Meter::new(&setup.instance, &setup.groups);
        Ok(MemberState {
            instance: setup.instance,
            settings: setup.settings,
            seat: setup.seat,
            groups: setup.groups,
            bequests: setup.bequests,
            generation: setup.generation,
            supervisor: setup.supervisor,
            link: Link::Down {
                since: clock::now(),
            },
            bucket: None,
            checked,
            group,
            keepers: Vec::new(),
            present: None,
            epochs: 0,
            next_epoch_at: clock::now(),
            running: BTreeMap::new(),
            touched: BTreeSet::new(),
            told: BTreeSet::new(),
            differs: BTreeMap::new(),
            proofs: Vec::new(),
            writes: Arc::new(Semaphore::new(WRITES_AT_ONCE)),
            written: BTreeMap::new(),
            machines: 0,
            watch: Watches::default(),
            hints: LatestTask::default(),
            timer: LatestTask::default(),
            logged: Repeated::default(),
            cordoned: setup.cordoned,
            meter,
            health: Health::default(),
            stopping: None,
            joined: false,
            joins_at: None,
            ageing: BTreeMap::new(),
            forget: None,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<MemberMsg>,
        message: MemberMsg,
        state: &mut MemberState,
    ) -> Result<(), ActorProcessingErr> {
        let span = state.instance.span();
        span.in_scope(|| state.take(&myself, message));
        Ok(())
    }
}

fn group_settings(settings: &RoleSettings, groups: &Groups) -> GroupSettings {
    let units = |(name, scope): (&GroupName, &Arc<GroupScope>)| (name.clone(), scope.units.clone());
    GroupSettings {
        ttl: settings.ttl,
        heartbeat: settings.heartbeat,
        stop_budget: settings.stop_budget,
        groups: groups.iter().map(units).collect(),
        placements: groups
            .iter()
            .filter_map(|(name, scope)| Some((name.clone(), scope.placing.placement.clone()?)))
            .collect(),
    }
}

impl MemberState {
    fn take(&mut self, myself: &ActorRef<MemberMsg>, message: MemberMsg) {
        let mut steps = VecDeque::new();
        // However many messages wait: a heartbeat that is due goes first.
        self.tick_leases(&mut steps);
        match message {
            MemberMsg::TimerFired(number) if self.timer.is(number) => {
                steps.push_back(Step::Group(GroupInput::Tick));
            }
            MemberMsg::Ordered(order) => self.ordered(myself, order, &mut steps),
            MemberMsg::LinkAgain => self.tell_link(&mut steps),
            MemberMsg::BeginWatch(number) if self.watch.task.is(number) => self.begin_watch(myself),
            MemberMsg::WatchBegan(number) if self.watch.task.is(number) => {
                Self::watch_began(myself, number, &mut steps);
            }
            MemberMsg::Watched {
                number,
                told,
                mut members,
                taken,
            } if self.watch.task.is(number) => {
                for told in told {
                    self.watched(told, &mut members, &mut steps);
                    self.run(myself, &mut steps);
                    // What it told may be the cause of a new watch, which tells the rest.
                    if !self.watch.task.is(number) {
                        break;
                    }
                }
                drop(taken);
            }
            MemberMsg::WatchEnded(number, ended) if self.watch.task.is(number) => {
                self.watch_ended(myself, &ended);
            }
            MemberMsg::Looked(number, looked, rest) if self.watch.looking.is(number) => {
                self.looked(looked, rest);
                return;
            }
            MemberMsg::WriteEnded {
                machine,
                op,
                outcome,
            } if machine == self.machines => {
                self.touched.extend(self.written.remove(&op));
                steps.push_back(Step::Group(GroupInput::WriteEnded { op, outcome }));
            }
            MemberMsg::Handler(unit, HandlerReport::Ending(term, _)) => {
                self.handler_ending(&unit, term.0);
                return;
            }
            MemberMsg::TimerFired(_)
            | MemberMsg::BeginWatch(_)
            | MemberMsg::WatchBegan(_)
            | MemberMsg::Watched { .. }
            | MemberMsg::WatchEnded(..)
            | MemberMsg::Looked(..)
            | MemberMsg::WriteEnded { .. } => return,
            MemberMsg::Hinted(hints) => {
                steps.push_back(Step::Group(GroupInput::Hint { hints }));
            }
            MemberMsg::LeaseWriteEnded { epoch, op, outcome } => {
                steps.push_back(Step::lease(epoch, Input::WriteEnded { op, outcome }));
            }
            MemberMsg::LeaseReadEnded { epoch, op, outcome } => {
                steps.push_back(Step::lease(epoch, Input::ReadEnded { op, outcome }));
            }
            MemberMsg::Handler(unit, HandlerReport::Ended(term, end)) => {
                self.handler_ended(unit, term.0, end, &mut steps);
            }
            MemberMsg::Ask(unit, sequence, request) => {
                self.asked(unit, sequence, request, &mut steps);
            }
            MemberMsg::AskGroup(group, request) => self.asked_group(&group, request, &mut steps),
            MemberMsg::HealthChecked { of, healthy } => {
                self.health_checked(&of, healthy, &mut steps);
            }
        }
        self.run(myself, &mut steps);
        self.settle(myself, &mut steps);
        self.run(myself, &mut steps);
        self.keepers.retain(|it| !it.election.is_stopped());
        self.check_health(myself);
        self.show_records();
        self.show();
        self.show_joined();
        self.log_wait();
        self.show_gauges();
        self.arm_timer(myself);
        if self.has_ended() {
            self.meter.clear();
            myself.stop(None);
        }
    }

    fn ordered(
        &mut self,
        myself: &ActorRef<MemberMsg>,
        order: MemberOrder,
        steps: &mut VecDeque<Step>,
    ) {
        match order {
            MemberOrder::LinkChanged(link) => self.link_changed(myself, link, steps),
            MemberOrder::Cordon(cordoned) => {
                self.cordoned = cordoned;
                self.tell_of_itself(steps);
            }
            MemberOrder::Stop { release } => self.stop(release, steps),
            MemberOrder::Abandon => self.abandon(),
            #[cfg(test)]
            MemberOrder::Crash => panic!("crashed on request"),
        }
    }

    /// Takes all steps, with those that follow from them.
    fn run(&mut self, myself: &ActorRef<MemberMsg>, steps: &mut VecDeque<Step>) {
        while let Some(step) = steps.pop_front() {
            match step {
                Step::Group(_) if self.forget.is_some() => {}
                Step::Group(input) => {
                    // The member forgets then to whom it gave its units.
                    if matches!(input, GroupInput::LeaseLost { .. }) {
                        self.show();
                    }
                    let regressed = self.group.regressed_until();
                    for effect in self.group.step(clock::now(), input) {
                        self.carry_out(myself, effect, steps);
                    }
                    if self.group.regressed_until() != regressed {
                        tracing::error!(
                            "the stream lost confirmed messages: units of groups wait for a minute until old owners have surely ended"
                        );
                    }
                }
                Step::Lease(epoch, input) => self.step_lease(myself, epoch, *input, steps),
            }
        }
    }

    fn tick_leases(&self, steps: &mut VecDeque<Step>) {
        let now = clock::now();
        for keeper in &self.keepers {
            let due = keeper.election.next_wakeup();
            if due.is_some_and(|due| due <= now) {
                steps.push_back(Step::lease(keeper.epoch, Input::Tick));
            }
        }
    }

    /// Does what follows from where all stands: begins an epoch where there is none, and forgets
    /// those that have ended.
    fn settle(&mut self, myself: &ActorRef<MemberMsg>, steps: &mut VecDeque<Step>) {
        self.keepers.retain(|it| !it.election.is_stopped());
        let now = clock::now();
        if self
            .present
            .is_some_and(|epoch| self.keepers.iter().all(|it| it.epoch != epoch))
        {
            self.present = None;
        }
        if let Some(seen) = self.forget.filter(|_| self.running.is_empty()) {
            self.forget = None;
            let settings = group_settings(&self.settings, &self.groups);
            self.group = Group::in_replaced_bucket(settings, seen, now);
            self.machines += 1;
            self.begin_watch(myself);
        }
        self.log_what_runs_on(now);
        if self.present.is_none()
            && self.stopping.is_none()
            && self.forget.is_none()
            && self.bucket.is_some()
            && now >= self.next_epoch_at
        {
            self.begin_epoch(steps);
            self.receive_hints(myself);
        }
        if self.stopping == Some(Stopping::Leaving) && self.group.is_idle() {
            for keeper in &mut self.keepers {
                let stop = keeper.leave();
                steps.extend(stop.map(|stop| Step::lease(keeper.epoch, stop)));
            }
        }
        self.give_up_proofs(now);
    }

    /// Whether it leaves all records as they are.
    fn keeps(&self) -> bool {
        matches!(self.stopping, Some(Stopping::Keeping | Stopping::Abandoned))
    }

    fn has_ended(&self) -> bool {
        let Some(stopping) = self.stopping else {
            return false;
        };
        let left = match stopping {
            Stopping::Leaving => self.group.is_idle() && self.keepers.is_empty(),
            Stopping::Keeping => true,
            Stopping::Abandoned => return true,
        };
        self.running.is_empty() && left
    }

    fn stop(&mut self, release: bool, steps: &mut VecDeque<Step>) {
        if release {
            if *self.stopping.get_or_insert(Stopping::Leaving) != Stopping::Leaving {
                return;
            }
            self.tell_of_itself(steps);
            steps.push_back(Step::Group(GroupInput::Drain));
        } else {
            self.stopping = Some(Stopping::Keeping);
            for running in self.running.values_mut() {
                running.cancel(UnitTermEnd::Drained);
            }
        }
    }

    /// Ends all terms for good. Their handlers are aborted. Nothing renews the lease any more, and
    /// nothing frees it: a handler that blocks its thread may run on.
    fn abandon(&mut self) {
        self.stopping = Some(Stopping::Abandoned);
        for (unit, running) in &mut self.running {
            running.end(UnitTermEnd::Drained);
            running.count_end(&self.groups, unit);
        }
    }

    fn link_changed(
        &mut self,
        myself: &ActorRef<MemberMsg>,
        link: Link,
        steps: &mut VecDeque<Step>,
    ) {
        let link = if_keys_last(link);
        self.link = link.clone();
        self.stop_watch();
        let status = match &link {
            Link::Up { .. } => ConnectionStatus::Connected,
            Link::Down { .. } | Link::Unusable(_) => ConnectionStatus::Suspended,
        };
        for scope in self.groups.values() {
            scope.connection.send_if_modified(|known| {
                let changed = *known != status;
                *known = status;
                changed
            });
        }
        if let Link::Up { bucket, info } = link {
            let is_other = |checked: &Checked| checked.created != info.epoch;
            if self.checked.as_ref().is_some_and(is_other) {
                self.forget_all(steps);
            }
            self.checked = Some(Checked {
                bucket: Arc::new(bucket.name().clone()),
                created: info.epoch,
            });
            for scope in self.groups.values() {
                scope.bucket.send_replace(Some(bucket.clone()));
                scope.write(|board| board.bucket_epoch = info.epoch);
            }
            self.bucket = Some(bucket);
            if self.forget.is_none() {
                self.watch_again(myself);
            }
            self.receive_hints(myself);
        } else {
            self.hints.stop();
        }
        self.tell_link(steps);
    }

    /// The bucket was replaced. Members that have not seen that may still act by their leases of the
    /// former one.
    fn forget_all(&mut self, steps: &mut VecDeque<Step>) {
        self.forget = Some(clock::now());
        self.watch.readable_to = 0;
        self.watch.task.stop();
        for (unit, running) in &mut self.running {
            running.end(UnitTermEnd::Lost);
            running.count_end(&self.groups, unit);
        }
        self.touched.clear();
        self.told.clear();
        for scope in self.groups.values() {
            scope.reset(|board| *board = Board::default());
        }
        self.meter.unit_changed();
        self.written.clear();
        self.writes.close();
        self.writes = Arc::new(Semaphore::new(WRITES_AT_ONCE));
        for keeper in &mut self.keepers {
            keeper.leaving = true;
            let stop = Input::Intend(RequestId::NOBODY, Intent::Stop { release: false });
            steps.push_back(Step::lease(keeper.epoch, stop));
        }
        self.present = None;
    }

    fn asked(
        &mut self,
        unit: UnitKey,
        sequence: u64,
        request: Request,
        steps: &mut VecDeque<Step>,
    ) {
        match request {
            Request::Validate { reply, .. } => {
                self.proofs.push(Proof {
                    unit,
                    sequence,
                    asked: clock::now(),
                    reply,
                });
                self.heartbeat(steps);
            }
            // The watch is about to show what stands there. Until then nothing is written under a
            // term that is over.
            Request::Superseded { .. } => {
                self.end_term(unit, sequence, UnitTermEnd::Lost);
            }
            _ => {}
        }
    }

    fn arm_timer(&mut self, myself: &ActorRef<MemberMsg>) {
        let now = clock::now();
        // The runtime's clock may stop in suspend, so our clock is read again from time to time.
        let latest = now + Duration::from_secs(1);
        let leases = self
            .keepers
            .iter()
            .filter_map(|it| it.election.next_wakeup());
        let proofs = self.proofs.iter().map(|it| it.asked + self.proof_timeout());
        // Nobody takes the steps of a machine that is to be replaced.
        let machine = self.group.next_wakeup().filter(|_| self.forget.is_none());
        let due = leases.chain(machine).chain(proofs);
        let due = due.chain(self.next_health_check()).min();
        let wait = due.map_or(latest, |due| due.clamp(now, latest)).since(now);
        let myself = myself.clone();
        self.timer.begin(async move |number| {
            tokio::time::sleep(wait).await;
            let _ = myself.send_message(MemberMsg::TimerFired(number));
        });
    }
}

/// A bucket that got a max age is unfit for groups: the owner of a unit is written only when it
/// changes.
fn if_keys_last(link: Link) -> Link {
    let Link::Up { bucket, info } = &link else {
        return link;
    };
    let Some(max_age) = info.max_age else {
        return link;
    };
    Link::Unusable(Failure {
        kind: FailureKind::BucketUnfit,
        detail: format!(
            "keys expire after {}, and the owner of a unit is written only when it changes: `nats stream edit KV_{} --max-age 0s`",
            exact(max_age),
            bucket.name()
        ),
    })
}

impl Running {
    /// Asks the handler to end.
    fn cancel(&mut self, cause: UnitTermEnd) {
        self.cause.get_or_insert(cause);
        self.term.cancel();
    }

    /// Whether its handler may act, and was not told to end.
    fn acts(&self) -> bool {
        self.lives && self.term.in_office().is_some()
    }

    /// Ends the term for good, and aborts its handler.
    fn end(&mut self, cause: UnitTermEnd) {
        self.lives = false;
        self.cause = Some(cause);
        self.term.revoke();
        self.term.abort();
    }

    /// Counts the end of the term, and has the group's board show it, once. A handler that was not
    /// told to end has ended by itself.
    fn count_end(&mut self, groups: &Groups, unit: &UnitKey) {
        if !std::mem::replace(&mut self.counted, true)
            && let Some(scope) = groups.get(&unit.group)
        {
            let cause = self.cause.unwrap_or(UnitTermEnd::Handler);
            scope.meter.ended(cause, 1);
            scope.acts_no_more(&unit.unit, self.sequence);
        }
    }
}
