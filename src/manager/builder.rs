//! The builder of a manager.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use futures::future::BoxFuture;

use super::RoleManager;
use crate::access::Access;
use crate::error::Error;
use crate::group::Group;
use crate::last_will::Ends;
use crate::model::config::{
    AdminConfig, ElectionsConfig, EventsConfig, LastWillConfig, MemberConfig, RoleConfig, Storage,
};
use crate::model::statement::{Keyring, LeaderStatement, Signer};
use crate::role::{ErasedHandler, RoleHandler};
use nats_elect_core::event::Distrust;

/// Builds a [`RoleManager`]. Nothing is checked before [`start`](Self::start).
///
/// A later call overrides an earlier one. Call [`config`](Self::config) first, then
/// [`with_env`](Self::with_env), then the methods for single settings. Settings without a method here
/// are fields of [`ManagerConfig`](crate::ManagerConfig).
#[must_use = "a builder does nothing before `start`"]
#[derive(Default)]
pub struct RoleManagerBuilder {
    pub(super) access: Access,
    pub(super) roles: Vec<GivenRole>,
    /// The settings of roles and groups, by their names.
    pub(super) configured: ElectionsConfig,
    pub(super) keyring: Keyring,
    pub(super) last_will_ends: Option<Ends>,
    pub(super) groups: Vec<Group>,
    /// What runs under the lease, where that is another program.
    pub(super) program: Option<String>,
}

/// A role's name, its settings unless they are in the configuration, and its handler.
pub(super) type GivenRole = (String, Option<Box<RoleConfig>>, Arc<dyn ErasedHandler>);

impl RoleManagerBuilder {
    /// Takes all settings at once, for instance from a file: a
    /// [`ManagerConfig`](crate::ManagerConfig), or an [`ElectionsConfig`] with the settings of roles for
    /// [`configured_role`](Self::configured_role) and of groups for
    /// [`configured_group`](Self::configured_group). Later calls change single settings.
    pub fn config(mut self, config: impl Into<ElectionsConfig>) -> Self {
        self.configured = config.into();
        self.access.config = std::mem::take(&mut self.configured.manager);
        self
    }

    crate::access::config_setters!(connection);

    crate::access::config_setters! {
        /// Creates the bucket if it does not exist. Default: it must exist.
        bucket_auto_create();

        /// Sets on how many servers a bucket that is created is kept. Default: 1.
        replicas(replicas: usize);

        /// Sets where a bucket that is created is kept. Default: on disk.
        storage(storage: Storage);

        /// Sets the name of the application. Default: that of the program's file. Instances of another
        /// application that stand for the same role in the same bucket are warned of, and refused at the
        /// start if both set their names.
        application(name: impl Into<String>);

        /// Sets the name of this instance in records, logs and metrics. Default: host name, process id
        /// and a short random part.
        ///
        /// Two processes with the same id are still two instances, because each start has an identity
        /// of its own.
        instance_id(instance_id: impl Into<String>);

        /// Adds a fact about this instance, such as its zone, for people and observers: see
        /// [`ManagerConfig::meta`](field@crate::ManagerConfig::meta).
        meta(key: impl Into<String>, value: impl Into<String>);

        /// Sets whether this instance can be operated over NATS, and on which subjects. Default: it
        /// can, see [`AdminConfig`].
        admin(admin: AdminConfig);

        /// Keeps a companion process that releases this instance's roles, and its units of groups, when,
        /// and only when, this process is dead: see [`last_will`](mod@crate::last_will). Default: there is none.
        ///
        /// The companion makes a connection of its own by the configuration. So `start` fails if a
        /// [`client`](Self::client) or [`connect_options`](Self::connect_options) are given as well.
        last_will(last_will: LastWillConfig);

        /// Publishes the begin and the end of each term of this instance, for other programs: see
        /// [`EventsConfig`]. They are published by default, and kept for a week where that can be.
        events(events: EventsConfig);

        /// Sets the lease that this instance keeps for the units that it owns of its groups. Default:
        /// [`MemberConfig::default`].
        member(member: MemberConfig);
    }

    /// Uses this connection instead of one that the manager makes.
    ///
    /// The connection stays on the runtime on which it was made. A handler that blocks that
    /// runtime's threads then delays heartbeats too.
    ///
    /// The server reports a forbidden publish only to the client's own event callback. Here it
    /// shows as a timeout, whose text names the subject.
    ///
    /// Credentials, TLS and an inbox prefix are those of the client. Setting them here as well is
    /// an error.
    ///
    /// If the client is drained, this instance leads no role any more until a new manager is
    /// started.
    pub fn client(mut self, client: Client) -> Self {
        self.access.client = Some(client);
        self
    }

    /// Sets what the application is called unless somebody sets its name. For programs that run
    /// another one under a lease.
    #[doc(hidden)]
    pub fn program(mut self, name: impl Into<String>) -> Self {
        self.program = Some(name.into());
        self
    }

    /// Has the companion of [`last_will`](Self::last_will) wait for more than the death of this
    /// process. Default: the death is enough.
    ///
    /// It is for programs whose handlers work in other processes, which end a moment later than
    /// this one. `ends` is the read end of a pipe. When this process is dead, the companion frees a
    /// role only once it has read the line of its term from there:
    /// [`line_of_end`](crate::last_will::line_of_end), and a newline. If that does not come while
    /// the lease lasts, or nobody holds the write end any more, the lease decides. It decides for
    /// units of groups in any case: no line tells that nothing works for any unit. Other lines are
    /// ignored. Nobody can be told of them, because the process that could log them is dead.
    ///
    /// Give the write end to a process that outlives this one and confirms that all others have
    /// ended. It must not write the line before this process is dead, because until then this
    /// process may start others for the same term. A line that comes too early frees no later term.
    /// Write each line at once: half a line is no evidence. `nats-elect exec` works in this way.
    #[cfg(unix)]
    pub fn last_will_after(mut self, ends: std::os::fd::OwnedFd) -> Self {
        self.last_will_ends = Some(ends);
        self
    }

    /// Signs each heartbeat of a role that this instance leads. Others can then check which instance
    /// leads: [`Term::proof`](crate::Term::proof) returns what was signed last, and the role's
    /// record has it too. Keys of NATS users and a form for proofs are in the crate
    /// `nats-elect-signing`.
    ///
    /// `key` is the public key, by which others know the signer. `sign` returns the proof: a text
    /// that contains the statement and its signature. Others ignore a text of more than 8 KiB.
    ///
    /// `sign` is called once for each heartbeat. It runs on the thread of the elections, so it must
    /// not block or panic. Signing costs also one more heartbeat, sent at once, when a role is won:
    /// the first record of a term carries no proof, and the second one does.
    pub fn signer(
        mut self,
        key: impl Into<String>,
        sign: impl Fn(LeaderStatement) -> String + Send + Sync + 'static,
    ) -> Self {
        self.keyring.signer = Some(Signer {
            key: key.into(),
            sign: Arc::new(sign),
        });
        self
    }

    /// Reports another instance as the leader only if `verify` accepts the proof in its record. Only
    /// the data that it returns is reported then.
    ///
    /// This applies to [`leader`](super::RoleHandle::leader), `status`, `events`, `wait_for_leader`
    /// and `on_leader_change`. Other records are counted in `election_untrusted_records_total`.
    ///
    /// Proofs decide nothing in the election. The instance waits for a record without a proof like
    /// for any other, because otherwise a wrong key would make two leaders.
    ///
    /// `verify` gets the text of a proof, of at most 8 KiB, which anyone may have written. It
    /// returns the statement, and the time for which the statement is valid from now on by this
    /// machine's wall clock, including what it allows for the difference between the clocks. Or it
    /// returns why the proof is not trusted. That the statement is about the record's instance and
    /// role, and this bucket, is checked after it.
    ///
    /// It is called at most once for each record that is seen, and not again for the same leader
    /// until half of that time has passed. It runs on the thread of the elections, so it must not
    /// block or panic.
    pub fn verifier(
        mut self,
        verify: impl Fn(&str) -> Result<(LeaderStatement, Duration), Distrust> + Send + Sync + 'static,
    ) -> Self {
        self.keyring.verify = Some(Arc::new(verify));
        self
    }

    /// Adds a role in whose election this instance takes part, with this handler.
    pub fn role(
        mut self,
        name: impl Into<String>,
        config: RoleConfig,
        handler: impl RoleHandler,
    ) -> Self {
        let config = Some(Box::new(config));
        let handler = handler.boxed().0;
        self.roles.push((name.into(), config, handler));
        self
    }

    /// Adds a role with the settings that the configuration has under its name: see
    /// [`config`](Self::config). `start` fails if it has none.
    pub fn configured_role(mut self, name: impl Into<String>, handler: impl RoleHandler) -> Self {
        let handler = handler.boxed().0;
        self.roles.push((name.into(), None, handler));
        self
    }

    /// Adds a group in which this instance takes part, with the settings that the [`Group`] has.
    pub fn group(mut self, group: Group) -> Self {
        self.groups.push(group);
        self
    }

    /// Adds a group with the settings that the configuration has under its name: see
    /// [`config`](Self::config). `start` fails if it has none.
    ///
    /// Settings of the [`Group`] itself are defaults: each is replaced, as a whole, by one of the
    /// same name in the configuration. A number of shards that is only in the configuration is 0 in
    /// [`Group::sharded`].
    pub fn configured_group(self, mut group: Group) -> Self {
        group.is_configured = true;
        self.group(group)
    }

    /// Connects, opens the bucket, and takes part in the election of every role.
    ///
    /// The method returns when the elections have begun, not when they are decided. To wait for a
    /// decision, see [`RoleHandle::wait_for_leader`](super::RoleHandle::wait_for_leader). Handlers
    /// run on the runtime on which this method is called.
    ///
    /// # Errors
    /// Returns an error at once, before anything connects, if a setting or a name breaks a rule, or
    /// a file can't be used.
    ///
    /// Returns an error as soon as the cause is known if NATS refuses the credentials, either side
    /// refuses the other's certificates, the bucket is missing or unfit, JetStream is off, or a
    /// permission is missing.
    ///
    /// Returns [`Error::Unavailable`] if NATS could not be used within `start_timeout`.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing is left running.
    pub async fn start(self) -> Result<RoleManager, Error> {
        self.launched().await
    }

    /// The future of an async function is compiled in each program that awaits it, with all that it
    /// calls. That of a plain function is compiled here.
    fn launched(self) -> BoxFuture<'static, Result<RoleManager, Error>> {
        Box::pin(self.launch())
    }
}

impl fmt::Debug for RoleManagerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let roles: Vec<_> = self.roles.iter().map(|(name, ..)| name).collect();
        f.debug_struct("RoleManagerBuilder")
            .field("config", &self.access.config)
            .field("roles", &roles)
            .finish_non_exhaustive()
    }
}
