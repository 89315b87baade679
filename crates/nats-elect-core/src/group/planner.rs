//! Who plans, and whom the plan is told.

use super::epoch::Epoch;
use super::machine::Group;
use super::record::LONGEST_LEASE;
use crate::moment::Moment;
use crate::name::GroupName;

impl Group {
    /// From when on a member can begin terms at once. One that joined a group that was there waits
    /// for the longest lease, as nobody was its witness before.
    pub(super) fn able_at(&self, group: &GroupName, epoch: Epoch) -> Moment {
        let since = self.view.member(epoch).map_or(self.now, |it| it.since);
        let since = if self.lease.as_ref().is_some_and(|it| it.epoch == epoch) {
            since.max(self.view.joined)
        } else {
            since
        };
        let began_at = self.view.group(group).and_then(|it| it.began_at);
        if since == Moment::default() || began_at.is_some_and(|at| since <= at) {
            since
        } else {
            since + LONGEST_LEASE
        }
    }

    /// Whether a member has been able to take units for two heartbeats.
    pub(super) fn has_settled(&self, group: &GroupName, epoch: Epoch) -> bool {
        self.able_at(group, epoch) + self.settings.heartbeat * 2 <= self.now
    }
}
