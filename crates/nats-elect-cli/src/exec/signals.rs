//! What is sent to `exec` while its command runs.

use std::future::poll_fn;
use std::io::{self, IsTerminal};
use std::task::Poll;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Signals by their names.
pub const SIGNALS: [(&str, Signal); 8] = [
    ("TERM", Signal::TERM),
    ("INT", Signal::INT),
    ("QUIT", Signal::QUIT),
    ("HUP", Signal::HUP),
    ("USR1", Signal::USR1),
    ("USR2", Signal::USR2),
    ("WINCH", Signal::WINCH),
    ("KILL", Signal::KILL),
];

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Stop: end the command, free the role, go.
    Stop(Signal),
    /// Pass it on to the command.
    PassOn(Signal),
}

/// The signals that `exec` handles.
pub struct Signals(Vec<(Asked, Stream)>);

impl Signals {
    pub fn new() -> io::Result<Self> {
        // What a terminal sends when it is closed; without one it is a word for the command, to
        // read its settings anew.
        let hang_up_stops = io::stdin().is_terminal();
        let handled = SIGNALS.into_iter().filter(|(name, _)| *name != "KILL");
        let listened = handled.map(|(name, it)| {
            let asked = match name {
                "TERM" | "INT" => Asked::Stop(it),
                "HUP" if hang_up_stops => Asked::Stop(it),
                _ => Asked::PassOn(it),
            };
            Ok((asked, signal(SignalKind::from_raw(it.as_raw()))?))
        });
        listened.collect::<io::Result<_>>().map(Self)
    }

    /// The next one. Nothing is lost by dropping the future.
    pub async fn next(&mut self) -> Asked {
        poll_fn(|context| {
            for (asked, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*asked);
                }
            }
            Poll::Pending
        })
        .await
    }
}
