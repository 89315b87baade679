//! The origin of the connection, and its settings for leases.

use std::error::Error as _;
use std::io;
use std::time::Duration;

use async_nats::rustls;
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, ServerAddr};

use crate::backoff::Backoff;
use crate::error::Error;

/// The pause between attempts to reconnect.
const RECONNECT: Backoff = Backoff::new(Duration::from_millis(20), Duration::from_secs(1));

/// The origin of the connection.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "made once per manager")]
pub(crate) enum Connection {
    /// A client that the caller created and keeps.
    Given(Client),
    /// A client of our own.
    Own(Own),
}

/// What a client of our own connects to, and how.
#[derive(Clone)]
pub(crate) struct Own {
    pub servers: Vec<ServerAddr>,
    /// The identity that is shown to the servers, in words.
    pub login: Option<String>,
    pub options: ConnectOptions,
}

/// The servers to connect to, and the identity that they are shown, for people.
#[derive(Clone, Debug, Default)]
pub(crate) struct Target {
    pub addresses: Option<String>,
    pub login: Option<String>,
}

impl Connection {
    pub fn target(&self) -> Target {
        match self {
            Self::Given(_) => Target::default(),
            Self::Own(own) => own.target(),
        }
    }
}

impl Own {
    pub fn target(&self) -> Target {
        let address = |server: &ServerAddr| format!("{}:{}", server.host(), server.port());
        let addresses: Vec<_> = self.servers.iter().map(address).collect();
        Target {
            addresses: Some(addresses.join(", ")),
            login: self.login.clone(),
        }
    }
}

/// Returns the problem of a connection that could not be made, if the problem does not pass by
/// itself.
pub(crate) fn lasting(error: &ConnectError, target: &Target) -> Option<Error> {
    match error.kind() {
        kind @ (ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation) => {
            let of = target.login.as_ref().map(|login| format!(" of {login}"));
            let of = of.as_deref().unwrap_or_default();
            let at = target.addresses.as_deref().unwrap_or("the server");
            Some(Error::Authentication(format!(
                "NATS refused the credentials{of} at {at} ({kind}): check user, password, token, nkey or creds file"
            )))
        }
        ConnectErrorKind::Tls => Some(Error::Tls(format!(
            "TLS could not be set up ({error}): check the files of `tls`, and the server's address"
        ))),
        _ => tls_refusal(error).map(Error::Tls),
    }
}

/// Returns the reason of a failed handshake, in words, if one side refused the other.
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

/// Describes the problem of a connection that may still be made.
pub(crate) fn problem(error: &ConnectError) -> String {
    let text = error.to_string();
    // The client has no error kind for a server that does not greet.
    let silent = error.kind() == ConnectErrorKind::TimedOut || text.contains("expected INFO");
    let hint = if silent {
        "; a server that wants TLS before its greeting keeps silent like this (`tls.first`)"
    } else {
        ""
    };
    format!("no connection to NATS: {text}{hint}")
}

/// Adds our name and the settings for leases to a caller's connection options.
pub(crate) fn tuned(options: ConnectOptions, instance_id: &str) -> ConnectOptions {
    options
        .name(format!("nats-elect {instance_id}"))
        // An instance that gives up on NATS never leads again.
        .max_reconnects(None)
        // A black-holed connection is given up after two missed pings. The default would take four
        // minutes.
        .ping_interval(Duration::from_secs(2))
        // A dead server among several must not cost the lease. Greeting and login take one and a
        // half round trips. A round trip of more than 1.3 s is too slow to connect.
        .connection_timeout(Duration::from_secs(2))
        .reconnect_delay_callback(|attempts| {
            let before = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
            RECONNECT.spread_after(before)
        })
}
