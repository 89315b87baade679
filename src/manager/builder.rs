//! How a manager is put together.

use std::sync::Arc;

use async_nats::{Client, ConnectOptions, ServerAddr};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::error::Error;
use super::{Fleet, RoleManager};
use crate::actors::{Connection, ElectionThread, Routes, Setup, tuned};
use crate::model::config::{ManagerConfig, RoleConfig, Storage};
use crate::model::name::{BucketName, InstanceId};
use crate::model::notary::Notary;
use crate::role::{ErasedHandler, RoleHandler, Roster};
use crate::store::IfMissing;

/// Builds a [`RoleManager`]. Nothing is checked before [`start`](Self::start).
#[must_use = "a builder does nothing before `start`"]
#[derive(Default)]
pub struct RoleManagerBuilder {
    config: ManagerConfig,
    options: Option<ConnectOptions>,
    client: Option<Client>,
    roles: Vec<(String, RoleConfig, Arc<dyn ErasedHandler>)>,
    notary: Notary,
}

impl RoleManagerBuilder {
    /// Takes all settings at once, for instance from a file. Later calls change single ones.
    pub fn config(mut self, config: ManagerConfig) -> Self {
        self.config = config;
        self
    }

    /// Where NATS is: one URL, or several separated by commas. Default: `nats://127.0.0.1:4222`.
    pub fn servers(mut self, servers: impl AsRef<str>) -> Self {
        self.config.servers = servers
            .as_ref()
            .split(',')
            .map(|server| server.trim().to_owned())
            .collect();
        self
    }

    /// How to connect: credentials, TLS, and whatever else async-nats offers.
    ///
    /// The manager sets the connection's name, its ping interval (2 s), its connection timeout (2 s), its reconnect
    /// delay and its event callback itself, and never gives up reconnecting; what `options` say of these is not used.
    pub fn connect_options(mut self, options: ConnectOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Uses this connection instead of one of its own.
    ///
    /// It stays on the runtime on which it was made: a handler that blocks that runtime's threads then delays heartbeats
    /// too. And the server's word that a publish is forbidden reaches only the client's own event callback: here it
    /// shows as a timeout. If it is drained, no role is led here any more before a new manager is started.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// The Key-Value bucket in which the instances meet. Default: `leaders`.
    pub fn bucket(mut self, bucket: impl Into<String>) -> Self {
        self.config.bucket = bucket.into();
        self
    }

    /// Creates the bucket if it does not exist. Default: it must exist.
    pub fn bucket_auto_create(mut self) -> Self {
        self.config.bucket_auto_create = true;
        self
    }

    /// On how many servers a bucket that is created is kept. Default: 1.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.config.replicas = replicas;
        self
    }

    /// Where a bucket that is created is kept. Default: on disk.
    pub fn storage(mut self, storage: Storage) -> Self {
        self.config.storage = storage;
        self
    }

    /// The name of this instance in records, logs and metrics. Default: host name, process id and a short random part.
    ///
    /// Two processes with one id are two instances all the same: each start has an identity of its own.
    pub fn instance_id(mut self, instance_id: impl Into<String>) -> Self {
        self.config.instance_id = Some(instance_id.into());
        self
    }

    /// How long `start` tries to reach NATS and its bucket. Default: 30 s.
    pub fn start_timeout(mut self, start_timeout: std::time::Duration) -> Self {
        self.config.start_timeout = start_timeout;
        self
    }

    /// Signs each heartbeat of a role that is led here: whoever trusts the key can check who leads, see
    /// [`Term::proof`](crate::Term::proof).
    ///
    /// It costs a signature for each heartbeat, and one heartbeat more, at once, when a role is won: the first record of
    /// a term carries no proof, the second one does.
    #[cfg(feature = "signing")]
    pub fn signing_key(mut self, key: crate::SigningKey) -> Self {
        self.notary.signer = Some(crate::signing::signer(key));
        self
    }

    /// Tells of another instance as the leader only if one of these keys signed that it is, and then only what was signed:
    /// in [`leader`](super::RoleHandle::leader), `status`, `events`, `wait_for_leader` and `on_leader_change`. Other records
    /// are counted in `election_untrusted_records_total`.
    ///
    /// It decides nothing in the election: a record that nobody trusted signed is waited for like any other, or a wrong key
    /// would make two leaders. `max_skew` is the bound on the difference between the wall clocks of the instances, at most
    /// [`MAX_SKEW`](crate::MAX_SKEW): if they differ by more, leaders may not be told, or for too long.
    #[cfg(feature = "signing")]
    pub fn trusted_keys(mut self, keys: crate::TrustedKeys, max_skew: std::time::Duration) -> Self {
        self.notary.verify = Some(crate::signing::verifier(keys, max_skew));
        self
    }

    /// Stands for a role, with this handler.
    pub fn role(
        mut self,
        name: impl Into<String>,
        config: RoleConfig,
        handler: impl RoleHandler,
    ) -> Self {
        self.roles.push((name.into(), config, Arc::new(handler)));
        self
    }

    /// Connects, opens the bucket, and stands for every role.
    ///
    /// It returns when the elections have begun, not when they are decided: see
    /// [`RoleHandle::wait_for_leader`](super::RoleHandle::wait_for_leader). Handlers run on the runtime on which this
    /// is called.
    ///
    /// # Errors
    /// A setting or a name that breaks a rule, at once and before anything is done. Credentials that NATS refuses, a
    /// bucket that is missing or unfit, JetStream being off, a permission that is missing: as soon as it is known.
    /// [`Error::Unavailable`] if NATS could not be used within `start_timeout`.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left running.
    pub async fn start(self) -> Result<RoleManager, Error> {
        let Self {
            config,
            options,
            client,
            roles,
            notary,
        } = self;
        config.validate()?;
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let bucket = BucketName::new(&config.bucket)?;
        let instance_id = match &config.instance_id {
            Some(id) => InstanceId::new(id)?,
            None => InstanceId::new(&default_instance_id())?,
        };
        let incarnation = Uuid::from_u128(rand::random());
        let connection = if let Some(client) = client {
            Connection::Given(client)
        } else {
            let servers = servers(&config)?;
            let options = with_credentials(options.unwrap_or_default(), &servers);
            Connection::Own {
                options: tuned(options, instance_id.as_str()),
                servers,
            }
        };
        let routes = Routes::default();
        let roster = Roster::default();
        let fleet = Fleet {
            runtime,
            instance_id: instance_id.clone(),
            bucket: bucket.clone(),
            routes: routes.clone(),
            roster: roster.clone(),
            notary,
        };
        let scopes = fleet.scopes(roles)?;
        crate::metrics::describe();

        let (ready, opened) = oneshot::channel();
        let thread = ElectionThread::start(Setup {
            instance_id,
            incarnation,
            connection,
            bucket,
            if_missing: if config.bucket_auto_create {
                IfMissing::Create {
                    replicas: config.replicas,
                    storage: config.storage,
                }
            } else {
                IfMissing::Fail
            },
            start_timeout: config.start_timeout,
            routes,
            roster,
            ready,
        })
        .await
        .map_err(|error| Error::Thread(error.to_string()))?;
        // From here on dropping the manager ends the thread.
        let manager = RoleManager { fleet, thread };
        let info = match opened.await {
            Ok(Ok(info)) => info,
            Ok(Err(failure)) => return Err(Error::of_start(failure, config.start_timeout)),
            Err(_) => return Err(Error::Thread("it died while connecting".into())),
        };
        for scope in &scopes {
            if let Some(max_age) = info.max_age.filter(|max_age| *max_age < scope.settings.ttl) {
                return Err(Error::BucketUnfit(format!(
                    "bucket {:?} drops keys after {max_age:?}, before the lease of role `{}` ends ({:?}): choose a shorter ttl, or a longer max age",
                    config.bucket, scope.role, scope.settings.ttl
                )));
            }
            for warning in scope.settings.warnings(info.replicas) {
                tracing::warn!(role = %scope.role, "{warning}");
            }
        }
        for scope in scopes {
            manager.stand(scope).await?;
        }
        Ok(manager)
    }
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

/// async-nats does not look at what an address says of who connects.
fn with_credentials(options: ConnectOptions, servers: &[ServerAddr]) -> ConnectOptions {
    let named = |server: &ServerAddr| {
        let password = server.password().map(percent_decoded);
        Some((percent_decoded(server.username()?), password))
    };
    match servers.iter().find_map(named) {
        None => options,
        Some((user, Some(password))) => options.user_and_password(user, password),
        Some((token, None)) => options.token(token),
    }
}

/// What stands in an address for characters that have a meaning there. What is no valid escape stays as it is.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|_| *first == b'%');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let escaped = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            &after[2..]
        } else {
            after
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Host name, process id and a short random part.
fn default_instance_id() -> String {
    let short: u16 = rand::random();
    format!("{}-{}-{short:04x}", host_name(), std::process::id())
}

#[cfg(unix)]
fn host_name() -> String {
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let name: String = name
        .chars()
        .filter(|c| !c.is_whitespace() && !c.is_control())
        .take(200)
        .collect();
    if name.is_empty() { "host".into() } else { name }
}

#[cfg(not(unix))]
fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_else(|_| "host".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_of_an_address_are_unescaped() {
        for (written, meant) in [
            ("secret", "secret"),
            ("p%40ss%3aword", "p@ss:word"),
            ("100%", "100%"),
            ("%zz%+1%4", "%zz%+1%4"),
            ("gr%C3%BCn", "grün"),
        ] {
            assert_eq!(percent_decoded(written), meant, "{written}");
        }
    }
}
