//! The election protocol as a deterministic state machine.
//!
//! [`Election`] is one instance's side of one role's election. It does no I/O, reads no clock, draws no random number
//! and awaits nothing: time, fresh ids and chance come in with each [`Input`], and what is to be done comes out as
//! [`Effect`]s. The same code therefore runs under the actors, in a simulator and in a model checker, and a whole
//! failover can be tested in microseconds.
//!
//! Drive it so: call [`Election::step`] with each input as it comes; carry out the effects *in their order*; then arm one
//! timer for [`Election::next_wakeup`] and step with [`Input::Tick`] when it fires. Every [`Effect::Write`] and
//! [`Effect::Read`] must be answered with the operation's id within the request timeout or a little later, if only by the
//! word that no answer came; and once more, if one comes within the ttl.
//!
//! This is the room where the guarantees live. Nothing outside decides anything about leadership.
#![forbid(unsafe_code)]

pub mod config;
#[allow(missing_docs)]
mod election;
pub mod event;
pub mod handoff;
#[allow(missing_docs)]
pub mod millis;
mod moment;
pub mod name;
#[allow(missing_docs)]
pub mod peer;
#[allow(missing_docs)]
pub mod record;
#[allow(missing_docs)]
pub mod release;
pub mod status;
pub mod text;
pub mod token;

pub use crate::election::*;
pub use crate::moment::Moment;
