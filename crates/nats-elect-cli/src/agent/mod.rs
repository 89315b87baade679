//! `agent`: elections for applications in any language, over HTTP on a Unix socket or on loopback.
//!
//! ```text
//! listen ── connections, and the proof that the other end of one is gone
//! └─ api ── requests and answers
//!    ├─ attach ── which application stands for which role
//!    │  └─ application ── one of them: the handler of its role, and what it was promised
//!    └─ keys ── fenced keys
//! ```
//!
//! An application acts on a promise: "you lead for so long, counted from when you sent the request".
//! A promise never reaches beyond the moment at which the election would end a handler that does not
//! stop. So the role is never freed before the promise is over, unless the application said that it
//! has stopped, or closed its Unix socket: the kernel confirms that no process has it any more.

mod api;
mod application;
mod attach;
mod keys;
pub mod listen;
mod openapi;
mod problem;

pub use self::api::{Agent, router};
pub use self::attach::Attached;
