//! The actor of this instance as a member of one group. A machine of the core decides; this carries
//! out what it wants, and runs the handlers of units.

mod bequest;
mod board;
mod health;
mod link;
mod meter;
mod requests;
mod settings;
mod telling;
mod trouble;
mod units;
mod watching;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use self::meter::Meter;
use self::trouble::Trouble;
use self::units::{Proof, Running};
use self::watching::GroupWatch;
use super::Link;
use super::asked::Asked;
use super::health_checks::HealthChecks;
use super::latest_task::LatestTask;
use super::linked::attend;
use super::messages::{GroupMsg, SupervisorMsg};
use crate::clock;
use crate::metrics::{MemberLeases, UnitTermEnd};
use crate::model::bequests::Bequests;
use crate::model::config::MemberConfig;
use crate::role::{GroupRequest, GroupScope};
use crate::store::AssignmentDelivery;
use nats_elect_core::assignment::{Epoch, LONGEST_LEASE, Map, Profile, Value};
use nats_elect_core::member::{Effect, Fresh, Input, Member, MemberSettings, Reply, UnitId};
use nats_elect_core::{Moment, RequestId, TermId};

pub(super) struct GroupActor;

/// The setup of a member of one group.
pub(super) struct GroupSetup {
    pub member: MemberConfig,
    pub scope: Arc<GroupScope>,
    pub leases: Arc<MemberLeases>,
    /// Where it notes its epoch for a companion process, if there is one.
    pub bequests: Option<Arc<Bequests>>,
    /// When the bucket was last seen to be another one than before.
    pub replaced: Option<Moment>,
    pub cordoned: bool,
    pub link: Link,
    /// The number of this actor among all of its instance.
    pub generation: u64,
    pub supervisor: ActorRef<SupervisorMsg>,
}

pub(super) struct GroupState {
    scope: Arc<GroupScope>,
    bequests: Option<Arc<Bequests>>,
    /// The epoch that a companion process knows.
    bequeathed: Option<(Epoch, u64)>,
    generation: u64,
    supervisor: ActorRef<SupervisorMsg>,
    link: Link,
    member: Member,
    profile: Profile,
    /// When loads are to be told anew.
    loads_at: Moment,
    asked: Asked,
    to_watch: watch::Sender<Link>,
    _watching: JoinSet<()>,
    timer: LatestTask,
    planner: LatestTask,
    running: BTreeMap<UnitId, Running>,
    proofs: Vec<Proof>,
    /// Who waits for an order to be carried out.
    orders: HashMap<RequestId, oneshot::Sender<Reply>>,
    last_order: u64,
    health: HealthChecks<Option<UnitId>>,
    meter: Meter,
    trouble: Trouble,
    /// The map that is on the board.
    shown: Option<Arc<Map>>,
    /// In what the settings differ from it, as was logged.
    differs: Option<String>,
    /// The map that was compared with the settings, and whether a newer one can't be followed.
    compared: (u64, bool),
    /// The kind of units of the map that was shown last.
    other_kind: Option<&'static str>,
    /// The terms that were told to act.
    acting: BTreeMap<UnitId, TermId>,
    /// Units that have another owner, of which nobody was told yet.
    moved: BTreeSet<UnitId>,
    /// Units whose handlers have begun or end, of which nobody was told yet.
    stirred: BTreeSet<UnitId>,
    stopping: Option<Stopping>,
    has_left: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    /// Others take its units.
    Leaving,
    /// Leaves all keys as they are, and waits for the handlers.
    Keeping,
    /// The same, and waits for no handler: nobody waits for this member any more.
    Abandoned,
}

impl Actor for GroupActor {
    type Msg = GroupMsg;
    type State = GroupState;
    type Arguments = GroupSetup;

    async fn pre_start(
        &self,
        myself: ActorRef<GroupMsg>,
        setup: GroupSetup,
    ) -> Result<GroupState, ActorProcessingErr> {
        let scope = setup.scope;
        let member = setup.member;
        let (instance, settings) = (&scope.instance, &scope.settings);
        let profile = Profile {
            cordoned: setup.cordoned,
            zone: instance.meta.get("zone").cloned(),
            labels: member.labels,
            max_units: member.max_units,
            version: member.version,
            application: Some((*instance.application).clone()),
            ..Profile::default()
        };
        let member = Member::new(
            MemberSettings {
                group: scope.name.clone(),
                units: scope.units.clone(),
                id: instance.id.clone(),
                incarnation: instance.incarnation,
                first_beat: setup.generation << 40,
                ttl: settings.ttl,
                heartbeat: settings.heartbeat,
                request_timeout: settings.request_timeout,
                profile: profile.clone(),
            },
            clock::now(),
        );
        let member = match setup.replaced {
            Some(since) => member.waiting(since + LONGEST_LEASE),
            None => member,
        };
        let meter = Meter::new(setup.leases, &scope.meter);
        let watch = Arc::new(GroupWatch {
            group: scope.name.clone(),
            member: myself.clone(),
            supervisor: setup.supervisor.clone(),
            ends: Mutex::default(),
        });
        let down = Link::Down {
            since: clock::now(),
        };
        let (to_watch, links) = watch::channel(down.clone());
        let mut watching = JoinSet::new();
        watching.spawn(attend(watch, links).instrument(instance.span()));
        // The first step is taken outside the start, so that a failure restarts this actor alone.
        myself.send_message(GroupMsg::LinkChanged(setup.link))?;
        Ok(GroupState {
            scope,
            bequests: setup.bequests,
            bequeathed: None,
            generation: setup.generation,
            supervisor: setup.supervisor,
            link: down,
            member,
            profile,
            loads_at: clock::now(),
            asked: Asked::default(),
            to_watch,
            _watching: watching,
            timer: LatestTask::default(),
            planner: LatestTask::default(),
            running: BTreeMap::new(),
            proofs: Vec::new(),
            orders: HashMap::new(),
            last_order: 0,
            health: HealthChecks::default(),
            meter,
            trouble: Trouble::default(),
            shown: None,
            differs: None,
            compared: (0, false),
            other_kind: None,
            acting: BTreeMap::new(),
            moved: BTreeSet::new(),
            stirred: BTreeSet::new(),
            stopping: None,
            has_left: false,
        })
    }

    async fn handle(
        &self,
        myself: ActorRef<GroupMsg>,
        message: GroupMsg,
        state: &mut GroupState,
    ) -> Result<(), ActorProcessingErr> {
        let span = state.scope.instance.span();
        span.in_scope(|| state.take(&myself, message));
        Ok(())
    }
}

impl GroupState {
    fn take(&mut self, myself: &ActorRef<GroupMsg>, message: GroupMsg) {
        // However many messages wait: a heartbeat that is due goes first.
        if self.member.wakeup().is_some_and(|due| due <= clock::now()) {
            self.tell_loads(myself);
            self.step(myself, Input::Tick);
        }
        match message {
            GroupMsg::TimerFired(number) if self.timer.is(number) => self.tell_loads(myself),
            GroupMsg::TimerFired(_) => return,
            GroupMsg::LinkChanged(link) => self.link_changed(myself, link),
            GroupMsg::Cordon(cordoned) => {
                self.profile.cordoned = cordoned;
                self.step(myself, Input::Tell(self.profile.clone().into()));
            }
            GroupMsg::Stop { release } => self.stop(myself, release),
            GroupMsg::Abandon => self.abandon(),
            #[cfg(test)]
            GroupMsg::Crash => panic!("crashed on request"),
            GroupMsg::LinkAgain => self.step(myself, Input::Link(self.link.to_core())),
            GroupMsg::Watched {
                bucket,
                told,
                taken,
            } => {
                if self.bucket_epoch() == Some(bucket) {
                    for told in told {
                        self.watched(myself, told);
                    }
                }
                drop(taken);
            }
            GroupMsg::Answered(input) => {
                self.log_failure(&input);
                self.step(myself, *input);
            }
            GroupMsg::Read(bucket, input) => {
                if self.bucket_epoch() == Some(bucket) {
                    self.step(myself, *input);
                }
            }
            GroupMsg::Planned(input, (before, after)) => {
                self.meter.planned(before, after);
                self.step(myself, *input);
            }
            GroupMsg::Handler(unit, report) => self.handler_told(myself, &unit, report),
            GroupMsg::HealthChecked(of, healthy) => self.health_checked(myself, of, healthy),
            GroupMsg::Ask(unit, term, request) => self.asked(myself, unit, term, request),
            GroupMsg::AskGroup(request) => self.asked_group(myself, request),
        }
        self.give_up_proofs();
        self.check_health(myself);
        self.log_lease();
        self.show();
        self.tell_owners();
        self.log_difference();
        self.show_gauges();
        self.arm_timer(myself);
        if self.has_ended() {
            self.clear_gauges();
            myself.stop(None);
        }
    }

    /// Takes an input, and carries out what follows from it.
    fn step(&mut self, myself: &ActorRef<GroupMsg>, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let effects = self.member.step(clock::now(), fresh(), input);
            self.bequeath();
            self.show();
            for effect in effects {
                inputs.extend(self.carry_out(myself, effect));
            }
        }
    }

    /// Does what the machine wants. Returns what it is to be told at once.
    fn carry_out(&mut self, myself: &ActorRef<GroupMsg>, effect: Effect) -> Vec<Input> {
        if let Effect::Start { unit, .. } | Effect::Cancel { unit, .. } = &effect {
            self.stirred.insert(unit.clone());
        }
        match effect {
            Effect::Beat {
                op,
                within,
                key,
                over,
                value,
            } => self.beat(myself, op, within, key, over, value),
            Effect::Look { op, within, own } => self.look(myself, op, within, own),
            Effect::Write {
                op,
                key,
                over,
                value,
                ttl,
            } => self.write(myself, op, key, over, value, ttl),
            Effect::Read(key) => self.read(myself, key),
            Effect::Collect { op, since } => self.collect(myself, op, since),
            Effect::Plan(request) => self.plan(myself, *request),
            Effect::Reopen => {
                let _ = self.supervisor.send_message(SupervisorMsg::LookAtBucket);
                // By then the bucket may be another one.
                myself.send_after(self.scope.settings.heartbeat, || GroupMsg::LinkAgain);
            }
            Effect::Rewatch => {
                self.to_watch.send_replace(self.link.clone());
            }
            Effect::Start { unit, token, until } => return self.start(myself, unit, token, until),
            Effect::Cancel { unit, until } => self.cancel(&unit, until),
            Effect::Extend { until, proved } => self.extend(until, proved),
            Effect::Reply(request, reply) => {
                // Who asked may have gone.
                if let Some(asker) = self.orders.remove(&request) {
                    let _ = asker.send(reply);
                }
            }
            Effect::Left => self.has_left = true,
        }
        Vec::new()
    }

    fn asked_group(&mut self, myself: &ActorRef<GroupMsg>, request: GroupRequest) {
        match request {
            GroupRequest::View(reply) => {
                // Who asked may have gone.
                let _ = reply.send(self.view());
            }
            GroupRequest::Order(order, reply) => {
                self.last_order += 1;
                let number = RequestId(self.last_order);
                self.orders.insert(number, reply);
                self.step(myself, Input::Order(number, order));
            }
        }
    }

    fn watched(&mut self, myself: &ActorRef<GroupMsg>, told: AssignmentDelivery) {
        match &told {
            AssignmentDelivery::Shown(_, _, Value::Map(map)) => self.note_kind(Some(map)),
            AssignmentDelivery::Shown(_, _, Value::LaterMap) => self.note_kind(None),
            _ => {}
        }
        let input = match told {
            AssignmentDelivery::Shown(key, sequence, value) => Input::Shown {
                key,
                sequence,
                value,
            },
            AssignmentDelivery::CaughtUp(_) => Input::CaughtUp,
        };
        self.step(myself, input);
    }

    fn stop(&mut self, myself: &ActorRef<GroupMsg>, release: bool) {
        if release && self.stopping.is_none_or(|it| it == Stopping::Leaving) {
            self.stopping = Some(Stopping::Leaving);
            self.step(myself, Input::Leave);
        } else if self.stopping != Some(Stopping::Abandoned) {
            self.stopping = Some(Stopping::Keeping);
            self.bequeath();
            self.show();
            for running in self.running.values_mut() {
                running.cancel(UnitTermEnd::Drained);
            }
        }
    }

    /// Ends all terms for good. Nothing renews the lease any more, and nothing frees it: a handler
    /// that blocks its thread may run on.
    fn abandon(&mut self) {
        self.stopping = Some(Stopping::Abandoned);
        for running in self.running.values() {
            running.term.revoke();
            running.term.abort();
        }
    }

    fn has_ended(&self) -> bool {
        match self.stopping {
            Some(Stopping::Leaving) => self.has_left && self.running.is_empty(),
            Some(Stopping::Keeping) => self.running.is_empty(),
            Some(Stopping::Abandoned) => true,
            None => false,
        }
    }

    fn arm_timer(&mut self, myself: &ActorRef<GroupMsg>) {
        let now = clock::now();
        // The runtime's clock may stop in suspend, so our clock is read again from time to time.
        let latest = now + Duration::from_secs(1);
        let due = self.member.wakeup().into_iter().chain(self.health.next());
        let due = due.min().map_or(latest, |due| due.clamp(now, latest));
        let (wait, myself) = (due.since(now), myself.clone());
        self.timer.begin(async move |number| {
            tokio::time::sleep(wait).await;
            let _ = myself.send_message(GroupMsg::TimerFired(number));
        });
    }
}

fn fresh() -> Fresh {
    Fresh {
        epoch: rand::random(),
        chance: rand::random(),
    }
}
