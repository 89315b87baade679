//! Where the connection comes from, and how it is set up for leases.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use async_nats::rustls;
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr};
use thiserror::Error;

use crate::backoff::Backoff;
use crate::store::StoreError;

/// Between attempts to reconnect.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// Where the connection comes from.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "made once per manager")]
pub(crate) enum Connection {
    /// A client that the caller made and keeps.
    Given(Client),
    /// One of our own.
    Own {
        servers: Vec<ServerAddr>,
        options: ConnectOptions,
    },
}

/// Why a manager could not start.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum StartFailure {
    #[error("{0}")]
    Authentication(String),
    #[error("{0}")]
    Tls(String),
    #[error("{0}")]
    Unavailable(String),
    #[error(transparent)]
    Bucket(StoreError),
}

/// What is wrong with a connection that could not be made, if it does not pass by itself.
pub(crate) fn lasting(error: &ConnectError) -> Option<StartFailure> {
    match error.kind() {
        ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
            Some(StartFailure::Authentication(format!(
                "NATS refused the credentials ({error}): check user, password, token, nkey or creds file"
            )))
        }
        ConnectErrorKind::Tls => Some(StartFailure::Tls(format!(
            "TLS could not be set up ({error}): check the files of `tls`, and the server's address"
        ))),
        _ => tls_refusal(error).map(StartFailure::Tls),
    }
}

/// What ended a handshake, in words, if it was for one side to refuse the other.
fn tls_refusal(error: &ConnectError) -> Option<String> {
    let error = error.source()?.downcast_ref::<io::Error>()?.get_ref()?;
    let error = error.downcast_ref::<rustls::Error>()?;
    let advice = match error {
        rustls::Error::InvalidCertificate(_) => {
            "the server's certificate is refused here: check `tls.ca_file`, and that the certificate names the host of the server's address"
        }
        rustls::Error::AlertReceived(_) => {
            "the server refuses this client: check `tls.cert_file` and `tls.key_file`"
        }
        rustls::Error::InvalidMessage(_) => {
            "the server does not answer with TLS: it has none, or it wants it after its greeting only (`tls.first`)"
        }
        _ => return None,
    };
    Some(format!("TLS failed ({error}): {advice}"))
}

/// What can be said about a connection that may yet be made.
pub(crate) fn problem(error: &ConnectError) -> String {
    let text = error.to_string();
    // The client has no kind for a server that does not greet.
    let silent = error.kind() == ConnectErrorKind::TimedOut || text.contains("expected INFO");
    let hint = if silent {
        "; a server that wants TLS before its greeting keeps silent like this (`tls.first`)"
    } else {
        ""
    };
    format!("no connection to NATS: {text}{hint}")
}

/// What we add to a caller's connection options: our name, and settings fit for leases.
pub(crate) fn tuned(options: ConnectOptions, instance_id: &str) -> ConnectOptions {
    options
        .name(format!("nats-elect {instance_id}"))
        // Whoever gives up on NATS never leads again.
        .max_reconnects(None)
        // A black-holed connection is given up after two missed pings; the default would take four minutes.
        .ping_interval(Duration::from_secs(2))
        // Of several servers a dead one must not cost the lease. Greeting and login take a round trip and a half: more than 1.3 s is
        // too slow to connect.
        .connection_timeout(Duration::from_secs(2))
        .reconnect_delay_callback(|attempts| {
            let before = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
            RECONNECT.spread_after(before)
        })
}
