//! Looks on: who leads what in a bucket, without standing for election.
//!
//! ```text
//! builder ── monitor (actor)   the connection and the bucket, as a manager has it
//!         └─ watching          one watch over all keys, and what it shows
//!            └─ tracked_roles  what is known of all roles: no I/O, no clock
//!               └─ tracked_role  of one
//! ```

mod builder;
mod observed;
#[cfg(test)]
mod tests;
mod tracked_role;
mod tracked_roles;
mod watching;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::{Stream, stream};
use ractor::ActorRef;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

pub use self::builder::ObserverBuilder;
pub use self::observed::{Change, ChangeCause, Observed, RoleChange, Standing, WatchStatus};
use self::tracked_roles::TrackedRoles;
use self::watching::Shared;
use crate::actors::MonitorMsg;
use crate::clock;
use crate::error::Error;
use nats_elect_core::name::RoleName;
use nats_elect_core::status::LeaderInfo;

/// Watches roles of a bucket without standing for election. Cheap to clone; dropping the last clone ends it.
///
/// It writes nothing, and needs no permission to: `deploy/nats/observer.conf` has all that it does. However many roles
/// there are, it makes one watch, which it begins anew after whatever ended it.
///
/// # What its word is worth
///
/// What it tells is what was seen, and so late by the time that messages are under way; only a leader itself knows whether it
/// may act. Leases are counted on a local monotonic clock, from when a heartbeat was received:
///
/// - A leader is told as gone at once when it freed its role or somebody deleted the key, or when another one claimed it. Otherwise
///   only when its record has stood unchanged for its whole lease *and* the stream leader, asked after that, had nothing
///   newer.
/// - While nothing can be seen, nobody is told as gone. [`connection`](Self::connection) says that what is told is stale, and
///   since when. When the last leader's lease has passed so, the role is [`Unknown`](Standing::Unknown), which is not
///   the same as free. After that the count begins anew with what the new watch shows.
/// - A record that stood there when the watch began may be of a leader that died long ago. It is told as
///   the leader, but not as [`confirmed`](Observed::confirmed) until a heartbeat is seen; if none comes, it is
///   [`Expired`](Standing::Expired) after its lease.
/// - A new watch may be on a NATS server that lags behind the others. It counts only once it has shown of all roles what the
///   stream leader had when it began, and a record older than one that was seen only if the stream leader says that it stands there.
/// - If the bucket is deleted and created again, all roles begin anew, and are not known before it was read.
#[derive(Clone)]
#[must_use = "dropping the observer ends it"]
pub struct Observer {
    inner: Arc<Inner>,
}

struct Inner {
    shared: Arc<Shared>,
    monitor: ActorRef<MonitorMsg>,
    /// Aborted when they are dropped.
    _tasks: JoinSet<()>,
}

impl Observer {
    /// Begins to put an observer together.
    pub fn builder() -> ObserverBuilder {
        ObserverBuilder::default()
    }

    fn new(shared: Arc<Shared>, monitor: ActorRef<MonitorMsg>, tasks: JoinSet<()>) -> Self {
        Self {
            inner: Arc::new(Inner {
                shared,
                monitor,
                _tasks: tasks,
            }),
        }
    }

    /// Who leads the role, as far as is known; also if that is stale, or not confirmed yet. [`role`](Self::role) tells more.
    pub fn leader(&self, role: &str) -> Option<LeaderInfo> {
        self.inner.shared.tracked_roles().leader(role)
    }

    /// The role at the time of this call; nothing if it is not watched, or never appeared.
    pub fn role(&self, role: &str) -> Option<Observed> {
        // Within the lock: what is known must not be younger than the clock.
        let tracked_roles = self.inner.shared.tracked_roles();
        tracked_roles.observed(role, clock::now())
    }

    /// All roles at the time of this call: those that were asked for, or all that appeared in this bucket.
    pub fn roles(&self) -> BTreeMap<String, Observed> {
        let tracked_roles = self.inner.shared.tracked_roles();
        tracked_roles.all(clock::now())
    }

    /// Whether what is told is current.
    pub fn connection(&self) -> WatchStatus {
        let tracked_roles = self.inner.shared.tracked_roles();
        tracked_roles.status(clock::now())
    }

    /// What changes from now on; [`roles`](Self::roles), called after this, tells how things stand. A reader that is too slow
    /// is told how much it missed, by [`Change::Lagged`]. The stream ends with the observer, and does not keep it.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping a `next` that waits.
    pub fn changes(&self) -> impl Stream<Item = Change> + Send + Unpin + use<> {
        let changes = self.inner.shared.changes.subscribe();
        let ended = self.inner.shared.ended.clone();
        Box::pin(stream::unfold(
            (changes, ended),
            |(mut changes, ended)| async move {
                let change = tokio::select! {
                    biased;
                    change = changes.recv() => change,
                    () = ended.cancelled() => return None,
                };
                match change {
                    Ok(change) => Some((change, (changes, ended))),
                    Err(RecvError::Lagged(missed)) => {
                        Some((Change::Lagged { missed }, (changes, ended)))
                    }
                    Err(RecvError::Closed) => None,
                }
            },
        ))
    }

    /// Waits until somebody is known to lead the role: a leader that was seen alive, not one whose record only stands there, and
    /// not one that was seen before an interruption that lasts.
    ///
    /// # Errors
    /// [`Error::Name`]; [`Error::UnknownRole`] if the role is not among those that were asked for; [`Error::Stopped`] if the
    /// observer has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost by dropping the future.
    pub async fn wait_for_leader(&self, role: &str) -> Result<LeaderInfo, Error> {
        let name = RoleName::new(role)?;
        if !self.inner.shared.tracked_roles().is_wanted(&name) {
            return Err(Error::UnknownRole(role.to_owned()));
        }
        self.until(|tracked_roles| tracked_roles.confirmed_leader(role))
            .await
    }

    async fn until_current(&self) -> Result<(), Error> {
        let now = clock::now();
        self.until(|tracked_roles| tracked_roles.status(now).is_current().then_some(()))
            .await
    }

    async fn until<T>(
        &self,
        mut holds: impl FnMut(&TrackedRoles) -> Option<T>,
    ) -> Result<T, Error> {
        let shared = &self.inner.shared;
        let mut moved = shared.moved.subscribe();
        let known = async {
            loop {
                if let Some(found) = holds(&shared.tracked_roles()) {
                    return Ok(found);
                }
                moved.changed().await.map_err(|_| Error::Stopped)?;
            }
        };
        let ended = shared.ended.run_until_cancelled(known).await;
        ended.unwrap_or(Err(Error::Stopped))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // First: that the monitor has ended is no news then.
        self.shared.ended.cancel();
        self.monitor.stop(None);
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("connection", &self.connection())
            .field("roles", &self.roles())
            .finish_non_exhaustive()
    }
}
