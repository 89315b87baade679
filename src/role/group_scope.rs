//! The state that the handles and the handlers of one group share with the actor of the member.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::fenced::DataSource;
use super::group_requests::GroupRequest;
use super::handler::ErasedHandler;
use super::health_check::HealthCheck;
use super::instance::Instance;
use super::running::{HandlerReport, RunningTerm, TermSetup};
use super::scope::Ask;
use crate::lock::lock;
use crate::metrics::{GroupGauges, GroupLabels, Labels, UnitTermEnd};
use crate::model::admin::GroupReport;
use crate::model::config::{GroupConfig, RoleSettings};
use crate::store::{Bucket, DataOwner};
use nats_elect_core::TermStart;
use nats_elect_core::assignment::{Epoch, UnitKey, Units};
use nats_elect_core::name::{GroupName, InstanceId, UnitName};
use nats_elect_core::status::ConnectionStatus;
use nats_elect_core::token::{CorrelationId, FencingToken};

/// The number of events kept for a slow reader.
const EVENTS: usize = 1024;

/// The handlers of a group's units.
pub(crate) enum UnitHandlers {
    /// One for all shards.
    Shards(Arc<dyn ErasedHandler>),
    Named(BTreeMap<UnitName, Arc<dyn ErasedHandler>>),
}

/// One group on this instance.
pub(crate) struct GroupScope {
    pub name: GroupName,
    pub units: Units,
    pub config: Arc<GroupConfig>,
    pub instance: InstanceId,
    handlers: UnitHandlers,
    /// The settings of the member's lease, with those of the group.
    pub settings: RoleSettings,
    /// The caller's runtime, where handlers run.
    pub runtime: Handle,
    /// Failures and fenced writes are counted as those of a role with the group's name.
    pub labels: Labels,
    /// The labels of its own metrics.
    pub meter: GroupLabels,
    pub connection: watch::Sender<ConnectionStatus>,
    /// The bucket on the current connection, once there is one.
    pub bucket: watch::Sender<Option<Bucket>>,
    /// The handlers that may still run. They outlive the member's actor.
    running: Mutex<HashMap<UnitName, RunningTerm>>,
    /// Cancelled when this instance has left the group.
    pub left: CancellationToken,
    board: Mutex<Board>,
    events: broadcast::Sender<GroupEvent>,
    /// Notified of each change on the board.
    changed: watch::Sender<()>,
    /// Sends a request to the present actor of the member, once there is one.
    ask: Mutex<Option<AskGroup>>,
    /// Held while a plan is made on request. To gather what it is made from takes the elections'
    /// time.
    pub planning: Semaphore,
}

/// Sends a request to the actor of the member.
pub(crate) type AskGroup = Arc<dyn Fn(GroupRequest) + Send + Sync>;

/// What this instance knows of a group.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    /// The number of shards, once a map was seen. All of this is of the newest map that this member
    /// follows.
    pub shards: Option<u32>,
    pub generation: u32,
    /// The bucket's creation time, which is a part of fencing tokens.
    pub bucket_epoch: u64,
    pub units: BTreeMap<UnitName, UnitOnBoard>,
    /// The instance ids of members.
    pub members: HashMap<Epoch, Arc<str>>,
    /// The present epoch of this instance, which may not be claimed yet.
    pub own: Option<Epoch>,
    /// Whether this instance tells others that it takes units.
    pub takes_units: bool,
    /// Whether this instance can own units.
    pub joined: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitOnBoard {
    /// The sequence in the token of its term, if that acts here. Else that of a map by which its owner
    /// has it.
    pub sequence: u64,
    pub owner: Option<Epoch>,
    /// Whether the owner is this instance, and acts.
    pub acts_here: bool,
}

/// The owner of a unit, as this instance knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnitOwner {
    /// The owner's instance id. It is empty if the owner's record does not show one.
    pub instance_id: String,
    /// The token of the owner's term, if it is this instance, and its handler may act. Of other
    /// instances it is not known.
    pub fencing_token: Option<FencingToken>,
    /// Whether it is this instance, and its handler may act.
    pub acts_here: bool,
}

/// Something that happened in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupEvent {
    /// A unit's owner is another one, or acts since now, or no longer acts.
    OwnerChanged {
        /// The unit.
        unit: String,
        /// Its owner. `None` if it has none.
        owner: Option<UnitOwner>,
    },
    /// The group has another generation, with another number of shards, or its bucket is another one.
    /// Nothing that was told before holds: forget all owners. Those of now are told as they are known.
    Reset,
    /// The reader was too slow, and missed so many events. Read
    /// [`owners`](crate::GroupHandle::owners).
    Missed(u64),
}

impl Board {
    /// Returns the units that this instance owns, by their records.
    fn own_units(&self) -> impl Iterator<Item = (&UnitName, &UnitOnBoard)> {
        let units = self.units.iter();
        units.filter(|(_, it)| it.owner.is_some() && it.owner == self.own)
    }

    /// Counts the terms, each of a unit and a sequence, on which this instance owns the unit
    /// no more.
    fn disowned<'a>(&self, terms: impl Iterator<Item = (&'a UnitName, u64)>) -> usize {
        let is_owned = |unit: &UnitName, sequence| {
            let now = self.units.get(unit).filter(|it| it.sequence == sequence);
            now.is_some_and(|it| it.owner.is_some() && it.owner == self.own)
        };
        terms
            .filter(|(unit, sequence)| !is_owned(unit, *sequence))
            .count()
    }

    /// Returns the owner of a unit, if it has one and is known.
    pub fn owner(&self, unit: &UnitName) -> Option<UnitOwner> {
        let now = self.units.get(unit)?;
        let instance_id = self.members.get(&now.owner?);
        Some(UnitOwner {
            instance_id: instance_id.map_or_else(String::new, ToString::to_string),
            fencing_token: now.acts_here.then_some(FencingToken {
                epoch: self.bucket_epoch,
                sequence: now.sequence,
            }),
            acts_here: now.acts_here,
        })
    }
}

impl GroupScope {
    pub fn new(
        name: GroupName,
        units: Units,
        config: GroupConfig,
        handlers: UnitHandlers,
        settings: RoleSettings,
        runtime: Handle,
        instance: &Instance,
    ) -> Arc<Self> {
        let (id, bucket) = (instance.id.as_str(), instance.bucket.as_str());
        let labels = Labels::new(name.as_str(), id, bucket);
        let meter = GroupLabels::new(name.as_str(), id, bucket);
        Arc::new(Self {
            name,
            units,
            config: Arc::new(config),
            instance: instance.id.clone(),
            handlers,
            settings,
            runtime,
            labels,
            meter,
            connection: watch::Sender::new(ConnectionStatus::Suspended),
            bucket: watch::Sender::new(None),
            running: Mutex::default(),
            left: CancellationToken::new(),
            board: Mutex::default(),
            events: broadcast::Sender::new(EVENTS),
            changed: watch::Sender::new(()),
            ask: Mutex::default(),
            planning: Semaphore::new(1),
        })
    }

    fn handler(&self, unit: &UnitName) -> Option<Arc<dyn ErasedHandler>> {
        match &self.handlers {
            UnitHandlers::Shards(handler) => Some(Arc::clone(handler)),
            UnitHandlers::Named(handlers) => handlers.get(unit).cloned(),
        }
    }

    /// Whether each unit has a handler of its own.
    pub const fn has_own_handlers(&self) -> bool {
        matches!(self.handlers, UnitHandlers::Named(_))
    }

    /// Asks a unit's handler whether it is well. `None` if it has no health check.
    pub fn is_well(
        &self,
        unit: &UnitName,
        term: Option<RunningTerm>,
    ) -> Option<impl Future<Output = bool> + Send + use<>> {
        let handler = self.handler(unit)?;
        let timeout = self.settings.health.timeout;
        let check = HealthCheck::begin(handler, &self.runtime, timeout)?;
        Some(check.of_term(term, || {}))
    }

    /// Starts the handler of a unit. `report` is called twice, on any thread, however the handler
    /// ends. Returns nothing if the unit has no handler here.
    pub fn start(
        &self,
        unit: &UnitKey,
        shards: Option<u32>,
        start: &TermStart,
        (id, span): (CorrelationId, Span),
        ask: Ask,
        report: impl Fn(HandlerReport) + Send + Sync + 'static,
    ) -> Option<RunningTerm> {
        let handler = self.handler(&unit.unit)?;
        let setup = TermSetup {
            name: format!("{}/{}", self.name, unit.unit).into(),
            unit: Some(unit.unit.clone()),
            shards,
            owner: DataOwner::Unit(unit.clone()),
            settings: &self.settings,
            labels: self.labels.clone(),
            connection: self.connection.subscribe(),
            ask,
            data: DataSource::Link(self.bucket.subscribe()),
        };
        let at_work = (handler, &self.runtime);
        let running = RunningTerm::start_unit(setup, start, id, span, at_work, report);
        lock(&self.running).insert(unit.unit.clone(), running.clone());
        Some(running)
    }

    /// Returns the handlers that still run.
    pub fn running(&self) -> Vec<RunningTerm> {
        let running = self.running_units().into_iter();
        running.map(|(_, term)| term).collect()
    }

    fn running_units(&self) -> Vec<(UnitName, RunningTerm)> {
        let mut running = lock(&self.running);
        running.retain(|_, term| !term.has_ended());
        let running = running.iter();
        running
            .map(|(unit, term)| (unit.clone(), term.clone()))
            .collect()
    }

    /// Returns what operators are told.
    pub fn report(&self) -> GroupReport {
        let running = self.running_units();
        let loads = running.iter().filter_map(|(_, term)| term.load());
        let load = loads.map(u64::from).reduce(u64::saturating_add);
        let running = running.iter();
        let running = running.map(|(unit, term)| (unit, term.fencing_token().sequence));
        self.read(|board| GroupReport {
            units: board.own_units().count(),
            still_running: board.disowned(running),
            load,
            takes_units: board.takes_units,
            answers_within: self.moves_within(),
        })
    }

    /// A unit's handler has ended.
    pub fn ended(&self, unit: &UnitName) {
        let mut running = lock(&self.running);
        if running.get(unit).is_some_and(RunningTerm::has_ended) {
            running.remove(unit);
        }
    }

    /// Has all requests from now on go there.
    pub fn asks(&self, ask: AskGroup) {
        *lock(&self.ask) = Some(ask);
    }

    /// Sends a request to the actor of the member. If there is none, the request is dropped, and a
    /// caller that waits for an answer learns that from the broken channel.
    pub fn ask(&self, request: GroupRequest) {
        let ask = lock(&self.ask).clone();
        if let Some(ask) = ask {
            ask(request);
        }
    }

    /// Returns what is known just now.
    pub fn read<T>(&self, read: impl FnOnce(&Board) -> T) -> T {
        read(&lock(&self.board))
    }

    /// Changes what is known.
    pub fn write(&self, write: impl FnOnce(&mut Board)) {
        write(&mut lock(&self.board));
        self.changed.send_replace(());
    }

    /// Changes what is known, of which nothing that was told before holds.
    pub fn reset(&self, write: impl FnOnce(&mut Board)) {
        {
            let mut board = lock(&self.board);
            write(&mut board);
            // Within the lock: no owner that is read after this is of before.
            let _ = self.events.send(GroupEvent::Reset);
        }
        self.changed.send_replace(());
    }

    /// Enters whether this instance can own units.
    pub fn set_joined(&self, joined: bool) {
        let before = std::mem::replace(&mut lock(&self.board).joined, joined);
        if before != joined {
            self.changed.send_replace(());
        }
    }

    /// Returns a unit whose handler still runs although its term and the lease below it are over.
    pub fn overrun(&self) -> Option<UnitName> {
        let allowance = self.settings.abort_allowance();
        let running = lock(&self.running);
        let mut units = running.iter();
        let (unit, _) = units.find(|(_, term)| term.is_overrun(allowance))?;
        Some(unit.clone())
    }

    /// Enters a unit. Tells those who listen if that is news.
    pub fn enter(&self, unit: &UnitName, now: UnitOnBoard) {
        let event = {
            let mut board = lock(&self.board);
            if board.units.insert(unit.clone(), now) == Some(now) {
                return;
            }
            GroupEvent::OwnerChanged {
                unit: unit.as_str().to_owned(),
                owner: board.owner(unit),
            }
        };
        let _ = self.events.send(event);
        self.changed.send_replace(());
    }

    /// Enters that a unit's term is over, whatever is known of its record since.
    pub fn acts_no_more(&self, unit: &UnitName, sequence: u64) {
        let known = self.read(|board| board.units.get(unit).copied());
        if let Some(known) = known.filter(|it| it.acts_here && it.sequence == sequence) {
            let acts_here = false;
            self.enter(unit, UnitOnBoard { acts_here, ..known });
        }
    }

    /// The member's actor crashed: all terms that still run are over. Ends them, and returns them.
    pub fn end_all(&self) -> Vec<RunningTerm> {
        let acting = self.read(|board| {
            let acting = board.units.iter().filter(|(_, it)| it.acts_here);
            let acting = acting.map(|(unit, it)| (unit.clone(), it.sequence));
            acting.collect::<Vec<_>>()
        });
        let running = self.running();
        // The others were counted when they ended, and run on.
        let valid = running.iter().filter(|it| !it.remaining().is_zero());
        let lost = u64::try_from(valid.count()).unwrap_or(u64::MAX);
        self.meter.ended(UnitTermEnd::Lost, lost);
        for term in &running {
            term.revoke();
            term.abort();
        }
        for (unit, sequence) in acting {
            self.acts_no_more(&unit, sequence);
        }
        self.meter.show(&GroupGauges::default());
        running
    }

    /// Returns a receiver of the events from now on.
    pub fn listen(&self) -> broadcast::Receiver<GroupEvent> {
        self.events.subscribe()
    }

    /// Returns a receiver that is notified of each change.
    pub fn changed(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_that_run_on_count_only_where_their_units_are_given_away() {
        let epoch = |letter: char| {
            let text = format!("{}A", letter.to_string().repeat(21));
            Epoch::parse(&text).expect("an epoch")
        };
        let (own, other) = (epoch('B'), epoch('C'));
        let stands = |sequence, owner| UnitOnBoard {
            sequence,
            owner,
            acts_here: false,
        };
        let unit = UnitName::shard;
        let board = Board {
            own: Some(own),
            units: BTreeMap::from([
                (unit(0), stands(5, Some(own))),
                (unit(1), stands(9, Some(other))),
                (unit(2), stands(9, Some(own))),
                (unit(3), stands(9, None)),
            ]),
            ..Board::default()
        };
        assert_eq!(board.own_units().count(), 2);
        // Of unit 2 an old handler runs, below a record that has followed.
        let terms: Vec<_> = (0..4).map(unit).collect();
        assert_eq!(board.disowned(terms.iter().map(|it| (it, 5))), 3);
        let left = Board { own: None, ..board };
        assert_eq!(left.own_units().count(), 0);
        assert_eq!(left.disowned(terms.iter().map(|it| (it, 5))), 4);
    }
}
