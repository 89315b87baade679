//! The state that the handles and the handlers of one group share with the actor of the member.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::{Semaphore, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::fenced::DataSource;
use super::group_requests::GroupRequest;
use super::handler::ErasedHandler;
use super::health_check::HealthCheck;
use super::instance::Instance;
use super::running::{HandlerReport, RunningTerm, TermSetup, run};
use super::scope::Ask;
use crate::lock::lock;
use crate::metrics::{GroupGauges, GroupLabels, Labels, UnitTermEnd};
use crate::model::admin::GroupReport;
use crate::model::config::{GroupConfig, RoleSettings};
use crate::store::{Bucket, DataOwner};
use nats_elect_core::TermStart;
use nats_elect_core::assignment::{Epoch, Map, UnitKey, Units};
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
    pub instance: Arc<Instance>,
    handlers: UnitHandlers,
    /// The settings of the member's lease, with those of the group.
    pub settings: Arc<RoleSettings>,
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
    running: Mutex<BTreeMap<UnitName, RunningTerm>>,
    /// Cancelled when this instance has left the group.
    pub left: CancellationToken,
    /// What is known. Its receivers are notified of changes of acting handlers, too.
    pub board: watch::Sender<Board>,
    events: broadcast::Sender<GroupEvent>,
    /// Sends a request to the present actor of the member, once there is one.
    ask: Mutex<Option<AskGroup>>,
    /// Held while a plan is made on request. To gather what it is made from takes the elections'
    /// time.
    pub planning: Semaphore,
}

/// Sends a request to the actor of the member.
pub(crate) type AskGroup = Arc<dyn Fn(GroupRequest) + Send + Sync>;

/// What this instance knows of a group. The actor of the member replaces it as a whole.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board {
    /// The newest map that this member follows.
    pub map: Option<Arc<Map>>,
    /// The instance ids of members.
    pub members: Arc<HashMap<Epoch, InstanceId>>,
    /// The present epoch of this instance, which may not be claimed yet.
    pub own: Option<Epoch>,
    /// Whether this instance tells others that it takes units.
    pub takes_units: bool,
    /// Whether this instance can own units.
    pub joined: bool,
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
    /// Counts the units that this instance owns.
    fn own_units(&self) -> usize {
        let owned = self.map.as_ref().zip(self.own);
        owned.map_or(0, |(map, own)| map.owned_by(own).count())
    }

    /// Whether a handler of this unit is of a term on which this instance owns the unit no more.
    fn is_disowned(&self, unit: &UnitName, in_office: bool) -> bool {
        let owner = self.owner(unit);
        !in_office || owner.is_none() || owner != self.own
    }

    /// The number of shards, if the group has shards and a map was seen.
    pub fn shards(&self) -> Option<u32> {
        self.map.as_ref()?.units().shards()
    }

    /// The owner of a unit, if it has one and is known.
    pub fn owner(&self, unit: &UnitName) -> Option<Epoch> {
        let map = self.map.as_ref()?;
        map.owner(map.units().place_of(unit)?)
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
        instance: &Arc<Instance>,
    ) -> Arc<Self> {
        let (id, bucket) = (instance.id.as_str(), instance.bucket.as_str());
        let labels = Labels::new(name.as_str(), id, bucket);
        let meter = GroupLabels::new(name.as_str(), id, bucket);
        Arc::new(Self {
            name,
            units,
            config: Arc::new(config),
            instance: Arc::clone(instance),
            handlers,
            settings: Arc::new(settings),
            runtime,
            labels,
            meter,
            connection: watch::Sender::new(ConnectionStatus::Suspended),
            bucket: watch::Sender::new(None),
            running: Mutex::default(),
            left: CancellationToken::new(),
            board: watch::Sender::default(),
            events: broadcast::Sender::new(EVENTS),
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
        start: TermStart,
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
            settings: Arc::clone(&self.settings),
            labels: self.labels.clone(),
            connection: self.connection.subscribe(),
            ask,
            data: DataSource::Link(self.bucket.subscribe()),
        };
        let (running, leading) = RunningTerm::begin(setup, start, id, report);
        self.runtime.spawn(run(handler, leading).instrument(span));
        lock(&self.running).insert(unit.unit.clone(), running.clone());
        Some(running)
    }

    /// Returns the handlers that still run, by their units.
    pub fn running(&self) -> Vec<(UnitName, RunningTerm)> {
        let mut running = lock(&self.running);
        running.retain(|_, term| !term.has_ended());
        let running = running.iter();
        running
            .map(|(unit, term)| (unit.clone(), term.clone()))
            .collect()
    }

    /// Returns what operators are told.
    pub fn report(&self) -> GroupReport {
        let running = self.running();
        let loads = running.iter().filter_map(|(_, term)| term.load());
        let load = loads.map(u64::from).reduce(u64::saturating_add);
        let board = self.known();
        let disowned = running
            .iter()
            .filter(|(unit, term)| board.is_disowned(unit, term.in_office().is_some()));
        GroupReport {
            units: board.own_units(),
            still_running: disowned.count(),
            load,
            takes_units: board.takes_units,
            answers_within: self.moves_within(),
        }
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

    /// Replaces what is known. `resets` tells that nothing that was told before holds.
    pub fn show(&self, now: Board, resets: bool) {
        self.board.send_modify(|board| {
            *board = now;
            // Within the lock: no owner that is read after this is of before.
            if resets {
                let _ = self.events.send(GroupEvent::Reset);
            }
        });
    }

    /// Returns what is known just now.
    pub fn known(&self) -> Board {
        self.board.borrow().clone()
    }

    /// Returns the owner of a unit, if it has one and is known.
    pub fn owner(&self, board: &Board, unit: &UnitName) -> Option<UnitOwner> {
        Some(self.owner_by(board, unit, board.owner(unit)?))
    }

    /// Returns the owner of each known unit.
    pub fn owners(&self) -> BTreeMap<String, Option<UnitOwner>> {
        let board = self.known();
        let Some(map) = &board.map else {
            return BTreeMap::new();
        };
        let owners = (0..map.units().count()).filter_map(|place| {
            let unit = map.units().get(place)?.name();
            let owner = map.owner(place);
            let owner = owner.map(|epoch| self.owner_by(&board, &unit, epoch));
            Some((unit.as_str().to_owned(), owner))
        });
        owners.collect()
    }

    fn owner_by(&self, board: &Board, unit: &UnitName, epoch: Epoch) -> UnitOwner {
        let instance_id = board.members.get(&epoch);
        let running = lock(&self.running);
        let own = running.get(unit).filter(|_| board.own == Some(epoch));
        let fencing_token = own.and_then(RunningTerm::in_office);
        UnitOwner {
            instance_id: instance_id.map_or_else(String::new, ToString::to_string),
            fencing_token,
            acts_here: fencing_token.is_some(),
        }
    }

    /// Tells those who listen who owns a unit now, or that its handler begins or no longer acts.
    pub fn tell(&self, unit: &UnitName, owner: Option<Epoch>) {
        let board = self.known();
        let _ = self.events.send(GroupEvent::OwnerChanged {
            unit: unit.as_str().to_owned(),
            owner: owner.map(|epoch| self.owner_by(&board, unit, epoch)),
        });
    }

    /// Returns a unit whose handler still runs although its term and the lease below it are over.
    pub fn overrun(&self) -> Option<UnitName> {
        let allowance = self.settings.abort_allowance();
        let running = lock(&self.running);
        let mut units = running.iter();
        let (unit, _) = units.find(|(_, term)| term.is_overrun(allowance))?;
        Some(unit.clone())
    }

    /// The member's actor crashed: all terms that still run are over. Ends them, and returns them.
    pub fn end_all(&self) -> Vec<RunningTerm> {
        let running = self.running();
        // The others were counted when they ended, and run on.
        let valid = running
            .iter()
            .filter(|(_, it)| !it.term.remaining().is_zero());
        let lost = u64::try_from(valid.count()).unwrap_or(u64::MAX);
        self.meter.ended(UnitTermEnd::Lost, lost);
        let board = self.known();
        for (unit, term) in &running {
            let acted = term.in_office().is_some();
            term.revoke();
            term.abort();
            if acted {
                self.tell(unit, board.owner(unit));
            }
        }
        self.board.send_modify(|board| board.joined = false);
        self.meter.show(&GroupGauges::default());
        running.into_iter().map(|(_, term)| term).collect()
    }

    /// Returns a receiver of the events from now on.
    pub fn listen(&self) -> broadcast::Receiver<GroupEvent> {
        self.events.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nats_elect_core::assignment::Changes;

    #[test]
    fn handlers_that_run_on_count_only_where_their_units_are_given_away() {
        let epoch = |letter: char| {
            let text = format!("{}A", letter.to_string().repeat(21));
            Epoch::parse(&text).expect("an epoch")
        };
        let (own, other) = (epoch('B'), epoch('C'));
        let first = Map::first(1, 1, Units::Shards(4), &[own, other], []).expect("a map");
        let owners = [(0, Some(own)), (1, Some(other)), (2, Some(own))];
        let changes = Changes {
            owners: BTreeMap::from(owners),
            ..Changes::default()
        };
        let map = first.stored_at(5).next(&changes, |_, _, _| true);
        let board = Board {
            map: Some(Arc::new(map.expect("a map"))),
            own: Some(own),
            ..Board::default()
        };
        assert_eq!(board.own_units(), 2);
        // The handler of unit 2 was told to end.
        let disowned = |board: &Board| {
            let units = [(0, true), (1, true), (2, false), (3, true)];
            let units = units.iter();
            let disowned =
                units.filter(|(unit, acts)| board.is_disowned(&UnitName::shard(*unit), *acts));
            disowned.count()
        };
        assert_eq!(disowned(&board), 3);
        let left = Board { own: None, ..board };
        assert_eq!(left.own_units(), 0);
        assert_eq!(disowned(&left), 4);
    }
}
