//! The last step before the command: a process that waits, and then becomes it.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal, getpid, getppid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use crate::connect::runtime;
use crate::exit::{Failure, Outcome, in_time};

/// What shells return for a command that is not there, and for one that can't be run.
const NOT_FOUND: u8 = 127;
const NOT_RUN: u8 = 126;

/// Stops until the guard lets it go on, then becomes the command. Returns only if that fails.
pub fn become_command(command: &[OsString], guard: Pid) -> Outcome {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::usage("there is no command"));
    };
    die_with(guard)?;
    outlive_signals()?;
    // The guard sees that this process stands still, and tells `exec` its group. Only then does it
    // go on.
    kill_process(getpid(), Signal::STOP).map_err(io::Error::from)?;
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    };
    let text = format!(
        "nats-elect: {} can't be run: {error}",
        program.to_string_lossy()
    );
    in_time(move || drop(writeln!(io::stderr().lock(), "{text}")));
    Ok(code)
}

/// Has the kernel kill this process when the guard dies. It stays so in the command, unless that
/// gains privileges.
fn die_with(guard: Pid) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(io::Error::from)?;
    // It may have died before.
    if getppid() != Some(guard) {
        return Err(Failure::failed("the guard is gone"));
    }
    Ok(())
}

/// What is passed on to the command, to read its settings anew or the like, does not end it before
/// it has begun. The command itself finds these signals as if nothing had been done about them.
fn outlive_signals() -> io::Result<()> {
    let runtime = runtime("the command could not be started")?;
    let _entered = runtime.enter();
    for kind in [
        SignalKind::hangup(),
        SignalKind::quit(),
        SignalKind::user_defined1(),
        SignalKind::user_defined2(),
    ] {
        let _handled = signal(kind)?;
    }
    Ok(())
}
