//! The proof that the parent process is dead.
//!
//! A pidfd becomes readable when all threads of the process have ended: `pidfd_open(2)`, and
//! `pidfd_poll` in the kernel ("Inform pollers only when the whole thread group exits"). No thread
//! runs a handler then. A stopped process has not ended.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, getppid};

/// The time between two looks for another parent.
const LOOK: Duration = Duration::from_millis(1);

/// The process whose death is awaited.
pub(super) enum Parent {
    #[cfg(target_os = "linux")]
    Pidfd(OwnedFd),
    /// There is no pidfd. The system gives a process another parent when its parent has died.
    Pid(Pid),
}

impl Parent {
    /// Returns the parent, if it is still the process with this id.
    pub fn of_id(id: u32) -> io::Result<Self> {
        let wanted = i32::try_from(id).ok().and_then(Pid::from_raw);
        let gone = || io::Error::other("the process that started this one is not its parent");
        let pid = wanted.filter(|_| getppid() == wanted).ok_or_else(gone)?;
        #[cfg(target_os = "linux")]
        if let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
            // While it is the parent, its id belongs to no other process. So the pidfd is its own.
            return if getppid() == wanted {
                Ok(Self::Pidfd(pidfd))
            } else {
                Err(gone())
            };
        }
        Ok(Self::Pid(pid))
    }

    /// Waits until the parent is dead. `silent` returns when the parent has closed the pipe, which
    /// it may do while it lives.
    pub fn await_death(&self, silent: impl FnOnce()) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Pidfd(pidfd) => {
                use rustix::event::{PollFd, PollFlags, poll};
                loop {
                    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                    match poll(&mut fds, None) {
                        Ok(_) if fds[0].revents().contains(PollFlags::IN) => return Ok(()),
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Self::Pid(pid) => {
                silent();
                while getppid() == Some(*pid) {
                    thread::sleep(LOOK);
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_parent_is_watched() {
        let parent = getppid().expect("a parent").as_raw_nonzero().get();
        assert!(Parent::of_id(u32::try_from(parent).unwrap()).is_ok());
        for other in [0, 1, std::process::id(), u32::MAX] {
            let found = Parent::of_id(other);
            assert!(other == u32::try_from(parent).unwrap() || found.is_err());
        }
    }
}
