//! Leader election for control planes over NATS JetStream Key-Value.
#![forbid(unsafe_code)]

mod clock;
pub(crate) mod election;
mod model;
mod store;
#[cfg(all(feature = "testing", unix))]
pub mod testing;
