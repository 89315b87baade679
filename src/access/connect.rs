//! From a configuration to a plain client.

use async_nats::{Client, Event};

use super::resolved;
use crate::actors::{lasting, problem};
use crate::error::Error;
use crate::model::config::ManagerConfig;

impl ManagerConfig {
    /// Connects as this configuration says, for programs that use the client for more than elections, or for other things. A
    /// [`RoleManager`](crate::RoleManager) makes its own connection and needs none of it.
    ///
    /// `name` is the connection's name in the server's monitoring. One attempt is made at each server, within
    /// [`start_timeout`](Self::start_timeout); what is lost later is made anew by the client.
    ///
    /// # Errors
    /// A setting that breaks a rule or a file that can't be used, before anything connects; credentials that NATS refuses,
    /// certificates that either side refuses; [`Error::Unavailable`] for anything else that kept it from connecting.
    ///
    /// # Cancel safety
    /// If the future is dropped, no connection is left.
    pub async fn connect(&self, name: &str) -> Result<Client, Error> {
        self.connect_hearing(name, |_| {}).await
    }

    /// As [`connect`](Self::connect), and hands on what happens to the connection: the server tells of a missing permission
    /// in no other way. `heard` is called on the runtime of the caller and must not block.
    ///
    /// # Errors
    /// As `connect`.
    ///
    /// # Cancel safety
    /// If the future is dropped, no connection is left.
    pub async fn connect_hearing(
        &self,
        name: &str,
        heard: impl Fn(Event) + Send + Sync + 'static,
    ) -> Result<Client, Error> {
        self.validate()?;
        let (servers, options) = resolved(self.clone(), None).await?;
        let options = options
            .name(name)
            .event_callback(move |event| {
                heard(event);
                std::future::ready(())
            })
            .connection_timeout(self.start_timeout)
            .max_reconnects(None);
        let unavailable = |reason| Error::Unavailable {
            after: self.start_timeout,
            reason,
        };
        match tokio::time::timeout(self.start_timeout, options.connect(servers)).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(match lasting(&error) {
                Some(failure) => Error::of_start(failure, self.start_timeout),
                None => unavailable(problem(&error)),
            }),
            Err(_) => Err(unavailable("no connection to NATS: no answer".into())),
        }
    }
}
