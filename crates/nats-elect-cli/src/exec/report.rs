//! `exec` about its own work, on stderr: a line each. They go the way of logs, which waits for no
//! reader.

use nats_elect::{EndCause, FencingToken, LeaderInfo};
use rustix::process::{Pid, Signal};

use super::guarded::End;
use super::signals::SIGNALS;
use crate::text::clean;

/// The filter that shows these lines, and those that an outage of NATS is over. `--quiet` leaves it
/// out.
pub const LOGS: &str = "nats_elect::exec=info,nats_elect::actors::monitor::outage=info";
const TARGET: &str = "nats_elect::exec";

/// Logs a line outside the term's span, whose fields would make it long.
macro_rules! tell {
    ($level:ident, $($text:tt)*) => {
        tracing::$level!(target: TARGET, parent: None, $($text)*)
    };
}

/// Why `exec` kills a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    LeaseOver,
    TooSlow,
    /// A second signal asked for it.
    Asked,
}

/// Another instance leads while this one waits.
pub fn waiting(role: &str, leader: &LeaderInfo) {
    let leader = clean(&crate::seen::name(leader));
    tell!(info, "waiting for {role}: {leader} leads");
}

/// Other instances have all slots while this one waits.
pub fn waiting_for_slot(role: &str) {
    tell!(info, "waiting for {role}: others have all slots");
}

/// The role has another number of slots than this instance was started with.
pub fn other_slots(role: &str, slots: u32, own: u32) {
    tell!(
        warn,
        "{role} has {slots} slots, not {own}: `nats-elect group grow {role} {own}` changes that"
    );
}

/// A run began: the first one of a term, or another one.
pub fn started(role: &str, command: Pid, token: FencingToken, is_first: bool) {
    let pid = command.as_raw_nonzero();
    if is_first {
        tell!(
            info,
            "{role}: leads, command started (pid {pid}, fencing token {token})"
        );
    } else {
        tell!(info, "{role}: command started again (pid {pid})");
    }
}

/// The command ended, and what there is to say beside it.
pub fn ended(role: &str, end: End, more: &str) {
    let end = match end {
        End::Exited(code) => format!("ended with code {code}"),
        End::Killed(signal) => format!("ended by {}", named(signal.into())),
        End::Unguarded => "killed: its guard is gone".to_owned(),
    };
    tell!(info, "{role}: command {end}{more}");
}

/// The term ends, and with it the command if one runs.
pub fn leadership_ends(role: &str, cause: Option<EndCause>, has_command: bool) {
    let why = because(cause);
    let stopping = if has_command {
        ", stopping the command"
    } else {
        ""
    };
    tell!(info, "{role}: leadership ends{why}{stopping}");
}

/// The command did not end by itself.
pub fn kills(role: &str, kill: Kill, cause: Option<EndCause>) {
    let why = because(cause);
    match kill {
        Kill::LeaseOver => tell!(warn, "{role}: killing the command: its lease is over{why}"),
        Kill::TooSlow => tell!(warn, "{role}: killing the command: it did not stop in time"),
        Kill::Asked => tell!(
            info,
            "{role}: killing the command: a second signal asks for it"
        ),
    }
}

/// A signal asks `exec` to end.
pub fn stops(signal: Signal) {
    tell!(info, "stopping: {} came", named(signal.as_raw()));
}

fn because(cause: Option<EndCause>) -> String {
    cause.map_or_else(String::new, |cause| format!(" ({})", cause.as_str()))
}

fn named(signal: i32) -> String {
    let name = SIGNALS.iter().find(|(_, it)| it.as_raw() == signal);
    name.map_or_else(
        || format!("signal {signal}"),
        |(name, _)| format!("SIG{name}"),
    )
}
