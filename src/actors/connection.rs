//! Where the connection comes from, and how it is set up for leases.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr};
use thiserror::Error;

use crate::store::StoreError;

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
    Unavailable(String),
    #[error(transparent)]
    Bucket(StoreError),
}

/// What we add to a caller's connection options: our name, and settings fit for leases.
pub(crate) fn tuned(options: ConnectOptions, instance_id: &str) -> ConnectOptions {
    options
        .name(format!("nats-elect {instance_id}"))
        // Whoever gives up on NATS never leads again.
        .max_reconnects(None)
        // A black-holed connection is given up after two missed pings; the default would take four minutes.
        .ping_interval(Duration::from_secs(2))
        .connection_timeout(Duration::from_secs(2))
        .reconnect_delay_callback(|attempts| {
            let exponent = u32::try_from(attempts.saturating_sub(1))
                .unwrap_or(u32::MAX)
                .min(6);
            let most = Duration::from_millis(20)
                .saturating_mul(1 << exponent)
                .min(Duration::from_secs(1));
            // Spread out: after an outage every instance of every fleet comes back at once.
            most.mul_f64(rand::random_range(0.5..1.0))
        })
}
