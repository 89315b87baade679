//! The other ends of streams.

use std::future::Future;
#[cfg(unix)]
use std::{io, os::fd::AsFd, time::Duration};

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The other end of a stream, as the kernel knows it.
#[cfg(unix)]
pub fn other_end(of: &impl AsFd) -> PollFlags {
    let mut polled = [PollFd::new(of, PollFlags::empty())];
    match poll(&mut polled, Some(&Timespec::default())) {
        Ok(_) => polled[0].revents(),
        Err(_) => PollFlags::empty(),
    }
}

/// Waits until stdout has no reader any more. A command that writes nothing for long would not
/// notice.
#[cfg(unix)]
pub fn unread() -> impl Future<Output = ()> {
    const LOOK: Duration = Duration::from_millis(250);

    async {
        while !other_end(&io::stdout()).intersects(PollFlags::ERR | PollFlags::HUP) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(not(unix))]
pub fn unread() -> impl Future<Output = ()> {
    std::future::pending()
}
