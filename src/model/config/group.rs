//! The settings of groups, and of the lease that an instance keeps for all that it owns of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::manager::no_name;
use super::{ConfigError, RoleConfig, RoleSettings};
use nats_elect_core::assignment::{LONGEST_LEASE, MOST_LABELS, MOST_VERSION_BYTES};
use nats_elect_core::config::{data_limit, ensure};
use nats_elect_core::duration::exact;
use nats_elect_core::name::UnitName;
use nats_elect_core::plan::MOST_WEIGHT;
use nats_elect_core::setters;
use nats_elect_core::text::printable;

/// The shortest lease of a member. A watch that has gone silent is noticed after 2.5 s.
const SHORTEST_LEASE: Duration = Duration::from_secs(3);

/// The most shards of a group.
pub(crate) const MOST_SHARDS: u32 = 1 << 16;

/// The lease that an instance keeps for all units that it owns, of all its groups in the bucket.
///
/// In configuration files, durations are written like `15s`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MemberConfig {
    /// How long the lease lasts without renewal. It is about the time for which the units of an
    /// instance have no owner after it crashed. Default 15 s. 3 s to 60 s.
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,

    /// How long a unit's handler may take to wind down before it is aborted. Default: a fifth of
    /// ttl, at most 3 s.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub stop_budget: Option<Duration>,

    /// Whether `Term::authorize` always asks NATS, however recent the last proof is. Default false. If
    /// not, it asks if the last proof is older than a third of ttl.
    pub validate_on_critical_ops: bool,

    /// What [`Group::requires`](crate::Group::requires) and [`prefers`](crate::Group::prefers) look
    /// for, such as `disk=ssd`. At most 32, each of 1 to 255 printable characters. Default: none.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,

    /// How many units of each group this instance owns at most. Units that find no place have no
    /// owner. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_units: Option<u32>,

    /// The version of the application, of at most 64 bytes. While instances of several versions run,
    /// units go to those of the newest: the one whose first instance joined last. Until nobody has
    /// come or gone for two minutes no unit moves that could stay, so that a rolling restart moves
    /// few. Default: none is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Default for MemberConfig {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(15),
            stop_budget: None,
            validate_on_critical_ops: false,
            labels: BTreeSet::new(),
            max_units: None,
            version: None,
        }
    }
}

setters!(MemberConfig {
    ttl: Duration => ttl;
    stop_budget: Duration => Some(stop_budget);
    validate_on_critical_ops: bool => validate_on_critical_ops;
    max_units: u32 => Some(max_units);
    version: impl Into<String> => Some(version.into());
});

impl MemberConfig {
    /// Adds one of the [`labels`](field@Self::labels).
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.insert(label.into());
        self
    }

    /// Checks what plans are made from.
    ///
    /// # Errors
    /// Returns the first broken rule.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if let Some(version) = &self.version {
            ensure(
                !version.is_empty()
                    && printable(version) == *version
                    && version.len() <= MOST_VERSION_BYTES,
                "member.version",
                format_args!("{:?}", printable(version)),
                format_args!("must be 1 to {MOST_VERSION_BYTES} printable bytes"),
            )?;
        }
        let count = self.labels.len();
        let rule = format_args!("must be at most {MOST_LABELS}");
        ensure(count <= MOST_LABELS, "member.labels", count, rule)?;
        let mut labels = self.labels.iter();
        labels.try_for_each(|label| check_label("member.labels", label))
    }

    /// Checks every rule and fills in every default.
    ///
    /// # Errors
    /// Returns the first broken rule.
    pub(crate) fn settings(&self) -> Result<RoleSettings, ConfigError> {
        let fits = (SHORTEST_LEASE..=LONGEST_LEASE).contains(&self.ttl);
        let least = exact(SHORTEST_LEASE);
        let most = exact(LONGEST_LEASE);
        let bounds = format!("must be {least} to {most} for a member of groups");
        ensure(fits, "member.ttl", exact(self.ttl), bounds)?;
        let mut role = RoleConfig::default();
        role.ttl = self.ttl;
        role.stop_budget = self.stop_budget;
        role.validate_on_critical_ops = self.validate_on_critical_ops;
        role.settings().map_err(|mut error| {
            error.field.insert_str(0, "member.");
            error
        })
    }
}

fn check_label(field: &str, label: &str) -> Result<(), ConfigError> {
    ensure(
        !label.is_empty() && printable(label) == label,
        field,
        format_args!("{:?}", printable(label)),
        "must be 1 to 255 printable characters each",
    )
}

/// The settings of a group, in a configuration file or from the environment. In code they are
/// methods of [`Group`](crate::Group).
///
/// Shards are named by their numbers: `"17"`. All instances should have the same settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GroupConfig {
    /// How many shards a sharded group has when it is new. 1 to 65,536. Later its map in the bucket
    /// tells the number. Default: the number in `Group::sharded`. A group of named units has
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shards: Option<u32>,

    /// What units weigh, beside other units of the group: `{ billing = 4000 }`. 1 to 1,000,000.
    /// Default: 1,000 each.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,

    /// Lists of units that are on different instances where there are enough of them, also at the
    /// cost of balance: `[["billing", "audit"]]`. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub apart: Vec<Vec<String>>,

    /// The labels that the owner of a unit must have, of those in `member.labels`: `{ billing =
    /// ["disk=ssd"] }`. If no instance has them, the unit has no owner. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requires: BTreeMap<String, BTreeSet<String>>,

    /// The labels of the instances to which a unit goes where the balance allows it, as in
    /// `requires`. Default: none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prefers: BTreeMap<String, BTreeSet<String>>,

    /// Lists of units. Those of each list are spread evenly over the zones, also at the cost of
    /// balance. An instance's zone is the entry `zone` of its `meta`. A unit is in one list at most.
    /// Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub across_zones: Vec<Vec<String>>,

    /// The limit on the bytes that each unit keeps by `Term::store()`. At least 1024. Unset: as many
    /// as the bucket has room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_limit: Option<u64>,
}

impl GroupConfig {
    /// Checks every rule, except that the group has the units.
    ///
    /// # Errors
    ///
    /// Returns the first rule that is broken, with the field, its value and the rule.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if let Some(shards) = self.shards {
            let rule = format_args!("must be from 1 to {MOST_SHARDS}");
            ensure((1..=MOST_SHARDS).contains(&shards), "shards", shards, rule)?;
        }
        for (field, unit) in self.named() {
            let name = UnitName::new(unit).map_err(|error| no_name(field, &error))?;
            ensure(
                self.shards.is_none() || name.as_shard().is_some(),
                field,
                format_args!("{unit:?}"),
                "must be the number of a shard, as the group has `shards`",
            )?;
        }
        for (unit, weight) in &self.weights {
            let rule = format_args!("must be from 1 to {MOST_WEIGHT}");
            let field = format!("weights.{unit}");
            ensure((1..=MOST_WEIGHT).contains(weight), &field, weight, rule)?;
        }
        for (field, labels) in [("requires", &self.requires), ("prefers", &self.prefers)] {
            let mut labels = labels.values().flatten();
            labels.try_for_each(|label| check_label(field, label))?;
        }
        for (i, units) in self.apart.iter().enumerate() {
            let rule = "must not be twice in one list";
            each_once(&format!("apart[{i}]"), units, rule)?;
        }
        let zones = self.across_zones.iter().flatten();
        each_once("across_zones", zones, "must be in one list, and once")?;
        data_limit(self.data_limit).map(drop)
    }

    /// The units that settings name, each with its setting.
    fn named(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let weights = self.weights.keys().map(|unit| ("weights", unit));
        let apart = self.apart.iter().flatten().map(|unit| ("apart", unit));
        let requires = self.requires.keys().map(|unit| ("requires", unit));
        let prefers = self.prefers.keys().map(|unit| ("prefers", unit));
        let zones = self.across_zones.iter().flatten();
        let zones = zones.map(|unit| ("across_zones", unit));
        weights
            .chain(apart)
            .chain(requires)
            .chain(prefers)
            .chain(zones)
    }

    /// Returns these settings, and those of the program where there are none.
    pub(crate) fn over(self, program: Self) -> Self {
        fn first<T: Default + PartialEq>(own: T, other: T) -> T {
            if own == T::default() { other } else { own }
        }
        Self {
            shards: first(self.shards, program.shards),
            weights: first(self.weights, program.weights),
            apart: first(self.apart, program.apart),
            requires: first(self.requires, program.requires),
            prefers: first(self.prefers, program.prefers),
            across_zones: first(self.across_zones, program.across_zones),
            data_limit: first(self.data_limit, program.data_limit),
        }
    }

    /// Checks that the group has each unit that the settings name.
    ///
    /// # Errors
    ///
    /// Returns the first that it lacks.
    pub(crate) fn require_units(
        &self,
        is_unit: impl Fn(&UnitName) -> bool,
    ) -> Result<(), ConfigError> {
        self.named().try_for_each(|(field, unit)| {
            let name = UnitName::new(unit).map_err(|error| no_name(field, &error))?;
            let rule = "must be a unit of the group";
            ensure(is_unit(&name), field, format_args!("{unit:?}"), rule)
        })
    }
}

fn each_once<'a>(
    field: &str,
    units: impl IntoIterator<Item = &'a String>,
    rule: &str,
) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    let mut units = units.into_iter();
    let twice = units.find(|unit| !seen.insert(*unit));
    twice.map_or(Ok(()), |unit| {
        Err(ConfigError::new(field, format!("{unit:?}"), rule))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> GroupConfig {
        toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    /// The settings, and the field, the value and the rule that the error names.
    const RULES: &str = r#"
shards = 0 | shards | 0 | must be from 1 to 65536
shards = 70000 | shards | 70000 | must be from 1 to 65536
weights = { a = 0 } | weights.a | 0 | from 1 to 1000000
weights = { a = 1000001 } | weights.a | 1000001 | to 1000000
weights = { '' = 1 } | weights | "" | it is empty
apart = [['a', '']] | apart | "" | it is empty
apart = [[], ['a', 'b', 'a']] | apart[1] | "a" | must not be twice
across_zones = [['a.b']] | across_zones | "a.b" | '.'
across_zones = [['a', 'b'], ['b']] | across_zones | "b" | in one list
requires = { 'a b' = ['gpu'] } | requires | "a b" | ' '
requires = { a = [''] } | requires | "" | 1 to 255 printable
shards = 8; prefers = { a = ['x'] } | prefers | "a" | the number of a shard
shards = 8; apart = [['7', '07']] | apart | "07" | the number of a shard
data_limit = 1023 | data_limit | 1023 | at least 1024
"#;

    #[test]
    fn values_that_break_a_rule_are_refused_by_their_names() {
        let long = format!("shards = 1; weights = {{ {} = 1 }}", "9".repeat(256));
        let all = format!("{RULES}{long} | weights | \"999 | 256 bytes long");
        for row in all.trim().lines() {
            let columns: Vec<_> = row.split(" | ").collect();
            let [text, field, value, rule] = columns[..] else {
                panic!("{row}");
            };
            let text = &text.replace("; ", "\n");
            let error = read(text).validate().expect_err(text);
            assert_eq!(error.field, field, "{text}");
            assert!(error.value.starts_with(value), "{text}: {error}");
            assert!(error.rule.contains(rule), "{text}: {error}");
        }
    }

    #[test]
    fn unknown_settings_and_wrong_types_can_not_be_read() {
        for text in [
            "shard = 8",
            "shards = -1",
            "shards = 4294967296",
            "weights = { a = -1 }",
            "weights = { a = '7' }",
            "apart = ['a', 'b']",
            "apart = [[0, 1]]",
            "requires = { a = 'gpu' }",
            "units = ['a']",
        ] {
            assert!(toml::from_str::<GroupConfig>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_setting_of_a_file_replaces_that_of_the_program() {
        let program = "shards = 4\nweights = { 1 = 7 }\napart = [['0', '1']]\ndata_limit = 2048\n\
            requires = { 0 = ['gpu'] }\nprefers = { 0 = ['west'] }\nacross_zones = [['2', '3']]";
        let file = "shards = 8\nweights = { 2 = 9 }\napart = [['1', '2']]\ndata_limit = 4096\n\
            requires = { 1 = ['ssd'] }\nprefers = { 1 = ['east'] }\nacross_zones = [['4', '5']]";
        assert_eq!(read(file).over(read(program)), read(file));
        assert_eq!(read("").over(read(program)), read(program));
        let weights = "weights = { 2 = 9 }";
        let both = program.replace("weights = { 1 = 7 }", weights);
        assert_eq!(read(weights).over(read(program)), read(&both));
    }

    #[test]
    fn a_unit_that_the_group_lacks_is_refused_in_each_setting() {
        for text in [
            "weights = { a = 7 }",
            "apart = [['b', 'a']]",
            "requires = { a = ['gpu'] }",
            "prefers = { a = ['west'] }",
            "across_zones = [['b', 'a']]",
        ] {
            let config = read(text);
            assert_eq!(config.require_units(|_| true), Ok(()));
            let error = config.require_units(|unit| unit.as_str() == "b");
            let error = error.expect_err(text);
            assert_eq!(error.rule, "must be a unit of the group");
            assert_eq!(error.value, "\"a\"");
        }
    }
}
