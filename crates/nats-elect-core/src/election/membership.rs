//! An election that keeps the lease of a member of groups. Nobody contends for it.

use super::scene::Scene;
use crate::group::MemberInfo;

impl Scene {
    /// Whether this is no role's election but keeps a member's lease: no fence record begins the
    /// term, and no other instance stands for it.
    pub const fn is_of_member(&self) -> bool {
        self.settings.member.is_some()
    }

    /// Whether a claim may be sent over this sequence. An epoch is claimed once, and only where
    /// nothing ever stood: a second claim could land over its tombstone, or where that was purged.
    /// An instance whose claim was lost goes on under another epoch.
    pub const fn may_claim(&self, over: u64) -> bool {
        !self.is_of_member() || over == 0 && self.last_term == 0
    }

    /// Changes what the next record says beside the lease. The key is a part of the epoch's name.
    pub fn tell_of_member(&mut self, info: MemberInfo) {
        if let Some(member) = &mut self.settings.member
            && member.info.key == info.key
        {
            member.info = info;
        }
    }
}
