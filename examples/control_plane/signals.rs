//! What asks this process to end.

use std::io::{self, Read};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Ctrl-C, `SIGTERM`, and the end of the terminal.
pub struct EndRequests {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl EndRequests {
    /// From now on these signals no longer end the process by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for one.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// Resolves at the end of standard input: the process that held its other end is gone, however it ended.
pub async fn parent_gone() {
    let (gone, wait) = oneshot::channel::<()>();
    // A thread of its own: tokio would wait for its blocking read at the end of the runtime.
    std::thread::spawn(move || {
        let mut input = io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|read| read > 0) {}
        drop(gone);
    });
    let _ = wait.await;
}
