//! What a member's record says beside its lease: which part it takes in which groups, and what is to
//! be known for a plan.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::epoch::EpochKey;
use super::record::{VERSION, is_understood, number};
use crate::assignment::MOST_GROUPS;
pub use crate::assignment::MOST_LABELS;
use crate::name::{GroupName, UnitName};
use crate::text::printable;

/// The most named units of a group. Each instance's record names those that it has handlers for.
pub const MOST_NAMED: usize = 256;

/// The most units of which a member tells something by their names, of each group.
pub const MOST_TOLD: usize = 32;

/// The most bytes that a member tells, as JSON. A record of more than 64 KiB is read by nobody, and
/// the rest of it is the lease.
const MOST_MEMBER_BYTES: usize = 48 * 1024;

/// The most bytes that the names of a member's groups and of their units take in its record. The rest
/// is for what changes: labels, loads, units that fail.
pub const MOST_NAMES_BYTES: usize = 32 * 1024;

/// The part that a member takes in a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Support {
    /// The latest format of the group's records that it understands.
    pub format: u32,
    /// The generation of the group that it knows. 0 if it does not know that the group was made.
    pub generation: u32,
    /// The work that its units make, in a measure of the application's own. 0: it does not tell.
    pub load: u64,
    /// Of that, the work of the units that make most of it. At most [`MOST_TOLD`].
    pub heavy: BTreeMap<UnitName, u32>,
    /// The units that keep failing there. At most [`MOST_TOLD`].
    pub failing: BTreeSet<UnitName>,
    /// The named units for which it has a handler. Empty: for all.
    pub units: BTreeSet<UnitName>,
    /// Whether the records of most units are not of age for it yet. It can begin none of those, so
    /// it is given none.
    pub waits: bool,
}

/// What a member's record says beside its lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemberInfo {
    /// The public key of its epoch.
    pub key: EpochKey,
    /// The groups that it takes part in. At most 256 are read.
    pub groups: BTreeMap<GroupName, Support>,
    /// Where it runs, if it tells.
    pub zone: Option<String>,
    /// Its labels, such as `disk=ssd`. At most [`MOST_LABELS`].
    pub labels: BTreeSet<String>,
    /// How many units of each group it owns at most. `None`: no limit.
    pub most_units: Option<u32>,
    /// Whether it takes no more units.
    pub cordoned: bool,
}

impl MemberInfo {
    /// The groups of which it tells that they were made.
    pub(super) fn made(&self) -> BTreeSet<GroupName> {
        let made = self.groups.iter().filter(|(_, it)| it.generation > 0);
        made.map(|(name, _)| name.clone()).collect()
    }

    /// A member with this key that takes part in nothing.
    pub const fn new(key: EpochKey) -> Self {
        Self {
            key,
            groups: BTreeMap::new(),
            zone: None,
            labels: BTreeSet::new(),
            most_units: None,
            cordoned: false,
        }
    }

    /// The value of the field `member` in the member's record.
    pub fn to_json(&self) -> Value {
        let groups = self.groups.iter();
        let groups = groups.map(|(name, support)| (name.to_string(), support.to_json()));
        let mut object = json!({
            "v": VERSION,
            "key": self.key.to_string(),
            "groups": groups.collect::<Map<_, _>>(),
        });
        if let Some(zone) = &self.zone {
            object["zone"] = zone.as_str().into();
        }
        if !self.labels.is_empty() {
            object["labels"] = self.labels.iter().cloned().collect();
        }
        if let Some(most) = self.most_units {
            object["most"] = most.into();
        }
        if self.cordoned {
            object["cordon"] = true.into();
        }
        object
    }

    /// Parses the value of that field. Returns `None` if it is of a later version or has no key.
    /// Other fields of the wrong type count as missing.
    pub fn parse(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        is_understood(object).then_some(())?;
        let groups = object.get("groups").and_then(Value::as_object);
        let groups = groups.into_iter().flatten().take(MOST_GROUPS);
        let labels = texts(object.get("labels")).take(MOST_LABELS);
        Some(Self {
            key: EpochKey::parse(object.get("key")?.as_str()?)?,
            groups: groups
                .filter_map(|(name, parts)| {
                    Some((GroupName::new(name).ok()?, Support::parse(parts)?))
                })
                .collect(),
            zone: object.get("zone").and_then(Value::as_str).map(printable),
            labels: labels.map(printable).collect(),
            most_units: object.get("most").and_then(number),
            cordoned: object.get("cordon") == Some(&Value::Bool(true)),
        })
    }

    /// Leaves out what a plan can do without, if there is too much to tell: the loads of single units,
    /// and then the units that fail.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        let is_too_long = |it: &Self| it.to_json().to_string().len() > MOST_MEMBER_BYTES;
        if is_too_long(&self) {
            self.groups.values_mut().for_each(|it| it.heavy.clear());
        }
        if is_too_long(&self) {
            self.groups.values_mut().for_each(|it| it.failing.clear());
        }
        self
    }

    /// Whether it says the same as before, but for how much load there is.
    pub fn takes_the_part_of(&self, before: &Self) -> bool {
        let part = |it: &Self| {
            let mut it = it.clone();
            for support in it.groups.values_mut() {
                (support.load, support.heavy) = (u64::from(support.load > 0), BTreeMap::new());
            }
            it
        };
        part(self) == part(before)
    }
}

impl Support {
    /// Whether the member has a handler for a unit, as far as it tells.
    pub fn has_handler(&self, unit: &UnitName) -> bool {
        self.units.is_empty() || self.units.contains(unit)
    }

    /// `[format, generation, load]`, and an object with all else if there is any.
    fn to_json(&self) -> Value {
        let mut more = Map::new();
        if !self.heavy.is_empty() {
            let heavy = self.heavy.iter();
            let heavy = heavy.map(|(unit, load)| (unit.to_string(), Value::from(*load)));
            more.insert("heavy".into(), heavy.collect::<Map<_, _>>().into());
        }
        for (field, units) in [("failing", &self.failing), ("units", &self.units)] {
            if !units.is_empty() {
                more.insert(field.into(), units.iter().map(UnitName::as_str).collect());
            }
        }
        if self.waits {
            more.insert("waits".into(), true.into());
        }
        let mut parts = vec![json!(self.format), json!(self.generation), json!(self.load)];
        if !more.is_empty() {
            parts.push(more.into());
        }
        parts.into()
    }

    /// How many bytes it takes in a member's record.
    pub fn bytes(&self) -> usize {
        self.to_json().to_string().len()
    }

    fn parse(parts: &Value) -> Option<Self> {
        let part = |index: usize| number(parts.get(index)?);
        let more = parts.get(3);
        let heavy = more.and_then(|it| it.get("heavy")?.as_object());
        let heavy = heavy.into_iter().flatten().take(MOST_TOLD);
        let units = |field: &str, most: usize| {
            let names = texts(more.and_then(|it| it.get(field))).take(most);
            names.filter_map(|name| UnitName::new(name).ok()).collect()
        };
        Some(Self {
            format: part(0)?,
            generation: part(1)?,
            load: parts.get(2).and_then(Value::as_u64).unwrap_or(0),
            heavy: heavy
                .filter_map(|(unit, load)| Some((UnitName::new(unit).ok()?, number(load)?)))
                .collect(),
            failing: units("failing", MOST_TOLD),
            units: units("units", MOST_NAMED),
            waits: more.is_some_and(|it| it.get("waits") == Some(&Value::Bool(true))),
        })
    }
}

/// The texts in an array.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let array = value.and_then(Value::as_array);
    array.into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> EpochKey {
        EpochKey::new([7; 32])
    }

    fn name(name: &str) -> UnitName {
        UnitName::new(name).unwrap()
    }

    fn info() -> MemberInfo {
        let sharded = Support {
            format: 2,
            generation: 2,
            load: 420,
            heavy: BTreeMap::from([(UnitName::shard(17), 300)]),
            failing: BTreeSet::from([UnitName::shard(3)]),
            waits: true,
            ..Support::default()
        };
        let spread = Support {
            format: 2,
            generation: 1,
            units: BTreeSet::from([name("network"), name("scheduler")]),
            ..Support::default()
        };
        MemberInfo {
            groups: BTreeMap::from([
                (GroupName::new("partitions").unwrap(), sharded),
                (GroupName::new("control").unwrap(), spread),
            ]),
            zone: Some("a".into()),
            labels: BTreeSet::from(["disk=ssd".into()]),
            most_units: Some(100),
            cordoned: true,
            ..MemberInfo::new(key())
        }
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let json = info().to_json();
        assert_eq!(MemberInfo::parse(&json), Some(info()));
        assert_eq!(
            json["groups"],
            json!({
                "control": [2, 1, 0, { "units": ["network", "scheduler"] }],
                "partitions": [2, 2, 420, { "heavy": { "17": 300 }, "failing": ["3"], "waits": true }],
            })
        );
    }

    #[test]
    fn only_the_amount_of_load_changes_without_another_part() {
        let before = info();
        let group = GroupName::new("partitions").unwrap();
        let mut loaded = info();
        let support = loaded.groups.get_mut(&group).unwrap();
        (support.load, support.heavy) = (7, BTreeMap::new());
        assert!(loaded.takes_the_part_of(&before));
        let mut silent = info();
        silent.groups.get_mut(&group).unwrap().load = 0;
        assert!(!silent.takes_the_part_of(&before));
        let mut failing = info();
        failing.groups.get_mut(&group).unwrap().failing.clear();
        assert!(!failing.takes_the_part_of(&before));
        let fewer_labels = MemberInfo {
            labels: BTreeSet::new(),
            ..info()
        };
        assert!(!fewer_labels.takes_the_part_of(&before));
    }

    #[test]
    fn rubbish_in_a_members_info_counts_as_missing() {
        let parse = |text: &str| MemberInfo::parse(&serde_json::from_str(text).unwrap());
        let key = key();
        let read = parse(&format!(
            r#"{{"v":1,"key":"{key}","groups":{{"a.b":[1,1],"c":[1],"d":[1,-1],"e":[1,2,"x"],"f":7}},"zone":7,"cordon":"x"}}"#
        ))
        .unwrap();
        let names: Vec<_> = read.groups.keys().map(GroupName::as_str).collect();
        assert_eq!(names, ["e"]);
        assert_eq!((read.zone, read.cordoned), (None, false));
        assert_eq!(parse(&format!(r#"{{"v":2,"key":"{key}"}}"#)), None);
        assert_eq!(parse(r#"{"v":1,"key":"x"}"#), None);
        let many: Map<_, _> = (0..300).map(|n| (format!("g{n}"), json!([1, 1]))).collect();
        let many = json!({ "v": 1, "key": key.to_string(), "groups": many });
        assert_eq!(MemberInfo::parse(&many).unwrap().groups.len(), MOST_GROUPS);
    }

    #[test]
    fn who_has_too_much_to_tell_leaves_out_loads_and_then_failures() {
        let units = || (0..MOST_TOLD).map(|n| UnitName::new(&format!("unit-{n:016}")).unwrap());
        let support = Support {
            heavy: units().map(|unit| (unit, 1)).collect(),
            failing: units().collect(),
            units: BTreeSet::from([UnitName::new("unit").unwrap()]),
            ..Support::default()
        };
        let told = |count: usize| {
            let name = |n| GroupName::new(&format!("group-{n}")).unwrap();
            let groups = (0..count).map(|n| (name(n), support.clone()));
            let info = MemberInfo {
                groups: groups.collect(),
                ..info()
            };
            let fitted = info.fitted();
            assert!(fitted.to_json().to_string().len() <= MOST_MEMBER_BYTES);
            assert_eq!(fitted.groups.len(), count);
            let all = |what: fn(&Support) -> bool| fitted.groups.values().all(what);
            (
                all(|it| it.heavy.is_empty()),
                all(|it| it.failing.is_empty()),
                all(|it| it.units.len() == 1),
            )
        };
        assert_eq!(told(20), (false, false, true));
        assert_eq!(told(40), (true, false, true));
        assert_eq!(told(200), (true, true, true));
    }

    #[test]
    fn no_more_is_read_than_the_bounds_allow() {
        let key = key().to_string();
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let heavy: Map<_, _> = many.iter().map(|n| (n.clone(), json!(1))).collect();
        let value = json!({
            "v": 1, "key": key, "labels": many,
            "groups": { "g": [2, 1, 9, { "heavy": heavy, "failing": many, "units": many }] },
        });
        let read = MemberInfo::parse(&value).unwrap();
        let support = &read.groups[&GroupName::new("g").unwrap()];
        assert_eq!(read.labels.len(), MOST_LABELS);
        assert_eq!(support.heavy.len(), MOST_TOLD);
        assert_eq!(support.failing.len(), MOST_TOLD);
        assert_eq!(support.units.len(), MOST_NAMED);
    }
}
