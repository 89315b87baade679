//! One role at work on this instance: its handler, its terms, and what both share with the election.

mod deadline;
mod fenced;
mod handler;
mod lease_changes;
mod roster;
mod running;
mod scope;
mod term;

pub use fenced::{BatchProblem, FencedBatch, FencedEntry, FencedError, FencedStore};
pub(crate) use handler::ErasedHandler;
pub use handler::{BoxError, RoleHandler, handler_fn};
pub use lease_changes::LeaseChanges;
pub(crate) use roster::Roster;
pub(crate) use running::{HandlerReport, RunningTerm};
pub(crate) use scope::{Ask, Request, RoleScope};
pub(crate) use term::proof;
pub use term::{Term, TermError};
