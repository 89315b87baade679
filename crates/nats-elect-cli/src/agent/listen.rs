//! Connections: on a Unix socket, or on loopback.

use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use axum::{Extension, Router};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use nats_elect::health::connections;
use rustix::event::PollFlags;
use rustix::fs::Mode;
use rustix::process::umask;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::either::Either;
use tokio_util::sync::CancellationToken;

use super::api::OverConnection;
use super::application::Gone;
use crate::reading::other_end;

/// The number of connections at once. More connections wait.
const MOST_CONNECTIONS: usize = 256;
/// The time that a client has to send the head of a request, and to send the next one: longer than
/// the time between two promises.
const PATIENCE: Duration = Duration::from_secs(15);

/// Where the agent listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Loopback(SocketAddr),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(path.into()));
        }
        let address: SocketAddr = text.parse().map_err(|_| {
            "it must be unix:PATH, or an address of this machine such as 127.0.0.1:8500".to_owned()
        })?;
        // Requests and the token are sent in the clear.
        if !address.ip().is_loopback() {
            return Err(format!(
                "{address} is not on loopback: applications must run on the agent's machine"
            ));
        }
        Ok(Self::Loopback(address))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Loopback(address) => write!(f, "{address}"),
        }
    }
}

/// A socket that is listened on. The file of a Unix socket is removed at the end.
pub enum Listener {
    Unix(UnixListener, PathBuf),
    Loopback(TcpListener),
}

impl Listener {
    /// # Errors
    /// If the address is in use, or can't be had.
    pub async fn bind(address: &Address, mode: u32) -> io::Result<Self> {
        match address {
            Address::Loopback(address) => Ok(Self::Loopback(TcpListener::bind(address).await?)),
            Address::Unix(path) => {
                let is_socket = |it: fs::Metadata| it.file_type().is_socket();
                if fs::symlink_metadata(path).is_ok_and(is_socket) {
                    if UnixStream::connect(path).await.is_ok() {
                        return Err(io::ErrorKind::AddrInUse.into());
                    }
                    // Left behind by a process that was killed.
                    fs::remove_file(path)?;
                }
                // So that the socket is never open to others, not even for a moment.
                let before = umask(Mode::from_raw_mode(!mode & 0o777));
                let listener = UnixListener::bind(path);
                umask(before);
                let listener = Self::Unix(listener?, path.clone());
                fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
                Ok(listener)
            }
        }
    }

    /// The address, with the actual port.
    pub fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Self::Unix(_, path) => Address::Unix(path.clone()),
            Self::Loopback(listener) => Address::Loopback(listener.local_addr()?),
        })
    }

    async fn accept(&self) -> io::Result<Connection> {
        let connection = match self {
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let end = stream.as_fd().try_clone_to_owned()?;
                Connection(Either::Left(stream), Some(end))
            }
            Self::Loopback(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Connection(Either::Right(stream), None)
            }
        };
        Ok(connection)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

/// A connection. That of a Unix socket has a second handle, which outlives the server's use of the
/// first: the kernel tells by it whether the other end is closed.
struct Connection(Either<UnixStream, TcpStream>, Option<OwnedFd>);

/// Serves connections until `end`. Those that are open then go on.
pub async fn serve(listener: Listener, router: Router, end: CancellationToken) {
    let conversed = |connection| converse(connection, router.clone());
    let accepting = connections::serve(MOST_CONNECTIONS, || listener.accept(), conversed);
    end.run_until_cancelled(accepting).await;
}

/// Serves one connection. Afterwards the application that stood for a role over it has gone.
async fn converse(Connection(stream, end): Connection, router: Router) {
    let over = OverConnection::default();
    let _ended = Ended(over.clone(), end);
    let service = TowerToHyperService::new(router.layer(Extension(over)));
    let served = connections::http(PATIENCE).serve_connection(TokioIo::new(stream), service);
    // The server closes nothing: while the stream is open, the kernel can be asked about its other
    // end.
    if let Err(error) = served.without_shutdown().await {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Lets go of the applications of a connection when its task ends, also if it panics.
struct Ended(OverConnection, Option<OwnedFd>);

impl Drop for Ended {
    fn drop(&mut self) {
        let how = match &self.1 {
            Some(end) if is_closed(end) => Gone::Closed,
            _ => Gone::Unproven,
        };
        for application in self.0.take() {
            tracing::debug!(role = application.role, ?how, "the application has gone");
            application.has_gone(how);
        }
    }
}

/// Returns whether no process has the other end of a Unix socket any more, or one of them has shut it
/// down in both directions. The end of the data does not say so: a client may close its sending
/// direction alone, and read on.
///
/// Nothing proves this of a TCP connection. Others than its client end it too, and the client still
/// acts on its promise: `ss -K`, a firewall, a proxy.
fn is_closed(end: &OwnedFd) -> bool {
    other_end(end).contains(PollFlags::HUP)
}
