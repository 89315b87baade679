//! Unit tests of handlers, without a server.
//!
//! A [`TestTerm`] is the term of a handler, in the hands of the test. The test decides what happens
//! to the handler, and looks at what it wrote:
//!
//! ```
//! use nats_elect::testing::{TestTerm, WriteFault};
//! use nats_elect::{BoxError, FencedError, RoleHandler, Term};
//!
//! struct Counter;
//!
//! impl RoleHandler for Counter {
//!     async fn lead(&self, term: Term) -> Result<(), BoxError> {
//!         let store = term.store();
//!         match store.create("count", "1").await {
//!             Ok(_) | Err(FencedError::Conflict { .. }) => {}
//!             Err(error) => return Err(error.into()),
//!         }
//!         term.cancelled().await;
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let test = TestTerm::new("counter");
//! test.cancel();
//! assert!(matches!(test.lead(&Counter).await, Some(Ok(()))));
//! assert_eq!(test.store().get("count").unwrap().value, b"1");
//!
//! let test = TestTerm::new("counter");
//! test.store().fail_next(WriteFault::Lost);
//! assert!(matches!(test.lead(&Counter).await, Some(Err(_))));
//! # }
//! ```
//!
//! For code that is told of leaders, such as
//! [`on_leader_change`](crate::RoleHandler::on_leader_change), make one with
//! [`LeaderInfo::new`](crate::LeaderInfo::new) and set its public fields.
//!
//! Enable the feature for tests alone:
//!
//! ```toml
//! [dev-dependencies]
//! nats-elect = { version = "0.1", features = ["testing"] }
//! ```
//!
//! `docs/testing.md` shows a test for each decision, and tests with a real server.

pub use crate::role::{TestStore, TestTerm, WriteFault};

#[cfg(test)]
mod tests;
