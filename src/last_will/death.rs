//! The proof that the parent process is dead.
//!
//! A pidfd becomes readable when all threads of the process have ended: `pidfd_open(2)`, and
//! `pidfd_poll` in the kernel ("Inform pollers only when the whole thread group exits"). No thread
//! runs a handler then. A stopped process has not ended.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;

use rustix::process::{Pid, getppid};

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

    #[cfg(test)]
    pub fn own() -> io::Result<Self> {
        let id = getppid().and_then(|it| u32::try_from(it.as_raw_nonzero().get()).ok());
        Self::of_id(id.unwrap_or(0))
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
