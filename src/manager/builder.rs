//! How a manager is put together.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_nats::{Client, ConnectOptions};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::access;
use super::connecting::connecting;
use super::error::Error;
use super::{Fleet, RoleManager};
use crate::actors::{Connection, ElectionThread, Routes, Setup, tuned};
use crate::model::config::{
    AuthConfig, ConfigError, ManagerConfig, RoleConfig, Secret, Storage, listed,
};
use crate::model::name::{BucketName, InstanceId};
use crate::model::notary::Notary;
use crate::role::{ErasedHandler, RoleHandler, Roster};
use crate::store::IfMissing;

/// Builds a [`RoleManager`]. Nothing is checked before [`start`](Self::start).
///
/// What is said later goes before what was said earlier: [`config`](Self::config) first, then
/// [`with_env`](Self::with_env), then single settings. Only the ways to authenticate that are named here, by
/// [`token`](Self::token) and its like, go before those of the configuration and the environment wherever they stand; two
/// of them are an error.
#[must_use = "a builder does nothing before `start`"]
#[derive(Default)]
pub struct RoleManagerBuilder {
    config: ManagerConfig,
    /// Replaces what the configuration says of it, if anything is said here.
    auth: AuthConfig,
    /// What was wrong with the environment.
    unreadable: Option<ConfigError>,
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

    /// Takes from the environment how to connect: `NATS_URL`, `NATS_CREDS` and the others that
    /// [`ManagerConfig::with_env`] names. Without this call the environment is not looked at.
    pub fn with_env(mut self) -> Self {
        match self.config.clone().with_env() {
            Ok(config) => self.config = config,
            Err(error) => self.unreadable = self.unreadable.or(Some(error)),
        }
        self
    }

    /// Where NATS is: one URL, or several separated by commas. Default: `nats://127.0.0.1:4222`.
    pub fn servers(mut self, servers: impl AsRef<str>) -> Self {
        self.config.servers = listed(servers.as_ref());
        self
    }

    /// How to connect: whatever async-nats offers. Credentials, TLS and the inbox prefix that are set by other methods here
    /// or by the configuration are added to it.
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
    /// shows as a timeout, whose text names the subject. Credentials, TLS and an inbox prefix are the client's own: set
    /// here as well, they are an error. If the client is drained, no role is led here any more before a new manager is started.
    pub fn client(mut self, client: Client) -> Self {
        self.client = Some(client);
        self
    }

    /// Authenticates with a user's name and password.
    pub fn user_and_password(
        mut self,
        user: impl Into<String>,
        password: impl Into<Secret>,
    ) -> Self {
        self.auth.user = Some(user.into());
        self.auth.password = Some(password.into());
        self
    }

    /// Authenticates with a token.
    pub fn token(mut self, token: impl Into<Secret>) -> Self {
        self.auth.token = Some(token.into());
        self
    }

    /// Authenticates with an nkey: the user's seed, which begins with `SU`.
    pub fn nkey(mut self, seed: impl Into<Secret>) -> Self {
        self.auth.nkey = Some(seed.into());
        self
    }

    /// Authenticates with an nkey whose seed is in this file.
    ///
    /// `start` looks whether it can be used; it is read anew for each connection, but for
    /// [`connect_options`](Self::connect_options): then once.
    pub fn nkey_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.auth.nkey_file = Some(path.into());
        self
    }

    /// Authenticates with a JWT and its seed, in the form of a `.creds` file.
    pub fn creds(mut self, content: impl Into<Secret>) -> Self {
        self.auth.creds = Some(content.into());
        self
    }

    /// Authenticates with the JWT and seed of a `.creds` file.
    ///
    /// `start` looks whether it can be used; it is read anew for each connection, so that it can be replaced before its JWT
    /// ends. With [`connect_options`](Self::connect_options) it is read once.
    pub fn creds_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.auth.creds_file = Some(path.into());
        self
    }

    /// Trusts the certificate authorities of this PEM file, instead of those of the system. Asks for TLS.
    ///
    /// `start` looks whether it can be used; it is read anew for each connection.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config.tls.ca_file = Some(path.into());
        self
    }

    /// Shows the server this certificate (and its chain), with this private key: PEM files. Asks for TLS.
    ///
    /// `start` looks whether they can be used; they are read anew for each connection.
    pub fn client_certificate(
        mut self,
        cert_file: impl Into<PathBuf>,
        key_file: impl Into<PathBuf>,
    ) -> Self {
        self.config.tls.cert_file = Some(cert_file.into());
        self.config.tls.key_file = Some(key_file.into());
        self
    }

    /// Never connects without TLS. Default: as the servers say, or their addresses (`tls://`).
    pub fn require_tls(mut self) -> Self {
        self.config.tls.required = true;
        self
    }

    /// Encrypts before the server's greeting, for servers that are set to `handshake_first`. Asks for TLS.
    pub fn tls_first(mut self) -> Self {
        self.config.tls.first = true;
        self
    }

    /// What reply subjects begin with, where the user may not subscribe to `_INBOX.>`. Default: `_INBOX`.
    pub fn inbox_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.config.inbox_prefix = Some(prefix.into());
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
    /// A setting or a name that breaks a rule, and a file that can't be used, at once and before anything connects.
    /// Credentials that NATS refuses, certificates that either side refuses, a bucket that is missing or unfit, JetStream being off, a permission that is missing: as soon as it is known.
    /// [`Error::Unavailable`] if NATS could not be used within `start_timeout`.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left running.
    pub async fn start(self) -> Result<RoleManager, Error> {
        let Self {
            mut config,
            auth,
            unreadable,
            options,
            client,
            roles,
            notary,
        } = self;
        if let Some(error) = unreadable {
            return Err(error.into());
        }
        if !auth.is_empty() {
            config.auth = auth;
        }
        config.validate()?;
        let runtime = Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let bucket = BucketName::new(&config.bucket)?;
        let instance_id = match &config.instance_id {
            Some(id) => InstanceId::new(id)?,
            None => InstanceId::new(&default_instance_id())?,
        };
        let incarnation = Uuid::from_u128(rand::random());
        let connection = if let Some(client) = client {
            access::nothing_said(&config)?;
            Connection::Given(client)
        } else {
            let (servers, options) = connecting(&config, options).await?;
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

impl fmt::Debug for RoleManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<_> = self.roles.iter().map(|(name, ..)| name).collect();
        f.debug_struct("RoleManagerBuilder")
            .field("config", &self.config)
            .field("auth", &self.auth)
            .field("roles", &roles)
            .finish_non_exhaustive()
    }
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
