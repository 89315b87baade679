//! The live screen of `nats-elect top`.
//!
//! ```text
//! run ─┬─ keys     what was typed
//!      ├─ state    what is looked at: selection, filter
//!      │  └─ facts what is known of the bucket at one time; no I/O, no clock
//!      └─ view     both as lines of text
//!         └─ look  colours and signs
//! ```

mod facts;
mod keys;
mod look;
mod run;
mod state;
#[cfg(test)]
mod tests;
mod view;

pub use self::look::Look;
pub use self::run::{How, once, watch};
