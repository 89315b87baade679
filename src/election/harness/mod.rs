//! Several real elections against one model bucket, under one virtual clock, from one seed.
//!
//! [`World`] carries out effects as the actors do, lets the network and the applications misbehave, and checks after
//! every event what must always hold ([`checks`]). A test makes a world, disturbs it, and runs it on.

#![expect(
    clippy::unchecked_time_subtraction,
    reason = "a duration below zero is a bug of the harness"
)]

mod bucket;
mod chance;
mod checks;
mod driver;
mod network;
mod node;
mod solo;
mod world;

pub use bucket::ModelBucket;
pub use network::{Fate, Kind, Weather};
pub use node::{Clock, Handler};
pub use solo::{BUCKET, OLD_FENCE, OWN, Solo, entry, failure, fence_of, own, record_of, stranger};
pub use world::{World, ms, settings};
