//! A member's machine as others may see it: who owns what, who takes part, who plans. All of it is
//! this member's own view, and decides nothing.

use std::time::Duration;

use super::epoch::Epoch;
use super::key::UnitKey;
use super::machine::Group;
use super::member_info::MemberInfo;
use super::policy::{Imbalance, first};
use super::record::{GroupRecord, UnitRecord};
use super::view::{KnownUnit, Member};
use crate::moment::Moment;
use crate::name::GroupName;

/// A unit, as this member knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownUnit<'a> {
    /// The unit.
    pub key: &'a UnitKey,
    /// The sequence of its record, which is the token of the term on it. 0 if it is missing.
    pub sequence: u64,
    /// The epoch that its record names.
    pub owner: Option<Epoch>,
    /// What stands there.
    pub state: UnitState,
    /// From when on somebody may build on its record.
    pub quiet_until: Moment,
}

/// What stands under a unit's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnitState {
    /// A record that names an epoch which is not deposed.
    Owned,
    /// A record that names an epoch which is deposed. Somebody takes it when this member, too, has
    /// waited for the end of that epoch's lease.
    Orphaned,
    /// A record that names nobody.
    Nobody,
    /// The record that closes it for good.
    Closed,
    /// Something that is not understood, or a delete marker.
    Unknown,
    /// Nothing. It is created soon.
    Missing,
}

/// A member, as this one knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShownMember<'a> {
    /// The epoch.
    pub epoch: Epoch,
    /// The id of its instance, made printable. Empty if it is not known.
    pub instance: &'a str,
    /// What its record says beside its lease. `None` if it is deposed, missing or not understood.
    pub info: Option<&'a MemberInfo>,
    /// The length of its lease. `None` if its record never told that truly: then
    /// [`LONGEST_LEASE`](super::LONGEST_LEASE) counts.
    pub lease: Option<Duration>,
    /// Whether it lives.
    pub state: MemberState,
    /// Since when it has been well without a break, as this member was shown. The origin of the
    /// clock if that was before this member's watch.
    pub since: Moment,
    /// Until when its lease may last, if no heartbeat of it is shown.
    pub over_at: Moment,
}

/// Whether a member lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemberState {
    /// Its heartbeats are shown.
    Living,
    /// Its lease may be over, and no tombstone says so yet.
    Silent,
    /// It has a tombstone. Its epoch never comes back.
    Deposed,
}

impl Group {
    /// The record of a group by which this member acts. `None` if there is none, if it is not
    /// understood, or if the group has another kind of units than this member's settings have.
    pub fn record(&self, group: &GroupName) -> Option<GroupRecord> {
        self.record_of(group)
    }

    /// The generation of a group that this member's own record tells. Others rely on it: 0 while it
    /// does not know that the group was made. It goes on whatever becomes of the group's key.
    pub fn generation(&self, group: &GroupName) -> u32 {
        let made = self.view.known(group).filter(|it| !it.making);
        made.map_or(0, |it| it.generation)
    }

    /// Whether the records of most units of a group are not of age for this member yet. That is so after
    /// a growth, if it has come since the units were created.
    pub fn waits(&self, group: &GroupName) -> bool {
        // The units of a group that is only being made are of age at once when it is.
        let Some(record) = self.record_of(group).filter(|it| !it.making) else {
            return false;
        };
        let units = self.view.units_in(group);
        let present = units.filter(|(key, _)| self.is_present(key, &record));
        let (mut all, mut young) = (0_usize, 0_usize);
        for (_, unit) in present {
            all += 1;
            young += usize::from(self.now < unit.quiet_until);
        }
        young > all / 2
    }

    /// The record of a group that has another kind of units than this member's settings. Then this
    /// member takes no part in the group, and must not tell others that it does.
    pub fn misfit(&self, group: &GroupName) -> Option<GroupRecord> {
        let units = self.settings.groups.get(group)?;
        self.view.known(group).filter(|it| !units.is_of(it.kind))
    }

    /// The units of a group that this member knows, in the order of their generations and names.
    pub fn owners<'a>(
        &'a self,
        group: &'a GroupName,
    ) -> impl Iterator<Item = ShownUnit<'a>> + use<'a> {
        self.view.units_in(group).map(|(key, unit)| {
            let owner = self.view.owner_of(key);
            let is_deposed = |owner| self.view.member(owner).is_some_and(Member::is_deposed);
            let state = match unit.known {
                KnownUnit::Record(UnitRecord::Owned(owner)) if is_deposed(owner) => {
                    UnitState::Orphaned
                }
                KnownUnit::Record(UnitRecord::Owned(_)) => UnitState::Owned,
                KnownUnit::Record(UnitRecord::Nobody) => UnitState::Nobody,
                KnownUnit::Record(UnitRecord::Closed) => UnitState::Closed,
                KnownUnit::Opaque => UnitState::Unknown,
                KnownUnit::Missing => UnitState::Missing,
            };
            ShownUnit {
                key,
                sequence: unit.sequence,
                owner,
                state,
                quiet_until: unit.quiet_until,
            }
        })
    }

    /// All epochs that this member knows, also those that are deposed.
    pub fn members(&self) -> impl Iterator<Item = ShownMember<'_>> {
        self.view.members().map(|(epoch, member)| ShownMember {
            epoch,
            instance: &member.id,
            info: member.info.as_ref(),
            lease: member.identity.map(|identity| identity.ttl),
            state: if member.is_deposed() {
                MemberState::Deposed
            } else if member.over_at <= self.now {
                MemberState::Silent
            } else {
                MemberState::Living
            },
            since: member.since,
            over_at: member.over_at,
        })
    }

    /// The epoch of this member, while its lease is valid.
    pub fn own_epoch(&self) -> Option<Epoch> {
        self.valid_lease().map(|(epoch, _)| epoch)
    }

    /// This member's own record, as its watch showed it last. `None` while it has no
    /// lease.
    pub fn own_info(&self) -> Option<&MemberInfo> {
        let (epoch, _) = self.valid_lease()?;
        self.view.member(epoch)?.info.as_ref()
    }

    /// Until when this member's lease is valid, if nothing more is confirmed. `None` if it has none.
    pub fn lease_until(&self) -> Option<Moment> {
        self.valid_lease().map(|(_, until)| until)
    }

    /// The imbalance of the present owners, and the one that is left when all moves have ended, as
    /// this member planned last. `None` while it does not plan for the group.
    pub fn planned_imbalance(&self, group: &GroupName) -> Option<(Imbalance, Imbalance)> {
        self.plans.get(group)?.imbalance
    }

    /// The member that plans for the group: of those that may own units of it the first by
    /// rendezvous hash of the group's name, with an empty unit's name. Members that have settled,
    /// and do not wait for units to come of age, come before others. `None` if nobody takes units.
    ///
    /// There is no record of it. Two members may each take themselves for it until both were shown
    /// the same. Their hints then contradict each other, and decide nothing.
    pub fn planner_of(&self, group: &GroupName) -> Option<Epoch> {
        let (settled, others): (Vec<Epoch>, Vec<Epoch>) = self
            .view
            .living(group, self.now)
            .partition(|epoch| self.has_settled(group, *epoch));
        let among = if settled.is_empty() { others } else { settled };
        first(group, "", among)
    }
}
