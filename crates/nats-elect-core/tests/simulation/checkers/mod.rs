//! What is promised, checked apart from what happens: each checker has only what it hears, and the
//! truth to look at.

mod conduct;
mod failing;
mod fenced;
mod grace;
mod handlers;
mod leases;
mod losses;
mod orders;
mod pace;
mod reports;
mod tokens;

use std::fmt;
use std::time::Duration;

use nats_elect_core::token::FencingToken;
use nats_elect_core::{CoreStatus, Effect, Input, Moment, Write};

use crate::world::World;

/// What the checkers are told.
pub enum Note<'a> {
    Booted {
        node: usize,
    },
    Died {
        node: usize,
    },
    Takes {
        node: usize,
        input: &'a Input,
    },
    /// Told before it is carried out.
    Wants {
        node: usize,
        effect: &'a Effect,
    },
    /// The effects of a step were carried out.
    Stepped {
        node: usize,
        now: Moment,
        due: Option<Moment>,
        status: &'a CoreStatus,
        /// Nothing more follows from it at once.
        settled: bool,
    },
    /// A write took effect.
    Committed {
        write: &'a Write,
        revision: u64,
    },
    /// A write under this term's fence took effect.
    FencedWrite {
        token: FencingToken,
    },
    /// An application told its election that this term's fence has gone.
    ToldSuperseded {
        token: FencingToken,
    },
    /// Confirmed writes are gone: the stream's tail, a key, or all of it.
    HistoryLost {
        /// What is written next may get the sequences of what was lost.
        reused: bool,
        /// Whoever knew what was lost notices by what comes next: a bucket that was made anew is
        /// another one.
        noticed: bool,
    },
    /// Something has happened, and time went on to it.
    Moved {
        /// Nothing more happens at this moment.
        instant_over: bool,
    },
}

/// A promise of the crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Promise {
    /// At no true instant do two instances hold a valid lease.
    OneLeader,
    /// The fencing tokens of promoted terms strictly increase.
    RisingTokens,
    /// No fenced write takes effect once a newer term's fence record was stored.
    FencedWrites,
    /// A handler never runs outside its own valid lease, but for the scheduling allowance and named
    /// overruns.
    HandlersInLease,
    /// No instance leads on without a connection for longer than its grace period, or ends a term
    /// for a shorter outage.
    WithinGrace,
    /// Once faults stop, somebody leads within a stated bound.
    SomebodyLeads,
    /// Status and events agree with the truth.
    TrueReports,
    /// The core keeps to the rules of the protocol and of its interface.
    GoodConduct,
    /// Nothing panics.
    NoPanic,
}

/// A promise that was broken.
#[derive(Clone, Debug)]
pub struct Violation {
    pub promise: Promise,
    pub at: Duration,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            promise,
            at,
            detail,
        } = self;
        write!(f, "{promise:?} broken at {at:?}: {detail}")
    }
}

/// All checkers.
#[derive(Debug)]
pub struct Checkers {
    losses: losses::Losses,
    tokens: tokens::Tokens,
    fenced: fenced::Fenced,
    reports: reports::Reports,
    conduct: conduct::Conduct,
    grace: grace::Grace,
    orders: orders::Orders,
    failing: failing::Failing,
    pace: pace::Pace,
}

impl Checkers {
    pub fn new(nodes: usize) -> Self {
        Self {
            losses: losses::Losses::new(nodes),
            tokens: tokens::Tokens::default(),
            fenced: fenced::Fenced::default(),
            reports: reports::Reports::new(nodes),
            conduct: conduct::Conduct::new(nodes),
            grace: grace::Grace::new(nodes),
            orders: orders::Orders::new(nodes),
            failing: failing::Failing::new(nodes),
            pace: pace::Pace::new(nodes),
        }
    }

    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), Violation> {
        let at = world.now;
        let broken = |promise| {
            move |detail| Violation {
                promise,
                at,
                detail,
            }
        };
        self.losses.hear(world, note);
        leases::hear(world, note, &self.losses).map_err(broken(Promise::OneLeader))?;
        (self.tokens.hear(world, note, &self.losses)).map_err(broken(Promise::RisingTokens))?;
        (self.fenced.hear(world, note, &self.losses)).map_err(broken(Promise::FencedWrites))?;
        handlers::hear(world, note).map_err(broken(Promise::HandlersInLease))?;
        (self.conduct.hear(world, note)).map_err(broken(Promise::GoodConduct))?;
        (self.grace.hear(world, note)).map_err(broken(Promise::WithinGrace))?;
        (self.orders.hear(world, note)).map_err(broken(Promise::GoodConduct))?;
        (self.failing.hear(world, note)).map_err(broken(Promise::GoodConduct))?;
        (self.pace.hear(world, note)).map_err(broken(Promise::GoodConduct))?;
        (self.reports.hear(world, note)).map_err(broken(Promise::TrueReports))
    }
}

/// Fails with this text unless it holds.
fn demand(holds: bool, detail: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(detail()) }
}
