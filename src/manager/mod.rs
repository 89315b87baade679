//! The public interface: the manager of an instance's roles, and the handles on them.

mod builder;
mod group;
mod handle;
mod patience;
mod probe;
mod start;
mod stop_options;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::oneshot;

pub use self::builder::RoleManagerBuilder;
pub use self::group::GroupHandle;
pub use self::handle::RoleHandle;
pub use self::probe::{GroupReadiness, Probe, Readiness, RoleReadiness};
pub use self::stop_options::{Release, StopOptions};
use crate::actors::{ElectionMsg, ElectionThread, Groups, Routes, SupervisorMsg};
use crate::error::Error;
use crate::group::Group;
use crate::last_will::{Keeper, LastWillStatus};
use crate::model::config::{MemberConfig, RoleConfig};
use crate::model::statement::Keyring;
use crate::model::status::RoleStatus;
use crate::role::{
    Ask, ErasedHandler, Instance, Order, RoleHandler, RoleRegistry, RoleScope, SteppedDown,
};
use nats_elect_core::name::{GroupName, RoleName};

/// One instance. It takes part in the elections of its roles, and runs the handler of each role
/// that it leads.
///
/// Dropping the manager cancels the handlers and stops the renewals, but frees nothing. Others lead
/// when the leases have run out. To leave properly, call [`stop`](Self::stop).
#[must_use = "dropping the manager ends its elections"]
pub struct RoleManager {
    fleet: Fleet,
    groups: Arc<Groups>,
    thread: ElectionThread,
    last_will: Option<Keeper>,
}

/// The data that all roles of an instance share.
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
        config: RoleConfig,
        handler: Arc<dyn ErasedHandler>,
    ) -> Result<Arc<RoleScope>, Error> {
        let role = RoleName::new(name)?;
        let config = config.meta_beneath(&self.instance.meta);
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
        ))
    }

    fn scopes(
        &self,
        roles: Vec<(String, RoleConfig, Arc<dyn ErasedHandler>)>,
    ) -> Result<Vec<Arc<RoleScope>>, Error> {
        let mut scopes: Vec<Arc<RoleScope>> = Vec::with_capacity(roles.len());
        for (name, config, handler) in roles {
            let scope = self.scope(&name, config, handler)?;
            if scopes.iter().any(|other| other.role == scope.role) {
                return Err(Error::DuplicateRole(scope.role.clone()));
            }
            scopes.push(scope);
        }
        Ok(scopes)
    }

    /// Returns the groups of this instance.
    fn groups(&self, groups: Vec<Group>, member: &MemberConfig) -> Result<Groups, Error> {
        let mut scopes = Groups::new();
        if groups.is_empty() {
            return Ok(scopes);
        }
        member.check()?;
        let settings = member.settings()?;
        for group in groups {
            let scope = group.on(&self.instance, &settings, &self.runtime)?;
            let name = scope.name.clone();
            if scopes.insert(name.clone(), scope).is_some() {
                return Err(Error::DuplicateGroup(name));
            }
        }
        Ok(scopes)
    }
}

impl RoleManager {
    /// Returns a builder for a manager.
    pub fn builder() -> RoleManagerBuilder {
        RoleManagerBuilder::default()
    }

    /// Returns the name of this instance.
    pub fn instance_id(&self) -> &str {
        self.fleet.instance.id.as_str()
    }

    /// Returns the handle on a role.
    ///
    /// # Errors
    /// Returns [`Error::UnknownRole`] if the manager has no role of this name.
    pub fn role(&self, name: &str) -> Result<RoleHandle, Error> {
        let scope = self.fleet.registry.find(name);
        let scope = scope.ok_or_else(|| Error::UnknownRole(name.to_owned()))?;
        Ok(RoleHandle::new(scope))
    }

    /// Returns the handle on a group.
    ///
    /// # Errors
    /// Returns [`Error::UnknownGroup`] if the manager has no group of this name.
    pub fn group(&self, name: &str) -> Result<GroupHandle, Error> {
        let scope = GroupName::new(name)
            .ok()
            .and_then(|name| self.groups.get(&name));
        let scope = scope.ok_or_else(|| Error::UnknownGroup(name.to_owned()))?;
        Ok(GroupHandle::new(Arc::clone(scope)))
    }

    /// Returns the status of every role at the time of this call.
    pub fn status(&self) -> BTreeMap<String, RoleStatus> {
        let roles = self.fleet.registry.all();
        roles
            .iter()
            .map(|scope| (scope.role.as_str().to_owned(), scope.status()))
            .collect()
    }

    /// Returns the state of the companion process, or nothing if
    /// [`last_will`](RoleManagerBuilder::last_will) is off.
    pub fn last_will(&self) -> Option<LastWillStatus> {
        self.last_will.as_ref().map(Keeper::status)
    }

    /// Returns a probe that checks this instance, for health endpoints.
    pub fn probe(&self) -> Probe {
        Probe {
            registry: self.fleet.registry.clone(),
            groups: Arc::clone(&self.groups),
            supervisor: self.thread.supervisor.clone(),
        }
    }

    /// Takes part in the election of one more role.
    ///
    /// # Errors
    /// Returns [`Error::Name`], [`Error::RoleConfig`] or [`Error::Stopped`]. Returns
    /// [`Error::DuplicateRole`] if the role exists, or if a role of this name that was removed is
    /// still winding down.
    ///
    /// # Cancel safety
    /// If the future is dropped, the role may be added all the same. [`role`](Self::role) then
    /// knows it.
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
        let scope = self.fleet.scope(name.as_str(), config, handler.boxed().0)?;
        self.stand(Arc::clone(&scope)).await?;
        Ok(RoleHandle::new(scope))
    }

    /// Leaves one role's election. The handler is wound down, and then the role is freed as
    /// configured. The method waits for both.
    ///
    /// # Errors
    /// Returns [`Error::UnknownRole`] or [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the role is left all the same.
    pub async fn remove_role(&self, name: &str) -> Result<(), Error> {
        let scope = self.fleet.registry.strike(name);
        let scope = scope.ok_or_else(|| Error::UnknownRole(name.to_owned()))?;
        self.ask(|reply| SupervisorMsg::RemoveRole {
            role: scope.role.clone(),
            release: scope.settings.delete_on_stop,
            reply,
        })
        .await
    }

    /// Pauses every role, as [`RoleHandle::pause`] does. Roles that are added later begin paused.
    ///
    /// Units of groups are not paused.
    ///
    /// Each order applies to each role until the next one. You can resume a single role while the
    /// others stay paused. [`resume`](Self::resume) also resumes roles that were paused one by one.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the roles are paused all the same if it is dropped.
    pub async fn pause(&self) -> Result<(), Error> {
        self.order(Order::Pause).await.map(drop)
    }

    /// Resumes every role, as [`RoleHandle::resume`] does, no matter how it was paused. Roles that
    /// are added later begin as usual.
    ///
    /// # Errors
    /// Returns [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the roles are resumed all the same if it is dropped.
    pub async fn resume(&self) -> Result<(), Error> {
        self.order(Order::Resume).await.map(drop)
    }

    /// Cordons every role at once, as [`RoleHandle::cordon`] does. Roles that are added later begin
    /// paused.
    ///
    /// The method waits until every term of a role has ended. It returns the result for each role
    /// that this instance led.
    ///
    /// The units that this instance owns of its groups move away too, a few at a time, as far as
    /// others take them. No unit comes until [`resume`](Self::resume). The method does not wait for
    /// that: see [`GroupHandle::mine`].
    ///
    /// # Errors
    /// Returns [`Error::Stopped`].
    ///
    /// # Cancel safety
    /// Once the future was polled, the roles are cordoned all the same if it is dropped.
    pub async fn cordon(&self) -> Result<BTreeMap<String, SteppedDown>, Error> {
        self.order(Order::Cordon).await
    }

    async fn order(&self, order: Order) -> Result<BTreeMap<String, SteppedDown>, Error> {
        self.ask(|reply| SupervisorMsg::Order { order, reply })
            .await
    }

    /// Waits until `signal` resolves, then stops gracefully with [`StopOptions::default`].
    ///
    /// # Errors
    /// The same as [`stop`](Self::stop).
    ///
    /// # Cancel safety
    /// Before the signal nothing is lost if the future is dropped. After it, the same as
    /// [`stop`](Self::stop).
    pub async fn run_until(&self, signal: impl Future) -> Result<(), Error> {
        let _ = signal.await;
        self.stop(StopOptions::default()).await
    }

    /// Leaves every election. The handlers are wound down, and then the roles are freed.
    ///
    /// The method always waits for the handlers, for the timeout at most. After that everything on
    /// the instance has ended.
    ///
    /// You can call it from any task that shares the manager, and more than once. All calls wait
    /// for the same end, and the first timeout that passes is the end for all. A role is freed only
    /// if each call frees it. After the end the method returns `Ok` at once.
    ///
    /// # Errors
    /// Returns [`Error::StopTimedOut`] if a handler did not end, or if NATS was out of reach so
    /// that a role could not be freed. Handlers that still run are aborted, and the leases run out.
    ///
    /// # Cancel safety
    /// If the future is dropped after it was polled, the instance stops all the same, within the
    /// timeout. Call the method again to wait for the end. Dropping the manager ends it at once,
    /// and frees nothing more.
    pub async fn stop(&self, options: StopOptions) -> Result<(), Error> {
        let (reply, stopped) = oneshot::channel();
        let message = SupervisorMsg::Stop {
            release: options.release.choice(),
            timeout: options.timeout,
            reply,
        };
        // After the end the message comes back. It is dropped here, with its reply.
        let _ = self.thread.supervisor.send_message(message);
        if let Ok(Err(roles)) = stopped.await {
            return Err(Error::StopTimedOut {
                after: options.timeout,
                roles,
            });
        }
        self.thread.ended().await;
        if let Some(last_will) = &self.last_will {
            last_will.stop().await;
        }
        Ok(())
    }

    /// Makes the admin service's actor panic, to test that it is restarted.
    #[cfg(test)]
    #[doc(hidden)]
    pub fn crash_admin(&self) {
        let _ = self
            .thread
            .supervisor
            .send_message(SupervisorMsg::CrashAdmin);
    }

    /// Has a role's election hear that an outage since then has outlasted its grace period.
    #[cfg(test)]
    #[doc(hidden)]
    pub fn tell_grace_over(&self, role: &RoleName, since: nats_elect_core::Moment) {
        self.fleet.routes.send(
            role,
            ElectionMsg::Input(nats_elect_core::Input::GraceOver { since }),
        );
    }

    /// Makes the member's actor panic.
    #[cfg(test)]
    #[doc(hidden)]
    pub fn crash_member(&self) {
        let _ = self
            .thread
            .supervisor
            .send_message(SupervisorMsg::CrashMember);
    }

    async fn stand(&self, scope: Arc<RoleScope>) -> Result<(), Error> {
        let role = scope.role.clone();
        let is_new = self
            .ask(|reply| SupervisorMsg::AddRole { scope, reply })
            .await?;
        if is_new {
            Ok(())
        } else {
            Err(Error::DuplicateRole(role))
        }
    }

    /// Sends a message to the supervisor, and waits for its reply.
    async fn ask<T>(
        &self,
        message: impl FnOnce(oneshot::Sender<T>) -> SupervisorMsg,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        let sent = self.thread.supervisor.send_message(message(reply));
        sent.map_err(|_| Error::Stopped)?;
        answer.await.map_err(|_| Error::Stopped)
    }
}

impl Drop for RoleManager {
    fn drop(&mut self) {
        // After `stop` no actor is left to receive this.
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
