//! Members that own units of groups: for each process a real [`Group`](nats_elect_core::group::Group),
//! with a real election for each epoch of its lease, against one model stream.
//!
//! As for roles, a seed makes a [`plan`](plan): a fleet, its clocks, its groups, and a list of
//! faults with their times. A [`World`](world::World) runs it. The [`checkers`] look at the truth
//! after each event.
//!
//! | file | contents |
//! | --- | --- |
//! | `stream.rs` | one message for each key, conditions stored with messages, purges, lost ends |
//! | `watching.rs` | watches that lag, skip what was overwritten, break and begin anew |
//! | `node.rs` | a process: its clock, its epochs, its units' handlers |
//! | `driver.rs` | carries out effects, and runs the handlers of units |
//! | `lease.rs` | the epochs of a process, and the elections that keep them |
//! | `requests.rs` | requests to the server, and their answers |
//! | `process.rs` | processes start, die, pause, are cut off, come back |
//! | `wills.rs` | companions that release the leases of processes that died |
//! | `strangers.rs` | what other hands write |
//! | `faults.rs` | the faults, and how they are drawn |
//! | `world.rs` | all there is, and the true time |
//! | `checkers.rs` | what is promised |
//! | `plan.rs`, `run.rs`, `seeds.rs` | from a seed to a verdict |

mod checkers;
mod driver;
mod faults;
mod lease;
#[cfg(feature = "__mutations")]
mod mutations;
mod node;
mod plan;
mod process;
mod requests;
mod run;
mod seeds;
mod strangers;
mod stream;
mod tally;
mod watching;
mod wills;
mod world;

#[cfg(feature = "__mutations")]
pub use mutations::each_broken_rule_of_groups_is_noticed;

/// What this seed breaks.
#[cfg(not(feature = "__mutations"))]
pub fn violation_of_seed(seed: u64) -> Option<checkers::Violation> {
    run::run(&plan::Plan::of_seed(seed), false).violation
}
