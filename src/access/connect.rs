//! A plain client from a configuration.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr};
use futures::future::BoxFuture;

use super::resolved;
use crate::actors::{Target, lasting, problem};
use crate::error::Error;
use crate::model::config::ManagerConfig;

impl ManagerConfig {
    /// Connects as this configuration says. Use it for programs that need the client for other
    /// things than elections as well. A [`RoleManager`](crate::RoleManager) makes its own
    /// connection and does not need it.
    ///
    /// `name` is the connection's name in the server's monitoring. The method makes one attempt at
    /// each server, within [`start_timeout`](Self::start_timeout). If the connection is lost later,
    /// the client connects again.
    ///
    /// # Errors
    /// Returns an error before anything connects if a setting breaks a rule or a file can't be
    /// used. Returns an error if NATS refuses the credentials, or if either side refuses the
    /// other's certificates. Returns [`Error::Unavailable`] for any other cause that prevented the
    /// connection.
    ///
    /// # Cancel safety
    /// If the future is dropped, no connection is left.
    pub async fn connect(&self, name: &str) -> Result<Client, Error> {
        self.connect_with(name, |options| options).await
    }

    /// Does the same as [`connect`](Self::connect), with changes to the options of the connection.
    ///
    /// `adjust` gets the options as this configuration sets them. It can, for example, set a
    /// callback for the events of the connection. Without one nobody hears of them, and the server
    /// reports a missing permission in no other way: [`Denied`](crate::Denied) reads it.
    ///
    /// ```no_run
    /// use nats_elect::ManagerConfig;
    ///
    /// # async fn run() -> Result<(), nats_elect::Error> {
    /// let client = ManagerConfig::default()
    ///     .connect_with("reports", |options| {
    ///         options.event_callback(|event| async move { eprintln!("NATS: {event}") })
    ///     })
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The same as `connect`.
    ///
    /// # Cancel safety
    /// If the future is dropped, no connection is left.
    pub async fn connect_with(
        &self,
        name: &str,
        adjust: impl FnOnce(ConnectOptions) -> ConnectOptions,
    ) -> Result<Client, Error> {
        self.validate()?;
        let own = resolved(self.clone(), None).await?;
        let target = own.target();
        let options = adjust(
            own.options
                .name(name)
                .event_callback(|_| std::future::ready(()))
                .connection_timeout(self.start_timeout)
                .max_reconnects(None),
        );
        attempt(options, own.servers, target, self.start_timeout).await
    }
}

/// Connects, in one attempt at each server. Compiled here, and not in each program.
fn attempt(
    options: ConnectOptions,
    servers: Vec<ServerAddr>,
    target: Target,
    within: Duration,
) -> BoxFuture<'static, Result<Client, Error>> {
    Box::pin(async move {
        let unavailable = |reason| Error::Unavailable {
            after: within,
            reason,
        };
        match tokio::time::timeout(within, options.connect(servers)).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(match lasting(&error, &target) {
                Some(failure) => failure,
                None => unavailable(problem(&error)),
            }),
            Err(_) => Err(unavailable("no connection to NATS: no answer".into())),
        }
    })
}
