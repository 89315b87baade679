//! What can go wrong: a file for each kind of fault, each to be switched on or off.

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

pub use expiry::{EarlyExpiry, LATEST, WIPED};
pub use foreign::ForeignFault;
pub use ghosts::GhostFault;
pub use handlers::HandlerFault;
pub use history::HistoryFault;
pub use messages::Storm;
pub use partitions::PartitionFault;
pub use processes::ProcessFault;
pub use refusals::Refusals;
pub use requests::RequestFault;
pub use retiring::Retirement;
pub use settings::Unfit;
pub use stream::Outage;
pub use watches::Silence;

use crate::chance::Chance;
use crate::world::World;

/// The kinds of fault that a run may meet.
#[derive(Clone, Debug)]
pub struct Kinds(Vec<&'static str>);

impl Kinds {
    /// Those alone for which this holds.
    pub fn of(mut chosen: impl FnMut(&str) -> bool) -> Self {
        let all = DRAWS.iter().map(|(kind, ..)| *kind);
        Self(all.filter(|kind| chosen(kind)).collect())
    }

    pub fn has(&self, kind: &str) -> bool {
        self.0.contains(&kind)
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

type Draw = fn(&Scale, &mut Chance) -> Fault;

/// Each kind by its name, as often as it should come.
const DRAWS: [(&str, u64, Draw); 12] = [
    ("messages", 2, |s, c| Fault::Storm(Storm::draw(s, c))),
    ("ghosts", 4, |s, c| Fault::Ghost(GhostFault::draw(s, c))),
    ("partitions", 3, |s, c| {
        Fault::Partition(PartitionFault::draw(s, c))
    }),
    ("processes", 6, |s, c| {
        Fault::Process(ProcessFault::draw(s, c))
    }),
    ("watches", 2, |s, c| Fault::Silence(Silence::draw(s, c))),
    ("stream", 1, |_, c| Fault::Outage(Outage::draw(c))),
    ("handlers", 3, |s, c| {
        Fault::Handler(HandlerFault::draw(s, c))
    }),
    ("requests", 4, |_, c| Fault::Request(RequestFault::draw(c))),
    ("foreign", 3, |s, c| {
        Fault::Foreign(ForeignFault::draw(s, c))
    }),
    ("history", 2, |_, c| Fault::History(HistoryFault::draw(c))),
    ("expiry", 2, |_, _| Fault::Expiry(EarlyExpiry)),
    ("settings", 1, |s, c| Fault::Unfit(Unfit::draw(s, c))),
];

impl Fault {
    /// Any of the kinds that are switched on; nothing if none is.
    pub fn draw(kinds: &Kinds, scale: &Scale, chance: &mut Chance) -> Option<Self> {
        let all: u64 = DRAWS.iter().map(|(_, weight, _)| weight).sum();
        for _ in 0..64 {
            let mut ticket = chance.below(all);
            let (kind, _, draw) = DRAWS.iter().find(|(_, weight, _)| {
                let hit = ticket < *weight;
                ticket = ticket.saturating_sub(*weight);
                hit
            })?;
            if kinds.has(kind) {
                return Some(draw(scale, chance));
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
