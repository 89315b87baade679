//! The handle on one group.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use futures::Stream;

use crate::broadcasts::until_ended;
use crate::model::admin::Problem;
use crate::model::unit_explanation::UnitExplanation;
use crate::role::{GroupEvent, GroupScope, Taker, UnitOwner};
use nats_elect_core::name::UnitName;
use nats_elect_core::shard::shard_of;

/// One group on this instance. A handle is cheap to clone.
///
/// What it tells comes from the watch on the bucket, and may be late. It proves nothing: only the
/// owner's own term does.
#[derive(Clone)]
pub struct GroupHandle {
    scope: Arc<GroupScope>,
}

impl GroupHandle {
    pub(super) const fn new(scope: Arc<GroupScope>) -> Self {
        Self { scope }
    }

    /// Returns the group's name.
    pub fn name(&self) -> &str {
        self.scope.name.as_str()
    }

    /// Returns whether this instance has joined: it has a lease, and follows the group's map, so it can
    /// own units. Let no other instance leave until this one has joined.
    ///
    /// It is `false` again when the instance loses its lease, and when it leaves. A cordon changes
    /// nothing.
    ///
    /// It stays `false` while the group has another kind of units than this instance's settings:
    /// shards in place of names, or the reverse. This instance owns nothing of it then, and a warning
    /// in its log says so.
    pub fn has_joined(&self) -> bool {
        self.scope.board.borrow().joined
    }

    /// Returns the number of shards. It is `None` for a group of named units, and before a map of the
    /// group was seen.
    pub fn shards(&self) -> Option<u32> {
        self.scope.board.borrow().shards()
    }

    /// Returns the owner of each known unit.
    pub fn owners(&self) -> BTreeMap<String, Option<UnitOwner>> {
        self.scope.owners()
    }

    /// Returns the units whose handlers run here and may act.
    pub fn mine(&self) -> Vec<String> {
        let running = self.scope.running().into_iter();
        let acting = running.filter(|(_, term)| term.in_office().is_some());
        acting.map(|(unit, _)| unit.as_str().to_owned()).collect()
    }

    /// Returns the owner of a unit. `None` if it has none, or is not known.
    pub fn owner(&self, unit: &str) -> Option<UnitOwner> {
        let unit = UnitName::new(unit).ok()?;
        self.scope.owner(&self.scope.known(), &unit)
    }

    /// Returns the shard that a key belongs to. All instances and versions answer the same for the
    /// same number of shards. `None` if that number is not known, or the group has no shards.
    pub fn shard_of(&self, key: impl AsRef<[u8]>) -> Option<u32> {
        let shards = NonZeroU32::new(self.shards()?)?;
        Some(shard_of(key.as_ref(), shards))
    }

    /// Returns the owner of the shard that a key belongs to, with its number.
    pub fn owner_of(&self, key: impl AsRef<[u8]>) -> Option<(u32, Option<UnitOwner>)> {
        let board = self.scope.known();
        let shard = shard_of(key.as_ref(), NonZeroU32::new(board.shards()?)?);
        Some((shard, self.scope.owner(&board, &UnitName::shard(shard))))
    }

    /// Returns the events from now on. The stream ends when this instance has left the group.
    pub fn events(&self) -> impl Stream<Item = GroupEvent> + Send + Unpin + use<> {
        let left = self.scope.left.clone();
        until_ended(self.scope.listen(), left, GroupEvent::Missed)
    }

    /// Returns the units that the group's plan would move now, that no instance may own, or that are
    /// changing hands, each with the reason, as this instance sees them. `None` if this instance is not
    /// a member now, or follows no map. For this project's tests: `nats-elect group explain` asks
    /// instances.
    #[doc(hidden)]
    pub async fn plan(&self) -> Option<Vec<UnitExplanation>> {
        self.scope.plan().await
    }

    /// Returns why a unit is where it is, as this instance sees it. `None` if this instance is not a
    /// member now, or follows no map, and if the group has no such unit. For this project's tests, too.
    #[doc(hidden)]
    pub async fn explain(&self, unit: &str) -> Option<UnitExplanation> {
        let unit = UnitName::new(unit).ok()?;
        self.scope.explain(&unit).await
    }

    /// Has a unit given to the instance of this id, and waits until the group's map says so. Returns
    /// its new owner.
    ///
    /// The former owner ends its handler first, and then the new owner's starts. If this instance is
    /// the new owner, the method waits for that.
    ///
    /// The unit stays there until something else moves it: the new owner leaves or dies, or the load
    /// changes. A move that the group's plan would undo at once is refused. The plan may move another
    /// unit in return, to keep the balance. To place a unit for good,
    /// give it a weight, [`requires`](crate::Group::requires) or [`apart`](crate::Group::apart).
    ///
    /// The method waits for the stop budget, the lease and three heartbeats at most.
    ///
    /// # Errors
    /// See the problem's [code](crate::admin::ProblemCode), and `docs/admin.md`. Nothing was done,
    /// except after [`Unfinished`](crate::admin::ProblemCode::Unfinished): the unit may still move.
    ///
    /// # Cancel safety
    /// If the future is dropped, the unit may move all the same.
    pub async fn move_unit(&self, unit: &str, instance_id: &str) -> Result<UnitOwner, Problem> {
        self.scope
            .move_unit(unit, Taker::Instance(instance_id))
            .await
    }

    /// Gives the group another number of shards, from 1 to 65,536, and waits until its map says so.
    ///
    /// All handlers are told to end. When all have ended, the new shards start: all at once, as keys
    /// have other shards now. So no two handlers act on one key. A handler that does not end holds this
    /// up, for the lease at most. What shards keep by [`Term::store`](crate::Term::store) belongs to
    /// the former number of shards: the new ones begin with nothing.
    ///
    /// A group that has that number already is left alone. The method waits for the stop budget, the
    /// lease and three heartbeats at most.
    ///
    /// # Errors
    /// See the problem's [code](crate::admin::ProblemCode). Nothing was done, except after
    /// [`Unfinished`](crate::admin::ProblemCode::Unfinished): the new number may still come.
    ///
    /// # Cancel safety
    /// If the future is dropped, the group may be resized all the same.
    pub async fn resize(&self, shards: u32) -> Result<(), Problem> {
        self.scope.resize(shards).await
    }

    /// Waits until what is known fulfils a condition, which is checked at each change. Returns as well
    /// when this instance has left the group.
    ///
    /// # Cancel safety
    /// This method is cancel safe. Nothing is lost if the future is dropped.
    pub async fn wait_until(&self, mut fulfilled: impl FnMut(&Self) -> bool) {
        let mut changed = self.scope.board.subscribe();
        loop {
            changed.mark_unchanged();
            if fulfilled(self) {
                return;
            }
            tokio::select! {
                // The sender is in our own scope.
                _ = changed.changed() => {}
                () = self.scope.left.cancelled() => return,
            }
        }
    }
}

impl fmt::Debug for GroupHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupHandle")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
