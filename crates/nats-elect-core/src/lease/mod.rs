//! One key of the bucket, kept by compare-and-set.
//!
//! A lease knows sequences, nonces and secrets. What its records say beside them is its owner's, and
//! so are other keys. The owner sends by [`Wire::send`], which tells it the nonce, and dresses the
//! write. [`Wire::write_ended`] and [`Wire::read_ended`] say to which request an answer belongs. A
//! confirmed claim makes a [`Held`], which takes the answers to heartbeats, reads and what the watch
//! shows.

mod attempts;
mod held;
mod input;
mod last_will;
mod link;
mod operations;
mod retry;
mod wire;

pub(crate) use self::attempts::{Attempt, Secrets};
pub(crate) use self::held::{Found, Held, Kind, Stored};
pub use self::input::{Failure, Fresh, HandlerEnd, OpId, TermId, WriteOutcome};
pub use self::last_will::{Bequest, LastWill, WillEnd, WillStep};
pub use self::link::{Bucket, Link};
pub use self::operations::MOST_LATE;
pub(crate) use self::retry::AdaptiveTimeout;
pub(crate) use self::wire::Wire;
