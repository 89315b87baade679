//! Groups: work that is spread over instances, each unit of which has one owner at a time.
//!
//! A role costs a heartbeat. A group's units share one: an instance keeps a single lease for all
//! that it owns of a group. So a group may have thousands of units.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use nats_elect_core::assignment::{MOST_NAMES, Units};
use nats_elect_core::name::{GroupName, NameError, UnitName};

use crate::error::Error;
use crate::model::config::{ConfigError, GroupConfig, RoleSettings};
use crate::role::{ErasedHandler, GroupScope, Instance, RoleHandler, UnitHandlers};

/// A group that an instance takes part in. [`RoleManagerBuilder::group`] takes it, and
/// [`configured_group`] does with the settings of a configuration file.
///
/// All instances should give the same units to a group of one name.
///
/// [`RoleManagerBuilder::group`]: crate::RoleManagerBuilder::group
/// [`configured_group`]: crate::RoleManagerBuilder::configured_group
#[must_use = "give it to `RoleManagerBuilder::group`"]
pub struct Group {
    pub(crate) name: String,
    /// The handler of all shards, if it is a sharded group.
    shards: Option<Arc<dyn ErasedHandler>>,
    units: Vec<(String, Arc<dyn ErasedHandler>)>,
    pub(crate) config: GroupConfig,
    /// Whether the settings of the configuration replace these.
    pub(crate) is_configured: bool,
}

impl Group {
    /// A group of `shards` units with the names 0, 1, 2 and so on, from 1 to 65,536 of them. Each
    /// has a term of its own with this handler, which finds its number in
    /// [`Term::shard`](crate::Term::shard).
    ///
    /// The number counts when the group is new. Later it is what the group's map says:
    /// [`GroupHandle::resize`](crate::GroupHandle::resize) changes it.
    pub fn sharded(name: impl Into<String>, shards: u32, handler: impl RoleHandler) -> Self {
        let mut group = Self::spread(name);
        group.shards = Some(handler.boxed().0);
        group.config.shards = Some(shards);
        group
    }

    /// A group without units yet: see [`unit`](Self::unit).
    pub fn spread(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            shards: None,
            units: Vec::new(),
            config: GroupConfig::default(),
            is_configured: false,
        }
    }

    /// Adds a unit with a handler of its own. `start` fails if the group is a sharded one.
    pub fn unit(mut self, name: impl Into<String>, handler: impl RoleHandler) -> Self {
        self.units.push((name.into(), handler.boxed().0));
        self
    }

    /// Sets what a unit weighs, beside other units of the group. Default: 1,000, as for each unit. 1
    /// to 1,000,000. All instances should have the same.
    pub fn weight(mut self, unit: impl Into<String>, weight: u32) -> Self {
        self.config.weights.insert(unit.into(), weight);
        self
    }

    /// Keeps these units on different instances where there are enough of them, also at the cost of
    /// balance. All instances should have the same.
    pub fn apart<U: Into<String>>(mut self, units: impl IntoIterator<Item = U>) -> Self {
        let units = units.into_iter().map(Into::into).collect();
        self.config.apart.push(units);
        self
    }

    /// Has only instances own these units that have this one of
    /// [`MemberConfig::labels`](field@crate::MemberConfig::labels). If there is none, they have no
    /// owner. All instances should have the same.
    pub fn requires<U: Into<String>>(
        mut self,
        units: impl IntoIterator<Item = U>,
        label: impl Into<String>,
    ) -> Self {
        add(&mut self.config.requires, units, label);
        self
    }

    /// Has these units go to instances that have this one of
    /// [`MemberConfig::labels`](field@crate::MemberConfig::labels), where the balance allows it. All
    /// instances should have the same.
    pub fn prefers<U: Into<String>>(
        mut self,
        units: impl IntoIterator<Item = U>,
        label: impl Into<String>,
    ) -> Self {
        add(&mut self.config.prefers, units, label);
        self
    }

    /// Spreads these units evenly over the zones, also at the cost of balance. An instance's zone is
    /// the entry `zone` of its metadata. All instances should have the same.
    pub fn across_zones<U: Into<String>>(mut self, units: impl IntoIterator<Item = U>) -> Self {
        let units = units.into_iter().map(Into::into).collect();
        self.config.across_zones.push(units);
        self
    }

    /// Limits the bytes that each unit keeps by [`Term::store`](crate::Term::store). At least 1
    /// KiB. Default: no limit.
    pub const fn data_limit(mut self, bytes: u64) -> Self {
        self.config.data_limit = Some(bytes);
        self
    }

    /// Checks the names and the numbers. Returns the group as this instance has it, which keeps a
    /// lease with these settings.
    pub(crate) fn on(
        self,
        instance: &Arc<Instance>,
        lease: &RoleSettings,
        runtime: &Handle,
    ) -> Result<Arc<GroupScope>, Error> {
        let name = GroupName::new(&self.name)?;
        let breaks = |error| Error::GroupConfig {
            group: self.name.clone(),
            error,
        };
        self.config.validate().map_err(breaks)?;
        let count = self.units.len();
        let (units, handlers) = match (self.shards, self.config.shards) {
            (Some(handler), Some(shards)) if count == 0 => {
                (Units::Shards(shards), UnitHandlers::Shards(handler))
            }
            (None, None) => {
                let units = self.units.into_iter();
                let units = units.map(|(unit, handler)| Ok((UnitName::new(&unit)?, handler)));
                let handlers: BTreeMap<_, _> = units.collect::<Result<_, NameError>>()?;
                if handlers.is_empty() || handlers.len() < count {
                    let value = format!("{:?}", handlers.keys());
                    let rule = "must be at least one, each with a name of its own";
                    return Err(breaks(ConfigError::new("units", value, rule)));
                }
                if count > MOST_NAMES {
                    let rule = format!("must be at most {MOST_NAMES}");
                    let error = ConfigError::new("units", count.to_string(), rule);
                    return Err(breaks(error));
                }
                let names = handlers.keys().cloned().collect();
                (Units::Names(names), UnitHandlers::Named(handlers))
            }
            (_, shards) => {
                let value = shards.map_or_else(|| "unset".to_owned(), |it| it.to_string());
                let rule = "a sharded group has it and no named units, and a spread group has named units alone";
                return Err(breaks(ConfigError::new("shards", value, rule)));
            }
        };
        let has = |name: &UnitName| match &units {
            Units::Shards(_) => name.as_shard().is_some(),
            Units::Names(names) => names.contains(name),
        };
        self.config.require_units(has).map_err(breaks)?;
        let mut settings = lease.clone();
        settings.data_limit = self.config.data_limit;
        let (config, runtime) = (self.config, runtime.clone());
        Ok(GroupScope::new(
            name, units, config, handlers, settings, runtime, instance,
        ))
    }
}

/// Adds a label for each of these units.
fn add<U: Into<String>>(
    labels: &mut BTreeMap<String, BTreeSet<String>>,
    units: impl IntoIterator<Item = U>,
    label: impl Into<String>,
) {
    let label = label.into();
    for unit in units {
        labels.entry(unit.into()).or_default().insert(label.clone());
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units: Vec<_> = self.units.iter().map(|(name, _)| name).collect();
        f.debug_struct("Group")
            .field("name", &self.name)
            .field("units", &units)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}
