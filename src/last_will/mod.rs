//! A companion process that releases the roles of a process that dies, and its units of groups.
//!
//! A lease is long, so that a leader rides through trouble with NATS. So the next leader waits long
//! for a process that was killed, although the kernel knows of its end at once. With
//! [`last_will`](crate::RoleManagerBuilder::last_will) the manager keeps a small process beside
//! its own. When the kernel confirms that the application's process is dead, and so are all its
//! handlers, the companion releases the roles that the process led, and the lease of all units of
//! [groups](crate::docs::groups) that it owned. The next leaders and owners then start as after a
//! graceful stop.
//!
//! The companion runs the application's own program, so call [`init`] first in `main`:
//!
//! ```no_run
//! use nats_elect::{BoxError, LastWillConfig, RoleManager};
//!
//! fn main() -> Result<(), BoxError> {
//!     nats_elect::last_will::init();
//!     run()
//! }
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn run() -> Result<(), BoxError> {
//!     let manager = RoleManager::builder().last_will(LastWillConfig::on()).start().await?;
//!     # let _ = manager;
//!     Ok(())
//! }
//! ```
//!
//! Or set [`program`](crate::LastWillConfig::program) to the path of the command `nats-elect`.
//!
//! The companion knows nothing that its parent does not tell it through a pipe: how to connect, and
//! for each term, and for the lease of the units, what proves a release. It never claims and never renews. If it dies, the manager
//! starts another one, and until then a crash takes as long as without it. It works on Unix; death
//! is known by a pidfd on Linux 5.3 or later, elsewhere by the new parent, and by the closed pipe. A
//! fork of the process that lives on holds the pipe: then the lease decides.
//!
//! Programs that a handler started are not seen. Bind them to your process, for instance with
//! `PR_SET_PDEATHSIG`, or have the companion wait for their ends, with
//! [`last_will_after`](crate::RoleManagerBuilder::last_will_after): units of groups wait for the
//! lease then. The page about
//! [failover](crate::docs::failover) lists which ends of a process
//! a companion sees.

#[cfg(unix)]
mod carrying_out;
#[cfg(unix)]
mod companion;
#[cfg(unix)]
mod death;
#[cfg(unix)]
mod ear;
#[cfg(unix)]
mod evidence;
#[cfg(unix)]
mod handed;
#[cfg(unix)]
mod keeper;
#[cfg(not(unix))]
#[path = "keeper_elsewhere.rs"]
mod keeper;
#[cfg(unix)]
mod surroundings;
#[cfg(unix)]
mod told;

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
pub use self::evidence::line_of_end;
#[cfg(not(unix))]
pub(crate) use self::keeper::Ends;
pub(crate) use self::keeper::Keeper;
pub use crate::model::bequests::LastWillStatus;

/// Through which the end of a term's work is told.
#[cfg(unix)]
pub(crate) type Ends = std::os::fd::OwnedFd;

/// The only argument of a companion.
const ARGUMENT: &str = "nats-elect-last-will";

static INITIALISED: AtomicBool = AtomicBool::new(false);

/// Runs the companion and ends the process, if a manager started this process as a companion.
/// Returns otherwise.
///
/// Call it first in `main`, before any runtime or thread starts and before arguments are read.
pub fn init() {
    INITIALISED.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    let is_companion = arguments.next().is_some_and(|it| it == ARGUMENT);
    if is_companion && arguments.next().is_none() {
        #[cfg(unix)]
        companion::run();
        std::process::exit(0);
    }
}

/// Whether this program can be started as a companion.
fn is_initialised() -> bool {
    INITIALISED.load(Ordering::Relaxed)
}
