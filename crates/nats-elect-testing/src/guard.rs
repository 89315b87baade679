//! A server must not outlive the test process, even if that process is killed without warning.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::TestingError;

/// Reads the pid to watch from its input. The end of that input means that the parent is gone.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
pid=
while read -r line; do pid=$line; done
[ -n "$pid" ] && kill -9 "$pid" 2>/dev/null
rm -rf -- "$1" 2>/dev/null || { sleep 1; rm -rf -- "$1"; }
"#;

/// A shell that kills the watched server and removes its folder once the pipe from this process
/// closes.
///
/// Linux's parent-death signal would be shorter, but it follows the *thread* that started the
/// child, and tests run on threads that end.
#[derive(Debug)]
pub(super) struct Guard {
    shell: Child,
}

impl Guard {
    pub(super) fn start(folder: &Path) -> Result<Self, TestingError> {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "nats-server-guard"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // The guard must be out of reach of Ctrl-C and of test runners that kill the whole
            // group.
            .process_group(0)
            .spawn()
            .map_err(TestingError::io(
                "cannot start the shell that guards a server",
            ))?;
        Ok(Self { shell })
    }

    /// Makes the process `pid` die with this one from now on.
    pub(super) fn watch(&mut self, pid: u32) -> Result<(), TestingError> {
        self.tell(&pid.to_string()).map_err(TestingError::io(
            "cannot reach the shell that guards a server",
        ))
    }

    /// Ends the watch. Call it before the process is reaped. Afterwards its pid may belong to
    /// another process.
    pub(super) fn forget(&mut self) {
        // A guard that is gone kills nothing.
        let _ = self.tell("");
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        match &mut self.shell.stdin {
            Some(pipe) => writeln!(pipe, "{line}"),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}
