//! What a plan is made from, with the settings of the group.

use std::collections::BTreeSet;

use crate::model::config::GroupConfig;
use nats_elect_core::assignment::Units;
use nats_elect_core::member::PlanRequest;
use nats_elect_core::name::UnitName;
use nats_elect_core::plan::{self, Fleet};

/// The fleet of a request, with the weights, labels and sets of the group's settings. What they say of
/// units that the map does not have counts for nothing.
pub(crate) fn fleet(request: &PlanRequest, config: &GroupConfig) -> Fleet {
    let mut fleet = request.fleet();
    let units = request.base.units();
    let mut set = |name: &str, set: &dyn Fn(&mut plan::Unit)| {
        if let Some(unit) = place(units, name).and_then(|it| fleet.units.get_mut(it)) {
            set(unit);
        }
    };
    for (name, weight) in &config.weights {
        set(name, &|unit| unit.weight = Some(*weight));
    }
    for (name, labels) in &config.requires {
        set(name, &|unit| unit.requires.clone_from(labels));
    }
    for (name, labels) in &config.prefers {
        set(name, &|unit| unit.prefers.clone_from(labels));
    }
    for (number, names) in config.apart.iter().enumerate() {
        for name in names.iter().collect::<BTreeSet<_>>() {
            set(name, &|unit| unit.apart.push(number));
        }
    }
    for (number, names) in config.across_zones.iter().enumerate() {
        for name in names {
            set(name, &|unit| unit.zones.push(number));
        }
    }
    fleet
}

/// The place of a unit in the map.
fn place(units: &Units, name: &str) -> Option<usize> {
    let place = units.place_of(&UnitName::new(name).ok()?)?;
    usize::try_from(place).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use nats_elect_core::assignment::Map;

    fn fleet_of(units: Units, config: &str) -> Fleet {
        let map = Map::first(1, 1, units, &[], []).expect("a map");
        let request = PlanRequest::new(Arc::new(map));
        fleet(&request, &toml::from_str(config).expect("settings"))
    }

    #[test]
    fn each_setting_is_that_of_its_units_and_of_no_others() {
        let config = "weights = { 1 = 7 }\nrequires = { 0 = ['gpu'] }\nprefers = { 2 = ['west'] }\n\
            apart = [['0', '1'], ['1', '9']]\nacross_zones = [['2'], ['0', '3']]";
        let units = fleet_of(Units::Shards(4), config).units;
        let label = |label: &str| BTreeSet::from([label.to_owned()]);
        let usual = plan::Unit::default();
        assert_eq!(
            units,
            [
                plan::Unit {
                    requires: label("gpu"),
                    apart: vec![0],
                    zones: vec![1],
                    ..usual.clone()
                },
                plan::Unit {
                    weight: Some(7),
                    apart: vec![0, 1],
                    ..usual.clone()
                },
                plan::Unit {
                    prefers: label("west"),
                    zones: vec![0],
                    ..usual.clone()
                },
                plan::Unit {
                    zones: vec![1],
                    ..usual
                },
            ]
        );
    }

    #[test]
    fn named_units_are_found_by_their_names() {
        let names = ["b", "a"].map(|it| UnitName::new(it).expect("a name"));
        let units = fleet_of(Units::Names(names.into()), "weights = { a = 7, c = 8 }").units;
        assert_eq!([units[0].weight, units[1].weight], [None, Some(7)]);
    }
}
