//! The live screen of `nats-elect top`.
//!
//! ```text
//! run ── convert   what the library tells, in the words of here
//!     ├─ keys      what was typed
//!     ├─ state     what is looked at: selection, filter, sort, a picture that stands still
//!     │  └─ facts  what is known of roles and instances      } no I/O, no clock
//!     │     ├─ past   the terms of a role                    }
//!     │     └─ groups what is known of groups                }
//!     └─ view      both as lines of text
//!        └─ look   colours and signs
//! ```

mod convert;
mod facts;
mod groups;
mod keys;
mod look;
mod past;
mod run;
mod state;
#[cfg(test)]
mod tests;
mod view;

pub use self::look::Look;
pub use self::run::{How, once, watch};
