//! What is known of the groups of one bucket.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nats_elect::lock::lock;
use nats_elect::{
    FollowedGroups, ObservedGroup, ObservedGroups, ObservedMember, ObservedUnit, WatchStatus,
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;

use super::members::{has_expired, lack, lives, owner};
use super::{Freshness, now};
use crate::text::clean;

/// Units that an event names. Of more it tells the number.
const MOST_NAMED: usize = 100;

/// All groups of a bucket, as far as they are known.
#[derive(Default)]
pub struct GroupView(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Nothing until the groups were read.
    followed: Option<Arc<FollowedGroups>>,
    /// The groups at the last look, with their units. Nothing before the first one.
    looked: Option<BTreeMap<String, HashMap<String, Looked>>>,
}

/// A unit at the last look.
#[derive(PartialEq)]
struct Looked {
    owner: Option<String>,
    /// Since when it has had no owner that is known to live.
    unowned_since: Option<Instant>,
}

#[derive(Serialize, JsonSchema)]
pub struct GroupChange {
    #[schemars(extend("const" = "group"))]
    event: &'static str,
    group: String,
    /// 0 if the group is gone
    unit_count: usize,
    /// Units without an owner that is known to live
    unowned: usize,
    /// Units that have another owner than when this group was told of last, or whose owner is known to
    /// live since then, or not any more
    changed_count: usize,
    /// A hundred of them at most
    changed: Vec<String>,
}

/// All groups at one time.
pub struct Groups {
    pub all: ObservedGroups,
    is_current: bool,
}

impl GroupView {
    /// The groups were read. From now on this tells of them.
    pub fn followed_by(&self, followed: Arc<FollowedGroups>) {
        lock(&self.0).followed = Some(followed);
    }

    /// Nothing until they were read.
    pub fn followed(&self) -> Option<Arc<FollowedGroups>> {
        lock(&self.0).followed.clone()
    }

    /// Nothing until they were read.
    pub fn freshness(&self) -> Option<Freshness> {
        let stale = match self.followed()?.connection() {
            WatchStatus::Stale { since, reason } => Some((since, clean(&reason))),
            _ => None,
        };
        Some(Freshness { stale, read: true })
    }

    /// All groups, at the time of this call. None until they were read.
    pub fn groups(&self) -> Groups {
        let followed = self.followed();
        let all = followed.as_ref().and_then(|it| it.groups());
        Groups {
            all: all.unwrap_or_default(),
            is_current: followed.is_some_and(|it| it.connection().is_current()),
        }
    }

    /// The longest time for which a unit of the group has had no owner that is known to live. 0 if
    /// all have one. Nothing while that can't be told.
    pub fn unowned_for(&self, group: &str) -> Option<Duration> {
        if self.freshness()?.stale.is_some() {
            return None;
        }
        let known = lock(&self.0);
        let units = known.looked.as_ref()?.get(group)?.values();
        let since = units.filter_map(|unit| unit.unowned_since).min();
        Some(since.map_or(Duration::ZERO, |since| now().duration_since(since)))
    }

    /// Takes note of units without an owner. Returns what has changed since the last look, of each
    /// group in one. What is not current is not looked at.
    pub fn look(&self) -> Vec<GroupChange> {
        let groups = self.groups();
        if !groups.is_current {
            return Vec::new();
        }
        let now = now();
        let mut known = lock(&self.0);
        let is_first = known.looked.is_none();
        let mut before = known.looked.take().unwrap_or_default();
        let mut looked = BTreeMap::new();
        let mut told = Vec::new();
        for (name, group) in &groups.all.groups {
            let mut before = before.remove(name).unwrap_or_default();
            let units = groups.look_at(group, &before, now);
            let differs = |unit: &&String| before.remove(*unit).as_ref() != units.get(*unit);
            let mut changed: Vec<_> = units.keys().filter(differs).cloned().collect();
            changed.extend(before.into_keys());
            if !changed.is_empty() {
                told.push(groups.change(name, group, changed));
            }
            looked.insert(name.clone(), units);
        }
        for (name, units) in before {
            let gone = units.into_keys().collect();
            told.push(groups.change(&name, &ObservedGroup::default(), gone));
        }
        known.looked = Some(looked);
        if is_first { Vec::new() } else { told }
    }
}

/// The members of a group that are known to live.
pub fn living(group: &ObservedGroup) -> impl Iterator<Item = &ObservedMember> {
    group.members.values().filter(|member| lives(member))
}

impl Groups {
    /// Those that were read just now.
    pub const fn read(all: ObservedGroups) -> Self {
        Self {
            all,
            is_current: true,
        }
    }

    /// Why a unit has no owner that is known to live, as one word, if it has none.
    pub fn lack(&self, group: &ObservedGroup, unit: &ObservedUnit) -> Option<&'static str> {
        lack(unit, owner(group, unit), self.is_current)
    }

    /// The units without an owner that is known to live, by why that is so.
    pub fn lacking<'a>(&self, group: &'a ObservedGroup) -> BTreeMap<&'static str, Vec<&'a str>> {
        let mut lacking = BTreeMap::<_, Vec<_>>::new();
        for unit in &group.units {
            if let Some(why) = self.lack(group, unit) {
                lacking.entry(why).or_default().push(&*unit.unit);
            }
        }
        lacking
    }

    /// How many units have no owner that is known to live, by why that is so.
    pub fn unowned(&self, group: &ObservedGroup) -> BTreeMap<&'static str, usize> {
        let lacking = self.lacking(group).into_iter();
        lacking.map(|(why, units)| (why, units.len())).collect()
    }

    /// The members of a group whose lease may last.
    pub fn lasting<'a>(
        &self,
        group: &'a ObservedGroup,
    ) -> impl Iterator<Item = &'a ObservedMember> + use<'a> {
        let is_current = self.is_current;
        let members = group.members.values();
        members.filter(move |member| !has_expired(member, is_current))
    }

    /// The units of a group as they are, and as they were at the last look.
    fn look_at(
        &self,
        group: &ObservedGroup,
        before: &HashMap<String, Looked>,
        now: Instant,
    ) -> HashMap<String, Looked> {
        let looked = group.units.iter().map(|unit| {
            let was = before.get(&unit.unit).and_then(|was| was.unowned_since);
            let looked = Looked {
                owner: unit.owner.clone(),
                unowned_since: self.lack(group, unit).map(|_| was.unwrap_or(now)),
            };
            (unit.unit.clone(), looked)
        });
        looked.collect()
    }

    /// For the stream of events.
    fn change(&self, name: &str, group: &ObservedGroup, mut changed: Vec<String>) -> GroupChange {
        let changed_count = changed.len();
        changed.truncate(MOST_NAMED);
        GroupChange {
            event: "group",
            group: name.to_owned(),
            unit_count: group.unit_count(),
            unowned: self.unowned(group).values().sum(),
            changed_count,
            changed,
        }
    }
}
