//! One key of the bucket, kept by compare-and-set.
//!
//! A lease knows sequences, nonces and secrets. What its records say beside them is its owner's.

mod attempts;
mod freeing;
mod held;
mod input;
mod last_will;
mod link;
mod operations;
mod retry;
mod wire;

pub(crate) use self::attempts::{Attempt, Purpose, Secrets};
pub(crate) use self::freeing::{Freeing, Replaced, Step};
pub(crate) use self::held::{Found, Held, Kind, Stored};
pub use self::input::{Failure, Fresh, HandlerEnd, OpId, TermId, WriteOutcome};
pub use self::last_will::{Bequest, LastWill, WillEnd, WillStep};
pub use self::link::{Bucket, Link};
pub use self::operations::MOST_LATE;
pub(crate) use self::retry::{AdaptiveTimeout, Asked, Breaker};
pub(crate) use self::wire::{Answered, Wire};
