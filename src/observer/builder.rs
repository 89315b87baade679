//! The builder of an observer.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use futures::future::BoxFuture;
use ractor::Actor;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::tracked_roles::{Scope, TrackedRoles};
use super::watching::{Shared, Watching, tick};
use super::{Inner, Observer};
use crate::access::Access;
use crate::actors::{Link, MonitorActor, MonitorSetup, attend};
use crate::clock;
use crate::error::Error;
use crate::model::config::ManagerConfig;
use crate::model::statement::{Keyring, LeaderStatement};
use nats_elect_core::config::range;
use nats_elect_core::event::Distrust;
use nats_elect_core::name::{BucketName, RoleName};
use nats_elect_core::record::FOREIGN_LEASE;

/// The lease of a record that does not contain its own. It equals the default of candidates.
const DEFAULT_TTL: Duration = Duration::from_secs(15);

/// Builds an [`Observer`]. Nothing is checked before [`start`](Self::start).
///
/// A later call overrides an earlier one, as in [`RoleManagerBuilder`](crate::RoleManagerBuilder).
#[derive(Default)]
#[must_use = "a builder does nothing before `start`"]
pub struct ObserverBuilder {
    access: Access,
    roles: Option<Vec<String>>,
    default_ttl: Option<Duration>,
    keyring: Keyring,
}

impl ObserverBuilder {
    /// Takes the connection settings, the bucket and `start_timeout` from a manager's
    /// configuration. The rest of the configuration is not used. Later calls change single
    /// settings.
    pub fn config(mut self, config: ManagerConfig) -> Self {
        self.access.config = config;
        self
    }

    crate::access::config_setters!(connection);

    /// Uses this connection instead of one that the observer makes.
    ///
    /// Credentials, TLS and an inbox prefix are those of the client. Setting them here as well is
    /// an error. If the client is drained, this observer sees nothing any more until you start a
    /// new one.
    pub fn client(mut self, client: Client) -> Self {
        self.access.client = Some(client);
        self
    }

    /// Watches these roles only. Default: all roles of the bucket, including those that appear
    /// later.
    pub fn roles<R: Into<String>>(mut self, roles: impl IntoIterator<Item = R>) -> Self {
        self.roles = Some(roles.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the lease of records that do not contain one, in a bucket without a max age. Default:
    /// 15 s. From 100 ms to 1 h. Only records of other libraries, and values that are no records,
    /// have no lease.
    pub fn default_ttl(mut self, default_ttl: Duration) -> Self {
        self.default_ttl = Some(default_ttl);
        self
    }

    /// Reports an instance as the leader only if `verify` accepts the proof in its record. Only the
    /// data that it returns is reported then. Roles with other records are
    /// [`Untrusted`](super::Standing::Untrusted).
    ///
    /// See [`RoleManagerBuilder::verifier`](crate::RoleManagerBuilder::verifier) for what `verify`
    /// gets and returns. It runs on a task of this observer, so it must not block or panic. The first
    /// record of each term carries no proof. The second one follows at once.
    pub fn verifier(
        mut self,
        verify: impl Fn(&str) -> Result<(LeaderStatement, Duration), Distrust> + Send + Sync + 'static,
    ) -> Self {
        self.keyring.verify = Some(Arc::new(verify));
        self
    }

    /// Connects, opens the bucket, and reads its records. When the method returns, all roles are
    /// known.
    ///
    /// The observer runs as tasks on the runtime on which this method is called.
    ///
    /// # Errors
    /// Returns an error at once, before anything connects, if a setting or a name breaks a rule, or
    /// a file can't be used.
    ///
    /// Returns an error as soon as the cause is known if NATS refuses the credentials, either side
    /// refuses the other's certificates, JetStream is off, or a permission to look at the bucket or
    /// to receive answers is missing.
    ///
    /// Returns [`Error::BucketMissing`] if the bucket has not appeared within `start_timeout`.
    /// Returns [`Error::Unavailable`] if NATS could not be used within it.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left running.
    pub async fn start(self) -> Result<Observer, Error> {
        self.started().await
    }

    /// Compiled here, and not in each program: see the manager's builder.
    fn started(self) -> BoxFuture<'static, Result<Observer, Error>> {
        Box::pin(self.begin())
    }

    async fn begin(self) -> Result<Observer, Error> {
        let (mut access, default_ttl) = (self.access, self.default_ttl.unwrap_or(DEFAULT_TTL));
        access.settle()?;
        let start_timeout = access.config.start_timeout;
        let (shortest, longest) = FOREIGN_LEASE;
        range("default_ttl", default_ttl, shortest, longest)?;
        let bucket = BucketName::new(&access.config.bucket)?;
        let roles = self
            .roles
            .map(|roles| roles.iter().map(|role| RoleName::new(role)).collect());
        let roles: Option<BTreeSet<RoleName>> = roles.transpose()?;
        Handle::try_current().map_err(|_| Error::NoRuntime)?;
        let began = clock::now();
        let connection = access.connection("observer").await?;
        let scope = Scope {
            bucket: bucket.clone(),
            roles,
            default_ttl,
            keyring: self.keyring,
        };
        let shared = Arc::new(Shared::new(TrackedRoles::new(scope, began)));
        let (ready, opened) = oneshot::channel();
        let span = tracing::error_span!(parent: None, "observer", %bucket);
        let (tell, links) = watch::channel(Link::Down { since: began });
        let tell = move |link| {
            tell.send_replace(link);
        };
        let setup = MonitorSetup {
            span: span.clone(),
            ..MonitorSetup::without_elections(connection, bucket, start_timeout, tell)
        };
        let (monitor, _) = Actor::spawn(None, MonitorActor, (setup, Some(ready)))
            .await
            .map_err(|error| Error::Thread(error.to_string()))?;
        let mut tasks = JoinSet::new();
        let watching = Arc::new(Watching {
            shared: Arc::clone(&shared),
            monitor: monitor.clone(),
        });
        tasks.spawn(attend(watching, links).instrument(span));
        tasks.spawn(tick(Arc::clone(&shared), monitor.clone()));
        let observer = Observer {
            inner: Arc::new(Inner {
                shared,
                monitor,
                _tasks: tasks,
            }),
        };
        let died = |_| Error::Thread("it died while connecting".into());
        opened.await.map_err(died)??;
        let left = (began + start_timeout).since(clock::now());
        let is_current = observer.until(|it| it.status(began).is_current().then_some(()));
        if matches!(tokio::time::timeout(left, is_current).await, Ok(Ok(()))) {
            return Ok(observer);
        }
        Err(observer.unavailable(start_timeout, "the observer ended while it started"))
    }
}

impl fmt::Debug for ObserverBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserverBuilder")
            .field("config", &self.access.config)
            .field("roles", &self.roles)
            .field("default_ttl", &self.default_ttl)
            .finish_non_exhaustive()
    }
}
