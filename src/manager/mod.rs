//! What users touch: the manager of an instance's roles, and the handles on them.

mod builder;
mod handle;
mod probe;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use self::builder::RoleManagerBuilder;
pub use self::handle::{RoleHandle, StepDown};
pub use self::probe::{NotLive, Probe, Readiness, RoleReadiness};
use crate::actors::{ElectionMsg, ElectionThread, Routes, SupervisorMsg};
use crate::clock;
use crate::error::Error;
use crate::model::config::RoleConfig;
use crate::model::keyring::Keyring;
use crate::model::status::RoleStatus;
use crate::role::{
    Ask, ErasedHandler, Instance, Order, RoleHandler, RoleRegistry, RoleScope, SteppedDown,
};
use nats_elect_core::CoreStatus;
use nats_elect_core::name::RoleName;

/// Whether a role is freed for others when it is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// As the role's `delete_on_stop` says.
    #[default]
    Configured,
    /// Free it, once its handler has ended: somebody else leads at once.
    Delete,
    /// Leave the record: somebody else leads when the lease has run out.
    Keep,
}

impl Release {
    const fn choice(self) -> Option<bool> {
        match self {
            Self::Configured => None,
            Self::Delete => Some(true),
            Self::Keep => Some(false),
        }
    }
}

/// How to stop.
#[derive(Clone, Copy, Debug)]
pub struct StopOptions {
    /// Whether the roles are freed. Default: as each role is configured.
    pub release: Release,
    /// How long handlers may take to end. Default: 30 s.
    pub timeout: Duration,
}

impl Default for StopOptions {
    fn default() -> Self {
        Self {
            release: Release::default(),
            timeout: Duration::from_secs(30),
        }
    }
}

/// One instance: it stands for election in its roles and runs the handler of each that it leads.
///
/// Dropping it cancels the handlers and stops renewing, but frees nothing: others lead when the leases have run out.
/// [`stop`](Self::stop) is the way to leave.
#[must_use = "dropping the manager ends its elections"]
pub struct RoleManager {
    fleet: Fleet,
    thread: ElectionThread,
}

/// What all roles of an instance share.
struct Fleet {
    runtime: Handle,
    instance: Arc<Instance>,
    routes: Routes,
    registry: RoleRegistry,
    keyring: Keyring,
}

impl Fleet {
    fn scope(
        &self,
        name: &str,
        config: &RoleConfig,
        handler: Arc<dyn ErasedHandler>,
    ) -> Result<Arc<RoleScope>, Error> {
        let role = RoleName::new(name)?;
        let settings = config.settings().map_err(|error| Error::RoleConfig {
            role: name.to_owned(),
            error,
        })?;
        let (routes, to) = (self.routes.clone(), role.clone());
        let ask: Ask = Arc::new(move |request| {
            routes.send(&to, ElectionMsg::Ask(request));
        });
        Ok(RoleScope::new(
            role,
            settings,
            handler,
            self.runtime.clone(),
            ask,
            self.keyring.clone(),
            Arc::clone(&self.instance),
            CoreStatus::initial(clock::now()),
        ))
    }

    fn scopes(
        &self,
        roles: Vec<(String, RoleConfig, Arc<dyn ErasedHandler>)>,
    ) -> Result<Vec<Arc<RoleScope>>, Error> {
        let mut scopes: Vec<Arc<RoleScope>> = Vec::with_capacity(roles.len());
        for (name, config, handler) in roles {
            let scope = self.scope(&name, &config, handler)?;
            if scopes.iter().any(|other| other.role == scope.role) {
                return Err(Error::DuplicateRole(scope.role.clone()));
            }
            scopes.push(scope);
        }
        Ok(scopes)
    }
}

impl RoleManager {
    /// Begins to put a manager together.
    pub fn builder() -> RoleManagerBuilder {
        RoleManagerBuilder::default()
    }

    /// The name of this instance.
    pub fn instance_id(&self) -> &str {
        self.fleet.instance.id.as_str()
    }

    /// The handle on a role.
    ///
    /// # Errors
    /// [`Error::UnknownRole`].
    pub fn role(&self, name: &str) -> Result<RoleHandle, Error> {
        let scope = self.fleet.registry.find(name);
        let scope = scope.ok_or_else(|| Error::UnknownRole(name.to_owned()))?;
        Ok(RoleHandle::new(scope))
    }

    /// The status of every role at the time of this call.
    pub fn status(&self) -> BTreeMap<String, RoleStatus> {
        let roles = self.fleet.registry.all();
        roles
            .iter()
            .map(|scope| (scope.role.as_str().to_owned(), scope.status()))
            .collect()
    }

    /// Asks this instance how it is, for health endpoints.
    pub fn probe(&self) -> Probe {
        Probe::new(self.fleet.registry.clone(), self.thread.supervisor.clone())
    }

    /// Stands for one more role.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::RoleConfig`], [`Error::Stopped`]. [`Error::DuplicateRole`] also while a role of this name
    /// that was removed still winds down.
    ///
    /// # Cancel safety
    /// If the future is dropped, the role may be added all the same: [`role`](Self::role) then knows it.
    pub async fn add_role(
        &self,
        name: impl AsRef<str>,
        config: RoleConfig,
        handler: impl RoleHandler,
    ) -> Result<RoleHandle, Error> {
        let name = RoleName::new(name.as_ref())?;
        if self.role(name.as_str()).is_ok() {
            return Err(Error::DuplicateRole(name));
        }
        let scope = self
            .fleet
            .scope(name.as_str(), &config, Arc::new(handler))?;
        self.stand(Arc::clone(&scope)).await?;
        Ok(RoleHandle::new(scope))
    }

    /// Leaves one role's election: its handler is wound down, then the role is freed as configured. Waits for both.
    ///
    /// # Errors
    /// [`Error::UnknownRole`], [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// The role is left all the same if the future is dropped.
    pub async fn remove_role(&self, name: &str) -> Result<(), Error> {
        let scope = self.fleet.registry.strike(name);
        let scope = scope.ok_or_else(|| Error::UnknownRole(name.to_owned()))?;
        let (reply, left) = oneshot::channel();
        let message = SupervisorMsg::RemoveRole {
            role: scope.role.clone(),
            release: scope.settings.delete_on_stop,
            reply,
        };
        self.thread
            .supervisor
            .send_message(message)
            .map_err(|_| Error::Stopped)?;
        left.await.map_err(|_| Error::Stopped)
    }

    /// Pauses every role, as [`RoleHandle::pause`] does, and those that are added later: they begin paused.
    ///
    /// Each order counts for each role until the next one: a single role may be resumed while the others stay paused, and
    /// [`resume`](Self::resume) also resumes roles that were paused one by one.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once polled, the roles are paused all the same if the future is dropped.
    pub async fn pause(&self) -> Result<(), Error> {
        self.order(Order::Pause).await.map(drop)
    }

    /// Resumes every role, as [`RoleHandle::resume`] does, whoever paused it; roles that are added later begin as usual.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once polled, the roles are resumed all the same if the future is dropped.
    pub async fn resume(&self) -> Result<(), Error> {
        self.order(Order::Resume).await.map(drop)
    }

    /// Cordons every role, as [`RoleHandle::cordon`] does, all at once; roles that are added later begin paused. Waits until every
    /// term has ended; returns what became of each role that this instance led.
    ///
    /// # Errors
    /// [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once polled, the roles are cordoned all the same if the future is dropped.
    pub async fn cordon(&self) -> Result<BTreeMap<String, SteppedDown>, Error> {
        let ended = self.order(Order::Cordon).await?;
        Ok(ended
            .into_iter()
            .map(|(role, ended)| (role.as_str().to_owned(), ended))
            .collect())
    }

    async fn order(&self, order: Order) -> Result<Vec<(RoleName, SteppedDown)>, Error> {
        let (reply, followed) = oneshot::channel();
        self.thread
            .supervisor
            .send_message(SupervisorMsg::Order { order, reply })
            .map_err(|_| Error::Stopped)?;
        followed.await.map_err(|_| Error::Stopped)
    }

    /// Runs until `signal` resolves, then stops gracefully with [`StopOptions::default`].
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    ///
    /// # Cancel safety
    /// If the future is dropped, the manager is dropped.
    pub async fn run_until(self, signal: impl Future) -> Result<(), Error> {
        let _ = signal.await;
        self.stop(StopOptions::default()).await
    }

    /// Leaves every election: the handlers are wound down, then the roles are freed. Always waits for the handlers, at
    /// most for the timeout; then everything on the instance has ended.
    ///
    /// # Errors
    /// [`Error::StopTimedOut`] if a handler did not end, or NATS was out of reach so that a role could not be freed. What
    /// still runs is aborted; the leases run out.
    ///
    /// # Cancel safety
    /// If the future is dropped, the manager is dropped: nothing more is freed.
    pub async fn stop(self, options: StopOptions) -> Result<(), Error> {
        let (reply, stopped) = oneshot::channel();
        let (late, timed_out) = oneshot::channel();
        let message = SupervisorMsg::Stop {
            release: options.release.choice(),
            reply,
            timeout: options.timeout,
            late,
        };
        if self.thread.supervisor.send_message(message).is_err() {
            return Ok(());
        }
        let ended = async {
            let _ = stopped.await;
            self.thread.ended().await;
        };
        tokio::select! {
            biased;
            () = ended => return Ok(()),
            Ok(()) = timed_out => {}
        }
        let roles = self
            .fleet
            .routes
            .names()
            .iter()
            .map(|role| role.as_str().to_owned())
            .collect();
        Err(Error::StopTimedOut {
            after: options.timeout,
            roles,
        })
    }

    /// Makes the admin service's actor panic, to test that it is started anew.
    #[cfg(test)]
    #[doc(hidden)]
    pub fn crash_admin(&self) {
        let _ = self
            .thread
            .supervisor
            .send_message(SupervisorMsg::CrashAdmin);
    }

    async fn stand(&self, scope: Arc<RoleScope>) -> Result<(), Error> {
        let (reply, added) = oneshot::channel();
        let message = SupervisorMsg::AddRole {
            scope: Arc::clone(&scope),
            reply,
        };
        self.thread
            .supervisor
            .send_message(message)
            .map_err(|_| Error::Stopped)?;
        if !added.await.map_err(|_| Error::Stopped)? {
            return Err(Error::DuplicateRole(scope.role.clone()));
        }
        Ok(())
    }
}

impl Drop for RoleManager {
    fn drop(&mut self) {
        // After `stop` there is nobody left to hear this.
        let _ = self.thread.supervisor.send_message(SupervisorMsg::Abandon);
    }
}

impl fmt::Debug for RoleManager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RoleManager")
            .field("instance_id", &self.fleet.instance.id)
            .field("bucket", &self.fleet.instance.bucket)
            .field("roles", &self.status())
            .finish_non_exhaustive()
    }
}
