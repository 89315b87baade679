//! Starting further processes of this program.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// A process of this very program, in a process group of its own: what a terminal or a supervisor
/// sends to the group of `exec` is for `exec` alone.
pub fn this_program(subcommand: &[&str], command: &[impl AsRef<OsStr>]) -> io::Result<Command> {
    let mut process = Command::new(program()?);
    process
        .arg0("nats-elect")
        .args(subcommand)
        .arg("--")
        .args(command)
        .process_group(0);
    Ok(process)
}

/// On Linux also what was replaced on disk meanwhile: both sides of a socket must be of one
/// version.
fn program() -> io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() {
        return Ok(running);
    }
    std::env::current_exe()
}
