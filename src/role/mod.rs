//! One role at work on this instance: its handler, its terms, and what both share with the election.

mod deadline;
mod fenced;
mod handler;
mod instance;
mod lease_changes;
mod orders;
mod polls;
mod roster;
mod running;
mod scope;
mod term;
mod wellbeing;

pub use fenced::{BatchProblem, FencedBatch, FencedEntry, FencedError, FencedStore};
pub(crate) use handler::ErasedHandler;
pub use handler::{BoxError, RoleHandler, handler_fn};
pub(crate) use instance::Instance;
pub use lease_changes::LeaseChanges;
pub(crate) use orders::Order;
pub use orders::SteppedDown;
pub(crate) use roster::Roster;
pub(crate) use running::{HandlerReport, RunningTerm};
pub(crate) use scope::{Ask, Request, RoleScope};
pub(crate) use term::proof;
pub use term::{Term, TermError};
pub(crate) use wellbeing::Wellbeing;
