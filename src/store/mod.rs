//! The bucket in NATS. This is the only layer that talks to the bucket, and it decides nothing
//! about leadership.
//!
//! [`Bucket`] is a cheap handle. Its capabilities come with it as [`BucketInfo`], read from the
//! settings that the server returned. Every write carries the sequence that its writer expects.
//! Every answer other than a success is a [`StoreError`], which one place sorts by the possible
//! reaction.

#[cfg(any(test, fuzzing))]
mod answers;
mod asking;
mod assignment;
mod bucket;
mod data;
mod data_owner;
mod denied;
mod entry;
mod error;
mod error_codes;
mod events;
mod feed;
mod fenced;
mod info;
mod mailbox;
mod peers;
mod questions;
mod read;
mod request;
mod server;
mod service;
mod settings;
mod sorter;
#[cfg(all(test, unix))]
pub(crate) mod stand_in;
#[cfg(all(test, unix))]
mod tests;
mod unit_fence;
mod watch;
mod write;

#[cfg(any(test, fuzzing))]
pub use answers::{bucket_answer, fence_answer, role_answer};
pub use asking::Asking;
pub use assignment::{AssignmentDelivery, AssignmentWatch};
pub use bucket::{Bucket, IfMissing, server_of};
pub use data::DataEntry;
pub use data_owner::DataOwner;
pub use denied::Denied;
#[cfg(any(test, fuzzing))]
pub use entry::{fence_entry, role_entry};
pub use error::StoreError;
pub use events::events_stream;
pub use feed::Delivery;
#[cfg(any(test, fuzzing))]
pub use feed::{Counted, Feed};
pub use fenced::{DataWrite, MOST_WRITES};
pub use info::{BucketInfo, BucketReview};
pub use mailbox::{Mailbox, inbox_prefix};
pub use read::Written;
pub use request::{OUT_OF_REACH, is_closed, is_unsent};
pub use service::{Asked, Call};
pub use settings::BucketNote;
