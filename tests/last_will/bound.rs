//! Processes that a handler starts, and that end with its process.

use std::io::PipeWriter;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::clock::Stamp;
use crate::notes::{Notes, PACE};

const ACTS: &str = "NATS_ELECT_TEST_BOUND";

/// The way in which such a process learns of the end of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bond {
    /// The kernel kills it.
    #[cfg(target_os = "linux")]
    Signal,
    /// It looks, before each act, whether its parent still holds the other end of a pipe.
    Pipe,
}

/// The process, as its parent sees it. It ends when this is dropped.
pub struct Bound {
    child: Child,
    _pipe: PipeWriter,
}

impl Bond {
    #[cfg(target_os = "linux")]
    pub const ALL: [Self; 2] = [Self::Signal, Self::Pipe];
    #[cfg(not(target_os = "linux"))]
    pub const ALL: [Self; 1] = [Self::Pipe];

    /// Where it notes its acts, beside those of the handler.
    pub fn acts(self, of_handler: &Path) -> PathBuf {
        of_handler.with_extension(format!("{self:?}"))
    }

    pub fn begin(self, of_handler: &Path) -> Bound {
        let (theirs, pipe) = std::io::pipe().expect("a pipe");
        let child = Command::new(std::env::current_exe().expect("this program"))
            .env(ACTS, self.acts(of_handler))
            .stdin(theirs)
            .stdout(Stdio::null())
            .spawn()
            .expect("a process");
        Bound { child, _pipe: pipe }
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn is_one() -> bool {
    std::env::var_os(ACTS).is_some()
}

/// The process itself.
pub fn run() {
    let acts = PathBuf::from(std::env::var_os(ACTS).expect("where to note"));
    #[cfg(target_os = "linux")]
    if acts == Bond::Signal.acts(&acts) {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).expect("a bond");
    }
    let notes = Notes::at(&acts);
    let by_pipe = acts == Bond::Pipe.acts(&acts);
    while !by_pipe || is_held() {
        notes.write(Stamp::now());
        thread::sleep(PACE);
    }
}

/// Whether the parent holds the other end of the pipe.
fn is_held() -> bool {
    let stdin = std::io::stdin();
    let mut ends = [PollFd::new(&stdin, PollFlags::IN)];
    let at_once = Timespec::default();
    poll(&mut ends, Some(&at_once)).expect("a look");
    !ends[0].revents().contains(PollFlags::HUP)
}
