//! What is known of members, and until when their leases may last.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Change, View};
use crate::group::epoch::{Epoch, EpochKey, Identity, LONGEST_LEASE};
use crate::group::key::UnitKey;
use crate::group::member_info::{MemberInfo, Support};
use crate::group::record::MemberContent;
use crate::moment::Moment;
use crate::mutation::mutated;
use crate::name::GroupName;

/// What is known of an epoch.
#[derive(Clone, Debug)]
pub(in crate::group) struct Member {
    /// The sequence of its last record. 0 if it is missing.
    pub sequence: u64,
    /// It was proved once, and cannot change.
    pub identity: Option<Identity>,
    /// The id of its instance.
    pub id: String,
    pub info: Option<MemberInfo>,
    /// The groups of which it last told that they were made. `None` if it told nothing.
    pub made: Option<BTreeSet<GroupName>>,
    /// Since when it has been well without a break. The clock's origin if that was before this
    /// member's watch.
    pub since: Moment,
    /// It was silent or missing shortly before.
    pub flapped: bool,
    pub deposed: bool,
    /// The sequence and the end of the lease of the record that a watch lacked: it was purged, or
    /// written over while the watch began.
    pub lacked: Option<(u64, Moment)>,
    /// Until when its lease may last, as far as this member has watched it.
    pub over_at: Moment,
    pub watch: u64,
}

impl View {
    pub(super) fn learn_of_member(
        &mut self,
        epoch: Epoch,
        sequence: u64,
        over: Option<u64>,
        content: MemberContent,
        now: Moment,
    ) -> Change {
        let watch = self.watch;
        let before = self.members.get_mut(&epoch);
        if let Some(before) = before {
            before.watch = watch;
            if sequence <= before.sequence {
                return Change::Nothing;
            }
        }
        let before = self.members.get(&epoch);
        let known = before.and_then(|before| before.identity);
        let well = before.filter(|it| it.info.is_some() && now < it.over_at);
        let mut change = Change::Member(epoch);
        let (since, flapped) = match (well, before) {
            (Some(well), _) => (well.since, well.flapped),
            (None, Some(before)) if before.is_followed_by(over, now) => {
                (before.since, before.flapped)
            }
            (None, _) if !self.caught_up => (Moment::default(), false),
            (None, _) => (now, before.is_some_and(Member::was_shown)),
        };
        let (identity, id, info, deposed, over_at) = match content {
            MemberContent::Record(seen) => {
                let identity = known.or(seen.identity);
                let takes_the_same_part = |it: &MemberInfo| {
                    seen.info
                        .as_ref()
                        .is_some_and(|now| now.takes_the_part_of(it))
                };
                if well
                    .and_then(|it| it.info.as_ref())
                    .is_some_and(takes_the_same_part)
                {
                    change = Change::Heartbeat(epoch);
                }
                (
                    identity,
                    seen.id,
                    seen.info,
                    false,
                    now + lease_of(identity),
                )
            }
            MemberContent::Tombstone { secret, identity } => {
                let known = known.or(identity);
                let told = secret.map(crate::release::ReleaseSecret::hash);
                let own = told.is_some() && told == known.map(|known| known.release);
                // A record that was gone before a complete view lacked it was watched by nobody.
                let is_watched = |it: &&Member| it.sequence > 0 || self.caught_up;
                let watched = before.filter(|before| over == Some(before.sequence));
                let watched = watched.filter(is_watched);
                let over_at = if own {
                    if before.is_none_or(|before| !before.deposed) {
                        change = Change::Freed(epoch);
                    }
                    now
                } else {
                    // The lease of the very record that it replaces was watched from its receipt.
                    watched.map_or(now + lease_of(known), |before| before.over_at)
                };
                let id = before.map_or_else(String::new, |before| before.id.clone());
                (known, id, None, true, over_at)
            }
        };
        let told = info.as_ref().map(MemberInfo::made);
        let member = Member {
            sequence,
            identity,
            id,
            made: told.or_else(|| before.and_then(|before| before.made.clone())),
            info,
            since,
            flapped,
            deposed,
            lacked: None,
            over_at,
            watch,
        };
        self.members.insert(epoch, member);
        change
    }

    /// Nobody watches the lease of an epoch that has no record. So it is counted from the moment at
    /// which a complete view lacked it.
    pub(super) fn note_missing(&mut self, epoch: Epoch, now: Moment) {
        let watch = self.watch;
        self.members.entry(epoch).or_insert(Member {
            sequence: 0,
            identity: None,
            id: String::new(),
            info: None,
            made: None,
            since: now,
            flapped: false,
            deposed: false,
            lacked: None,
            over_at: now + LONGEST_LEASE,
            watch,
        });
    }

    /// A member that joins has not watched the leases of those that it knew before. Those whose
    /// records are gone have renewed theirs until now, at most. So have those that the first watch
    /// showed, and that do not stand there any more.
    pub(super) fn wait_for_the_missing(&mut self, stand: Option<&[Epoch]>, now: Moment) {
        let stand: Option<BTreeSet<&Epoch>> = stand.map(|all| all.iter().collect());
        let stands = |epoch: &Epoch| stand.as_ref().is_none_or(|all| all.contains(epoch));
        for (epoch, member) in &mut self.members {
            if !member.deposed && (member.sequence == 0 || !stands(epoch)) {
                member.over_at = now + lease_of(member.identity);
            }
        }
    }

    /// A tombstone of ours is confirmed.
    pub fn deposed(&mut self, epoch: Epoch, over: u64, sequence: u64) {
        if let Some(member) = self.members.get_mut(&epoch)
            && member.sequence == over
            && !member.deposed
        {
            (member.deposed, member.sequence, member.info) = (true, sequence, None);
        }
    }

    pub fn members(&self) -> impl Iterator<Item = (Epoch, &Member)> {
        self.members.iter().map(|(epoch, member)| (*epoch, member))
    }

    /// The identity that the name of an epoch proves, if its record told it.
    pub fn identity_of(&self, epoch: Epoch) -> Option<Identity> {
        self.members.get(&epoch)?.identity
    }

    /// The public key of an epoch, if its record proved it.
    pub fn key_of(&self, epoch: Epoch) -> Option<EpochKey> {
        Some(self.members.get(&epoch)?.identity?.key)
    }

    pub fn epochs(&self) -> impl Iterator<Item = Epoch> {
        self.members.keys().copied()
    }

    pub fn member(&self, epoch: Epoch) -> Option<&Member> {
        self.members.get(&epoch)
    }

    /// Whether what the epoch owns is free: its tombstone was shown, and this member itself has
    /// waited for its lease.
    pub fn is_deposed(&self, epoch: Epoch, now: Moment) -> bool {
        let member = self.members.get(&epoch);
        member.is_some_and(|it| it.deposed && it.over_at <= now)
    }

    /// The sequence that a tombstone over the epoch's last record expects, if its lease was watched
    /// to its end.
    pub fn deposable(&self, epoch: Epoch, now: Moment) -> Option<u64> {
        let member = self.members.get(&epoch)?;
        let is_over = member.over_at <= now || mutated!(DeposeEarly);
        (!member.deposed && is_over).then_some(member.sequence)
    }

    /// The members that may own units of the group now.
    pub fn living<'a>(
        &'a self,
        group: &'a GroupName,
        now: Moment,
    ) -> impl Iterator<Item = Epoch> + 'a {
        let epochs = self.epochs();
        epochs.filter(move |epoch| self.part_of(*epoch, group, now).is_some())
    }

    /// The part that a member takes in a group, if it may own units of it now.
    fn part_of(&self, epoch: Epoch, group: &GroupName, now: Moment) -> Option<&Support> {
        let member = self.members.get(&epoch)?;
        let lives = !member.deposed && now < member.over_at;
        let info = member.info.as_ref().filter(|it| lives && !it.cordoned)?;
        info.groups.get(group)
    }

    /// Whether the group was made for a member that may have a lease, as far as that has told.
    pub fn may_be_made(&self, group: &GroupName, now: Moment) -> bool {
        let mut living = self.members.values().filter(|it| now < it.over_at);
        living.any(|it| it.made.as_ref().is_none_or(|made| made.contains(group)))
    }

    /// Whether the member may own the unit now: it has a handler for it, as far as it tells.
    pub fn takes(&self, epoch: Epoch, unit: &UnitKey, now: Moment) -> bool {
        let part = self.part_of(epoch, &unit.group, now);
        part.is_some_and(|it| it.has_handler(&unit.unit))
    }
}

impl Member {
    pub const fn is_deposed(&self) -> bool {
        self.deposed
    }

    /// Whether a watch has shown a record of it. A first watch may have lacked it.
    const fn was_shown(&self) -> bool {
        self.sequence > 0 || self.lacked.is_some()
    }

    /// Whether the record of a member that a watch lacked was there until the next one, or until
    /// others that were not shown either.
    fn is_followed_by(&self, over: Option<u64>, now: Moment) -> bool {
        let lacked = self.lacked.filter(|(_, over_at)| now < *over_at);
        lacked.is_some_and(|(sequence, _)| over >= Some(sequence))
    }
}

pub(super) fn lease_of(identity: Option<Identity>) -> Duration {
    identity.map_or(LONGEST_LEASE, |identity| identity.ttl)
}
