//! Groups: work that is spread over instances, each unit of which has one owner at a time.
//!
//! A role costs a heartbeat. A group's units share one: an instance keeps a single lease for all
//! that it owns. So a group may have thousands of units.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nats_elect_core::group::{
    MOST_GROUPS, MOST_NAMED, MOST_NAMES_BYTES, MOST_SHARDS, Placement, Support, Units,
};
use nats_elect_core::name::{GroupName, NameError, UnitName};

use self::placement::{Balanced, Policy, PolicySettings};
use crate::error::Error;
use crate::guarded_policy::GuardedPolicy;
use crate::model::config::ConfigError;
use crate::role::{ErasedHandler, RoleHandler, UnitHandlers};

/// A group that an instance takes part in. [`RoleManagerBuilder::group`] takes it.
///
/// All instances should give the same units to a group of one name.
///
/// [`RoleManagerBuilder::group`]: crate::RoleManagerBuilder::group
#[must_use = "give it to `RoleManagerBuilder::group`"]
pub struct Group {
    name: String,
    kind: Kind,
    policy: Option<Arc<dyn Policy>>,
    placed: Vec<(String, Wish)>,
    data_limit: Option<u64>,
}

/// What the settings want of one unit's place.
#[derive(Clone)]
enum Wish {
    Weight(u32),
    ApartFrom(String),
    Requires(String),
    Prefers(String),
    /// The name of the set that is spread over the zones.
    Zones(String),
}

enum Kind {
    Sharded(u32, Arc<dyn ErasedHandler>),
    Spread(Vec<(String, Arc<dyn ErasedHandler>)>),
}

impl Group {
    /// A group of `shards` units with the names 0, 1, 2 and so on, from 1 to 65,536 of them. Each
    /// has a term of its own with this handler, which finds its number in
    /// [`Term::shard`](crate::Term::shard).
    ///
    /// The number counts when the group is new. Later it is what the group's record says.
    pub fn sharded(name: impl Into<String>, shards: u32, handler: impl RoleHandler) -> Self {
        Self {
            name: name.into(),
            kind: Kind::Sharded(shards, handler.boxed().erased()),
            policy: None,
            placed: Vec::new(),
            data_limit: None,
        }
    }

    /// A group without units yet: see [`unit`](Self::unit).
    pub fn spread(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: Kind::Spread(Vec::new()),
            policy: None,
            placed: Vec::new(),
            data_limit: None,
        }
    }

    /// Adds a unit with a handler of its own. `start` fails if the group is a sharded one.
    pub fn unit(mut self, name: impl Into<String>, handler: impl RoleHandler) -> Self {
        let unit = (name.into(), handler.boxed().erased());
        match &mut self.kind {
            Kind::Spread(units) => units.push(unit),
            // `settle` reports it: shards have no names.
            Kind::Sharded(shards, _) => *shards = 0,
        }
        self
    }

    /// Sets which instance should own which unit: [`Balanced`](placement::Balanced) with other
    /// settings, or a policy of your own. All instances should have the same. Default: `Balanced`
    /// with its defaults.
    ///
    /// A policy that panics plans nothing: units stay where they are, and free ones are taken by the
    /// next instance that may.
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Some(Arc::new(GuardedPolicy(policy)));
        self
    }

    /// Sets what a unit weighs, beside other units of the group. Default: 1,000, as for each unit. 1
    /// to 1,000,000. All instances should have the same.
    pub fn weight(mut self, unit: impl Into<String>, weight: u32) -> Self {
        self.placed.push((unit.into(), Wish::Weight(weight)));
        self
    }

    /// Keeps these units on different instances where there are enough of them, also at the cost of
    /// balance. All instances should have the same.
    pub fn apart<U: Into<String>>(mut self, units: impl IntoIterator<Item = U>) -> Self {
        let units: Vec<String> = units.into_iter().map(Into::into).collect();
        for (index, unit) in units.iter().enumerate() {
            let others = units[index + 1..].iter();
            self.placed
                .extend(others.map(|other| (unit.clone(), Wish::ApartFrom(other.clone()))));
        }
        self
    }

    /// Has only instances own these units that have this one of
    /// [`MemberConfig::labels`](field@crate::MemberConfig::labels). If there is none, they have no
    /// owner. All instances should have the same.
    pub fn requires<U: Into<String>>(
        self,
        units: impl IntoIterator<Item = U>,
        label: impl Into<String>,
    ) -> Self {
        self.wish(units, &Wish::Requires(label.into()))
    }

    /// Has these units go to instances that have this one of
    /// [`MemberConfig::labels`](field@crate::MemberConfig::labels), where the balance allows it. All
    /// instances should have the same.
    pub fn prefers<U: Into<String>>(
        self,
        units: impl IntoIterator<Item = U>,
        label: impl Into<String>,
    ) -> Self {
        self.wish(units, &Wish::Prefers(label.into()))
    }

    /// Spreads these units evenly over the zones, also at the cost of balance. An instance's zone is
    /// the entry `zone` of its metadata. All instances should have the same.
    pub fn across_zones<U: Into<String>>(self, units: impl IntoIterator<Item = U>) -> Self {
        let units: Vec<String> = units.into_iter().map(Into::into).collect();
        let set = units.first().cloned().unwrap_or_default();
        self.wish(units, &Wish::Zones(set))
    }

    fn wish<U: Into<String>>(mut self, units: impl IntoIterator<Item = U>, wish: &Wish) -> Self {
        let units = units.into_iter().map(|unit| (unit.into(), wish.clone()));
        self.placed.extend(units);
        self
    }

    /// Limits the bytes that each unit keeps by [`Term::store`](crate::Term::store). At least 1
    /// KiB. Default: no limit.
    pub const fn data_limit(mut self, bytes: u64) -> Self {
        self.data_limit = Some(bytes);
        self
    }

    /// Checks the names and the numbers.
    pub(crate) fn settle(self) -> Result<Settled, Error> {
        let name = GroupName::new(&self.name)?;
        let breaks = |field: &str, value: String, rule: &str| Error::GroupConfig {
            group: self.name.clone(),
            error: ConfigError::new(field, value, rule),
        };
        let (units, handlers) = match self.kind {
            Kind::Sharded(shards, handler) => {
                if !(1..=MOST_SHARDS).contains(&shards) {
                    let rule = "must be 1 to 65536, and a sharded group has no named units";
                    return Err(breaks("shards", shards.to_string(), rule));
                }
                (Units::Shards(shards), UnitHandlers::Shards(handler))
            }
            Kind::Spread(units) => {
                let count = units.len();
                let units = units
                    .into_iter()
                    .map(|(unit, handler)| Ok((UnitName::new(&unit)?, handler)));
                let handlers: BTreeMap<_, _> = units.collect::<Result<_, NameError>>()?;
                if handlers.is_empty() || handlers.len() < count {
                    let rule = "must be at least one, each with a name of its own";
                    return Err(breaks("units", format!("{:?}", handlers.keys()), rule));
                }
                if count > MOST_NAMED {
                    let rule = format!("must be at most {MOST_NAMED}");
                    return Err(breaks("units", count.to_string(), &rule));
                }
                let names = handlers.keys().cloned().collect();
                (Units::Named(names), UnitHandlers::Named(handlers))
            }
        };
        if let Some(limit) = self.data_limit.filter(|limit| *limit < 1024) {
            let rule = "must be at least 1024";
            return Err(breaks("data_limit", limit.to_string(), rule));
        }
        let mut placed: BTreeMap<UnitName, placement::Unit> = BTreeMap::new();
        for (unit, wish) in self.placed {
            let name = UnitName::new(&unit)?;
            let is_known = match &units {
                Units::Shards(_) => name.as_shard().is_some(),
                Units::Named(names) => names.contains(&name),
            };
            if !is_known {
                return Err(breaks("unit", unit, "must be a unit of the group"));
            }
            let unit = placed.entry(name).or_default();
            match wish {
                Wish::Weight(weight) => unit.weight = weight,
                Wish::Requires(label) => _ = unit.requires.insert(label),
                Wish::Prefers(label) => _ = unit.prefers.insert(label),
                Wish::Zones(set) => unit.spread = Some(set),
                Wish::ApartFrom(other) => {
                    unit.apart_from.insert(UnitName::new(&other)?);
                }
            }
        }
        Ok(Settled {
            name,
            units,
            policy: self.policy,
            placed,
            handlers,
            data_limit: self.data_limit,
        })
    }
}

/// A group whose settings keep all rules.
pub(crate) struct Settled {
    pub name: GroupName,
    pub units: Units,
    policy: Option<Arc<dyn Policy>>,
    placed: BTreeMap<UnitName, placement::Unit>,
    pub handlers: UnitHandlers,
    pub data_limit: Option<u64>,
}

impl Settled {
    /// How the units are placed, if not as usual.
    pub fn placement(&self, heartbeat: Duration) -> Option<Placement> {
        if self.policy.is_none() && self.placed.is_empty() {
            return None;
        }
        let usual = || Arc::new(Balanced::new(PolicySettings::new(heartbeat))) as Arc<dyn Policy>;
        Some(Placement {
            policy: self.policy.clone().unwrap_or_else(usual),
            units: self.placed.clone(),
        })
    }
}

/// Refuses more groups and named units than an instance's record can name: nobody reads one that is
/// longer.
pub(crate) fn require_readable(groups: &[Settled]) -> Result<(), Error> {
    let mut bytes = 0;
    for (at, group) in groups.iter().enumerate() {
        let breaks = |value, rule| Error::GroupConfig {
            group: group.name.to_string(),
            error: ConfigError::new("units", value, rule),
        };
        if at >= MOST_GROUPS {
            let rule = format!("an instance takes part in at most {MOST_GROUPS} groups");
            return Err(breaks(
                format!("group {} of {}", at + 1, groups.len()),
                rule,
            ));
        }
        let names = group.units.names();
        let told = Support {
            units: names.iter().cloned().collect(),
            ..Support::default()
        };
        bytes += group.name.as_str().len() + told.bytes();
        if bytes > MOST_NAMES_BYTES {
            let rule = format!(
                "the names of all groups of an instance and of their units take at most {MOST_NAMES_BYTES} bytes in its record. Give them shorter names, or spread the groups over several instances"
            );
            return Err(breaks(format!("{} units", names.len()), rule));
        }
    }
    Ok(())
}

/// The policies that place units on instances.
pub mod placement {
    pub use nats_elect_core::group::policy::{
        Balanced, Cause, Fleet, Held, Hold, Imbalance, Member, Move, Plan, Policy, PolicySettings,
        Round, Standing, Unfit, Unit, Unplaced, shard_of,
    };
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = match &self.kind {
            Kind::Sharded(shards, _) => format!("0..{shards}"),
            Kind::Spread(units) => {
                let names: Vec<_> = units.iter().map(|(name, _)| name.as_str()).collect();
                names.join(", ")
            }
        };
        f.debug_struct("Group")
            .field("name", &self.name)
            .field("units", &units)
            .finish_non_exhaustive()
    }
}
