//! The reader of stdout.

use std::future::Future;
#[cfg(unix)]
use std::{io, time::Duration};

/// Waits until stdout has no reader any more. A command that writes nothing for long would not
/// notice.
#[cfg(unix)]
pub fn unread() -> impl Future<Output = ()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    const LOOK: Duration = Duration::from_millis(250);

    let is_read = || {
        let stdout = io::stdout();
        let mut of = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let gone = PollFlags::ERR | PollFlags::HUP;
        poll(&mut of, Some(&at_once)).is_err() || !of[0].revents().intersects(gone)
    };
    async move {
        while is_read() {
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[cfg(not(unix))]
pub fn unread() -> impl Future<Output = ()> {
    std::future::pending()
}
