//! Further processes of this program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Pid;

use super::{guard, starter};
use crate::exit::Outcome;

/// Runs this process if it is one that `this_program` started. Its words are what it is, the number of
/// the process that started it, and for a guard what to tell a companion.
pub fn inner() -> Option<Outcome> {
    let words: Vec<OsString> = env::args_os().skip(1).collect();
    let end = words.iter().position(|word| word == "--")?;
    let (ours, command) = (&words[..end], &words[end + 1..]);
    let ours: Vec<_> = ours
        .iter()
        .map(|word| word.to_str())
        .collect::<Option<_>>()?;
    let parent = |number: &str| Pid::from_raw(number.parse().ok()?);
    Some(match ours[..] {
        ["exec-guard", exec, ref tell_end @ ..] => {
            guard::guard(command, parent(exec)?, tell_end.first().copied())
        }
        ["exec-starter", guard] => starter::become_command(command, parent(guard)?),
        _ => return None,
    })
}

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
    env::current_exe()
}
