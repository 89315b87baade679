//! The connection to NATS of all builders: its settings, and the connection that follows from them.

mod connect;
mod identity;
mod options;
mod settings;

use async_nats::{Client, ConnectOptions, ServerAddr};

use crate::actors::{Connection, Own, tuned};
use crate::error::Error;
use crate::model::config::{ConfigError, Environment, ManagerConfig};

pub(crate) use self::settings::config_setters;

/// The connection settings that were made, in the order of the calls.
#[derive(Default)]
pub(crate) struct Access {
    pub config: ManagerConfig,
    /// The environment. Empty until it was asked for.
    pub environment: Environment,
    /// The first problem with the environment.
    pub unreadable: Option<ConfigError>,
    pub options: Option<ConnectOptions>,
    pub client: Option<Client>,
}

impl Access {
    /// Takes settings from the environment.
    pub fn take_environment(&mut self) {
        let environment = Environment::read();
        match self.config.clone().overridden(&environment) {
            Ok((config, _)) => self.config = config,
            Err(error) => self.unreadable = self.unreadable.take().or(Some(error)),
        }
        self.environment = environment;
    }

    /// Checks every rule. The resulting settings are in `config`.
    pub fn settle(&mut self) -> Result<(), Error> {
        if let Some(error) = self.unreadable.take() {
            return Err(error.into());
        }
        Ok(self.config.validate()?)
    }

    /// Whether the connection, or a part of its options, comes from the caller's own code.
    pub const fn is_foreign(&self) -> bool {
        self.client.is_some() || self.options.is_some()
    }

    /// Returns the connection under this name, by the settings that were settled.
    pub async fn connection(self, name: &str) -> Result<Connection, Error> {
        if let Some(client) = self.client {
            options::nothing_said(&self.config)?;
            return Ok(Connection::Given(client));
        }
        let own = resolved(self.config, self.options).await?;
        Ok(Connection::Own(Own {
            options: tuned(own.options, name),
            ..own
        }))
    }
}

/// Returns the servers and the options. The files are read on a thread that may block.
async fn resolved(config: ManagerConfig, given: Option<ConnectOptions>) -> Result<Own, Error> {
    let servers = servers(&config)?;
    let resolved = tokio::task::spawn_blocking(move || {
        let (options, login) = options::options(given, &config, &servers)?;
        let servers = servers.into_iter().map(options::without_credentials);
        Ok(Own {
            servers: servers.collect(),
            login,
            options,
        })
    });
    let resolved: Result<_, ConfigError> = resolved
        .await
        .map_err(|error| Error::Thread(error.to_string()))?;
    Ok(resolved?)
}

fn servers(config: &ManagerConfig) -> Result<Vec<ServerAddr>, Error> {
    let parse = |server: &String| {
        server.parse().map_err(|_| Error::Unavailable {
            after: std::time::Duration::ZERO,
            reason: "a server's address can't be read".into(),
        })
    };
    config.servers.iter().map(parse).collect()
}
