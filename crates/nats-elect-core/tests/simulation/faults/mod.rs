//! What can go wrong: a file for each kind of fault, with its own options, each to be switched on
//! or off.

mod expiry;
mod foreign;
mod ghosts;
mod handlers;
mod history;
mod messages;
mod partitions;
mod processes;
mod refusals;
mod requests;
mod retiring;
mod settings;
mod stream;
mod watches;

use std::time::Duration;

pub use expiry::{EarlyExpiry, ExpiryOptions};
pub use foreign::{ForeignFault, ForeignOptions};
pub use ghosts::{GhostFault, GhostOptions};
pub use handlers::{HandlerFault, HandlerOptions};
pub use history::{HistoryFault, HistoryOptions};
pub use messages::{MessageOptions, Storm};
pub use partitions::{PartitionFault, PartitionOptions};
pub use processes::{ProcessFault, ProcessOptions};
pub use refusals::Refusals;
pub use requests::{RequestFault, RequestOptions};
pub use retiring::Retirement;
pub use settings::{SettingsOptions, Unfit};
pub use stream::{Outage, StreamOptions};
pub use watches::{Silence, WatchOptions};

use crate::chance::Chance;
use crate::world::World;

/// The kinds of fault that a run may meet; nothing means switched off.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub messages: Option<MessageOptions>,
    pub ghosts: Option<GhostOptions>,
    pub partitions: Option<PartitionOptions>,
    pub processes: Option<ProcessOptions>,
    pub watches: Option<WatchOptions>,
    pub stream: Option<StreamOptions>,
    pub handlers: Option<HandlerOptions>,
    pub requests: Option<RequestOptions>,
    pub foreign: Option<ForeignOptions>,
    pub history: Option<HistoryOptions>,
    pub expiry: Option<ExpiryOptions>,
    pub settings: Option<SettingsOptions>,
}

/// The names by which kinds of fault are switched on and off.
pub const KINDS: [&str; 12] = [
    "messages",
    "ghosts",
    "partitions",
    "processes",
    "watches",
    "stream",
    "handlers",
    "requests",
    "foreign",
    "history",
    "expiry",
    "settings",
];

impl Options {
    /// Those kinds alone for which this holds.
    pub fn of(mut chosen: impl FnMut(&str) -> bool) -> Self {
        fn pick<T: Default>(chosen: bool) -> Option<T> {
            chosen.then(T::default)
        }
        let [
            messages,
            ghosts,
            partitions,
            processes,
            watches,
            stream,
            handlers,
            requests,
            foreign,
            history,
            expiry,
            settings,
        ] = KINDS.map(&mut chosen);
        Self {
            messages: pick(messages),
            ghosts: pick(ghosts),
            partitions: pick(partitions),
            processes: pick(processes),
            watches: pick(watches),
            stream: pick(stream),
            handlers: pick(handlers),
            requests: pick(requests),
            foreign: pick(foreign),
            history: pick(history),
            expiry: pick(expiry),
            settings: pick(settings),
        }
    }
}

/// The lengths by which faults are measured.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub ttl: Duration,
    pub timeout: Duration,
    pub stop_budget: Duration,
    /// Strangers' records claim at least this lease.
    pub foreign: Duration,
}

/// One fault.
#[derive(Clone, Debug)]
pub enum Fault {
    Storm(Storm),
    Ghost(GhostFault),
    Partition(PartitionFault),
    Process(ProcessFault),
    Silence(Silence),
    Outage(Outage),
    Handler(HandlerFault),
    Request(RequestFault),
    Foreign(ForeignFault),
    History(HistoryFault),
    Expiry(EarlyExpiry),
    Unfit(Unfit),
    Retirement(Retirement),
    Refusals(Refusals),
}

/// Draws one kind of fault, if it is switched on.
type Draw = fn(&Options, &Scale, &mut Chance) -> Option<Fault>;

/// Each kind, as often as it should come.
const DRAWS: [(u64, Draw); 12] = [
    (2, |o, s, c| {
        Some(Fault::Storm(o.messages.as_ref()?.draw(s, c)))
    }),
    (4, |o, s, c| {
        Some(Fault::Ghost(o.ghosts.as_ref()?.draw(s, c)))
    }),
    (3, |o, s, c| {
        Some(Fault::Partition(o.partitions.as_ref()?.draw(s, c)))
    }),
    (6, |o, s, c| {
        Some(Fault::Process(o.processes.as_ref()?.draw(s, c)))
    }),
    (2, |o, s, c| {
        Some(Fault::Silence(o.watches.as_ref()?.draw(s, c)))
    }),
    (1, |o, _, c| Some(Fault::Outage(o.stream.as_ref()?.draw(c)))),
    (3, |o, s, c| {
        Some(Fault::Handler(o.handlers.as_ref()?.draw(s, c)))
    }),
    (4, |o, _, c| {
        Some(Fault::Request(o.requests.as_ref()?.draw(c)))
    }),
    (3, |o, s, c| {
        Some(Fault::Foreign(o.foreign.as_ref()?.draw(s, c)))
    }),
    (2, |o, _, c| {
        Some(Fault::History(o.history.as_ref()?.draw(c)))
    }),
    (2, |o, _, _| {
        o.expiry.as_ref().map(|_| Fault::Expiry(EarlyExpiry))
    }),
    (1, |o, s, c| {
        Some(Fault::Unfit(o.settings.as_ref()?.draw(s, c)))
    }),
];

impl Fault {
    /// Any of the kinds that are switched on; nothing if none is.
    pub fn draw(options: &Options, scale: &Scale, chance: &mut Chance) -> Option<Self> {
        let all: u64 = DRAWS.iter().map(|(weight, _)| weight).sum();
        for _ in 0..64 {
            let mut ticket = chance.below(all);
            let (_, draw) = DRAWS.iter().find(|(weight, _)| {
                let hit = ticket < *weight;
                ticket = ticket.saturating_sub(*weight);
                hit
            })?;
            if let Some(fault) = draw(options, scale, chance) {
                return Some(fault);
            }
        }
        None
    }

    pub fn strike(&self, world: &mut World, node: usize) {
        world.tally.faults += 1;
        world.say(node, "meets", self);
        match self {
            Self::Storm(storm) => storm.strike(world),
            Self::Ghost(ghost) => ghost.strike(world, node),
            Self::Partition(partition) => partition.strike(world, node),
            Self::Process(fault) => fault.strike(world, node),
            Self::Silence(silence) => silence.strike(world, node),
            Self::Outage(outage) => outage.strike(world),
            Self::Handler(fault) => fault.strike(world, node),
            Self::Request(request) => request.strike(world, node),
            Self::Foreign(fault) => fault.strike(world),
            Self::History(fault) => fault.strike(world),
            Self::Expiry(EarlyExpiry) => EarlyExpiry::strike(world),
            Self::Unfit(unfit) => unfit.strike(world, node),
            Self::Retirement(Retirement) => Retirement::strike(world),
            Self::Refusals(refusals) => refusals.strike(world),
        }
    }
}
