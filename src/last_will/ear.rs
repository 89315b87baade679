//! The companion's ear: all that the parent tells, and then that it is dead.
//!
//! One thread hears both, in their order. Each message that the parent wrote before its death is in
//! the pipe when the death is known, so none is lost, however busy the machine is.
//!
//! The death has two signs, and both are needed: the kernel's word on the process, and closed pipes.
//! A process that lives may have closed them, as where it became another program. And a fork of a
//! dead one holds them, and may go on with its handlers. So one of the pipes is the same for all
//! companions of a process: the fork may be older than this companion.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::process::getppid;

use super::death::Parent;
use super::told::ToCompanion;

/// The time between two looks for another parent.
const LOOK: Duration = Duration::from_millis(1);

/// What is heard.
pub(super) enum Heard {
    Told(ToCompanion),
    /// One of the two signs of the death. The other may never come.
    Sign,
    /// The parent is dead, and has told all.
    Death,
}

/// The ends of the pipes that the parent holds.
pub(super) struct Ear {
    pipe: OwnedFd,
    /// Nothing is written to it. All companions of the parent have the same.
    life: OwnedFd,
    unread: Vec<u8>,
    is_open: bool,
}

impl Ear {
    pub fn at(pipe: OwnedFd, life: OwnedFd) -> Self {
        Self {
            pipe,
            life,
            unread: Vec::new(),
            is_open: true,
        }
    }

    /// Waits for one message. `None` if there is none, or it can't be read.
    pub fn hear(&mut self) -> Option<ToCompanion> {
        loop {
            if let Some(line) = self.line() {
                return serde_json::from_slice(&line).ok();
            }
            if !self.is_open {
                return None;
            }
            self.read(RecvFlags::empty()).ok()?;
        }
    }

    /// Passes on all that the parent tells, until it is dead and nobody holds the pipes.
    ///
    /// # Errors
    /// Returns an error if the death can't be known. It may live on then.
    pub fn listen(mut self, parent: &Parent, mut tell: impl FnMut(Heard)) -> io::Result<()> {
        let (mut is_dead, mut is_signed) = (false, false);
        loop {
            while let Some(line) = self.line() {
                if let Ok(message) = serde_json::from_slice(&line) {
                    tell(Heard::Told(message));
                }
            }
            if self.is_open && self.read(RecvFlags::DONTWAIT)? {
                continue;
            }
            if (is_dead || !self.is_open) && !is_signed {
                is_signed = true;
                tell(Heard::Sign);
            }
            if is_dead && !self.is_open {
                break;
            }
            if is_dead {
                await_any(&self.pipe)?;
            } else {
                is_dead = self.wait(parent)?;
            }
        }
        while !await_any(&self.life)?.contains(PollFlags::HUP) {}
        tell(Heard::Death);
        Ok(())
    }

    /// Waits for something to read, or for the death. Returns whether the parent is dead.
    fn wait(&self, parent: &Parent) -> io::Result<bool> {
        let pipe = PollFd::new(&self.pipe, PollFlags::IN);
        let awaited = match parent {
            #[cfg(target_os = "linux")]
            Parent::Pidfd(pidfd) => {
                let death = PollFd::new(pidfd, PollFlags::IN);
                let mut either = [death, pipe];
                let awaited = if self.is_open { 2 } else { 1 };
                let awaited = poll(&mut either[..awaited], None);
                awaited.map(|_| either[0].revents().contains(PollFlags::IN))
            }
            Parent::Pid(_) if self.is_open => return await_any(&self.pipe).map(|_| false),
            Parent::Pid(pid) => {
                while getppid() == Some(*pid) {
                    thread::sleep(LOOK);
                }
                Ok(true)
            }
        };
        match awaited {
            Err(Errno::INTR) => Ok(false),
            awaited => Ok(awaited?),
        }
    }

    /// Returns whether something was read, and notes where the parent has closed the pipe.
    fn read(&mut self, flags: RecvFlags) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        match recv(&self.pipe, &mut bytes, flags) {
            Ok((read, _)) if read > 0 => {
                self.unread.extend(&bytes[..read]);
                Ok(true)
            }
            Err(Errno::INTR) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Ok(_) | Err(Errno::CONNRESET) => {
                self.is_open = false;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes a line that is complete.
    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.unread.iter().position(|byte| *byte == b'\n')?;
        let rest = self.unread.split_off(end + 1);
        Some(std::mem::replace(&mut self.unread, rest))
    }
}

/// Waits until something happens to the file.
fn await_any(file: &OwnedFd) -> io::Result<PollFlags> {
    let mut awaited = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut awaited, None) {
        Ok(_) => Ok(awaited[0].revents()),
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc;

    use super::*;
    use crate::last_will::told::line_of;
    use crate::model::bequests::Lease;

    fn forget(role: &str) -> String {
        let role = role.parse().expect("a name");
        line_of(&ToCompanion::Forget(Lease::Role(role)))
    }

    fn is_of(told: &ToCompanion, name: &str) -> bool {
        matches!(told, ToCompanion::Forget(Lease::Role(role)) if role.as_str() == name)
    }

    #[test]
    fn messages_are_heard_one_by_one_in_whatever_pieces_they_come() {
        let (mut parent, theirs) = UnixStream::pair().expect("a pair");
        let (life, _held) = io::pipe().expect("a pipe");
        let mut ear = Ear::at(theirs.into(), life.into());
        let both = [forget("a"), " ".repeat(9000), forget("b")].concat();
        let (begin, end) = both.split_at(5000);
        parent.write_all(begin.as_bytes()).expect("room");
        assert!(ear.hear().is_some_and(|told| is_of(&told, "a")));
        parent.write_all(end.as_bytes()).expect("room");
        assert!(ear.hear().is_some_and(|told| is_of(&told, "b")));
        drop(parent);
        assert!(ear.hear().is_none());
    }

    #[test]
    fn a_closed_pipe_is_no_death() {
        let (mut pipe, theirs) = UnixStream::pair().expect("a pair");
        let (life, held) = io::pipe().expect("a pipe");
        let parent = Parent::own().expect("a parent");
        let (tell, told) = mpsc::channel();
        pipe.write_all(
            [forget("a"), "garbage\n".into(), forget("b")]
                .concat()
                .as_bytes(),
        )
        .expect("room");
        drop((pipe, held));
        thread::spawn(move || {
            let ear = Ear::at(theirs.into(), life.into());
            let heard = ear.listen(&parent, |it| tell.send(it).expect("a test"));
            unreachable!("the parent of this test lives: {heard:?}");
        });
        for expected in ["a", "b"] {
            let heard = told.recv().expect("a message");
            assert!(matches!(heard, Heard::Told(told) if is_of(&told, expected)));
        }
        assert!(matches!(told.recv().expect("a sign"), Heard::Sign));
        let more = told.recv_timeout(Duration::from_millis(50));
        assert!(matches!(more, Err(mpsc::RecvTimeoutError::Timeout)));
    }
}
