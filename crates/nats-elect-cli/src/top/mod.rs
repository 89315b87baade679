//! The live screen of `nats-elect top`.
//!
//! ```text
//! run ─┬─ state    what is looked at: selection, filter; and what keys mean
//!      │  └─ facts what is known of the bucket at one time; no I/O, no clock
//!      └─ view     both as lines of text
//!         └─ look  colours and signs
//! ```

mod facts;
mod look;
mod run;
mod state;
#[cfg(test)]
mod tests;
mod view;

pub use self::look::Look;
pub use self::run::{How, once, watch};
