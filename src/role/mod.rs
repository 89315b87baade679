//! One role at work on this instance: its handler, its terms, and the state that both share with
//! the election.

mod deadline;
mod fenced;
mod fleet;
mod group_requests;
mod group_scope;
mod handler;
mod health_check;
mod instance;
mod map_orders;
mod orders;
mod polls;
mod registry;
mod running;
mod scope;
mod term;
#[cfg(any(test, feature = "testing"))]
mod test_term;

pub use fenced::{FencedBatch, FencedEntry, FencedError, FencedStore};
#[cfg(any(test, feature = "testing"))]
pub use fenced::{TestStore, WriteFault};
pub(crate) use fleet::fleet;
pub(crate) use group_requests::{GroupRequest, GroupView, Taker};
pub use group_scope::{GroupEvent, UnitOwner};
pub(crate) use group_scope::{GroupScope, UnitHandlers};
pub(crate) use handler::ErasedHandler;
pub use handler::{BoxError, BoxHandler, RoleHandler, handler_fn, try_handler_fn};
pub(crate) use health_check::Health;
pub(crate) use instance::Instance;
pub(crate) use map_orders::not_here;
pub(crate) use orders::Order;
pub use orders::{StepDown, SteppedDown};
pub(crate) use registry::RoleRegistry;
pub(crate) use running::{HandlerReport, RunningTerm};
pub(crate) use scope::{Ask, Request, RoleScope};
pub(crate) use term::proof;
pub use term::{Term, TermError};
#[cfg(any(test, feature = "testing"))]
pub use test_term::TestTerm;
