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
        let hang_up = if io::stdin().is_terminal() {
            Asked::Stop(Signal::HUP)
        } else {
            Asked::PassOn(Signal::HUP)
        };
        [
            (Asked::Stop(Signal::TERM), SignalKind::terminate()),
            (Asked::Stop(Signal::INT), SignalKind::interrupt()),
            (hang_up, SignalKind::hangup()),
            (Asked::PassOn(Signal::QUIT), SignalKind::quit()),
            (Asked::PassOn(Signal::USR1), SignalKind::user_defined1()),
            (Asked::PassOn(Signal::USR2), SignalKind::user_defined2()),
            (Asked::PassOn(Signal::WINCH), SignalKind::window_change()),
        ]
        .into_iter()
        .map(|(asked, kind)| Ok((asked, signal(kind)?)))
        .collect::<io::Result<_>>()
        .map(Self)
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
