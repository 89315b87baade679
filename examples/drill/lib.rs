//! What the examples with faults and the benchmarks share: processes that can be broken, what they
//! write down, and what must hold of it.
//!
//! `node.rs` has a process behind a network that can fail, `journal.rs` what such a process writes
//! down, `terms.rs` and `ownership.rs` what that says. `stage.rs` is a fleet of such processes under a
//! script, `verdict` judges it, `picture.rs` draws it. `driven.rs` has processes that follow orders
//! line by line, for benchmarks.

#![cfg(unix)]
#![expect(
    clippy::missing_panics_doc,
    reason = "driven processes panic where their driver is wrong"
)]

mod clock;
pub mod driven;
mod fault;
mod fleet;
pub mod journal;
mod node;
pub mod ownership;
pub mod picture;
mod sample;
mod stage;
mod svg;
mod terms;
pub mod usage;
pub mod verdict;

use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getpid, kill_process};

pub use clock::Moment;
pub use fault::{Fault, Kind};
pub use fleet::{Fleet, Member};
pub use node::Node;
pub use sample::Sample;
pub use stage::Stage;
pub use terms::{Term, Terms};

/// Any error, for people to read.
pub type Problem = Box<dyn std::error::Error + Send + Sync>;

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Writes a line for people. A reader that went away is no reason to fail.
pub fn say(line: &str) {
    let mut out = io::stdout().lock();
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        IS_CLOSED.store(true, Ordering::Relaxed);
    }
}

/// Whether somebody may read what is said.
pub fn is_heard() -> bool {
    !IS_CLOSED.load(Ordering::Relaxed)
}

/// Asks this process to end (`SIGTERM`) when its standard input does: its parent holds the other end,
/// and is gone then, however it ended.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let mut input = io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        let _ = kill_process(getpid(), Signal::TERM);
    });
}
