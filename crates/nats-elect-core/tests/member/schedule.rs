//! What schedules share.

use std::time::Duration;

use nats_elect_core::assignment::{Epoch, Key, Units};
use nats_elect_core::member::{Order, UnitId};
use nats_elect_core::name::UnitName;

use crate::node::Handler;
use crate::world::World;

pub const SECOND: Duration = Duration::from_secs(1);

/// Units of these names.
pub fn names(names: &[&str]) -> Units {
    let names = names.iter().map(|it| UnitName::new(it).expect("a name"));
    Units::Names(names.collect())
}

impl World {
    /// The first of these members have shared units for a while, with leases of three seconds.
    pub fn warm(seed: u64, nodes: usize, started: usize, units: Units) -> Self {
        let mut world = Self::new(seed, nodes, units);
        (0..started).for_each(|node| world.start(node));
        world.run(2 * SECOND);
        world
    }

    /// Runs, and tells what happened if something failed.
    #[track_caller]
    pub fn goes_well(&mut self, time: Duration) {
        self.run(time);
        assert_eq!(self.failure, None);
    }

    /// Runs in small steps until something is so, for a second at most.
    pub fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        let end = self.now + SECOND;
        while !is_so(self) && self.now < end && self.failure.is_none() {
            self.run(Duration::from_micros(5));
        }
    }

    /// Runs until somebody has written a map, a second at most.
    pub fn until_a_map_is_written(&mut self) {
        let maps = self.maps;
        self.until(|it| it.maps > maps);
        assert!(self.maps > maps);
    }

    /// The handlers of a member that act.
    pub fn acting(&self, node: usize) -> impl Iterator<Item = (&UnitId, &Handler)> {
        let all = self.nodes[node].acting(self.now);
        all.filter(|(_, it)| !it.is_told)
    }

    /// How many units each member acts on.
    pub fn acts(&self) -> Vec<usize> {
        (0..self.nodes.len())
            .map(|node| self.acting(node).count())
            .collect()
    }

    /// How many units members act on.
    pub fn all_acts(&self) -> usize {
        self.acts().iter().sum()
    }

    pub fn epoch(&self, node: usize) -> Epoch {
        self.nodes[node].epoch().expect("a member")
    }

    pub fn key(&self, node: usize) -> Key {
        Self::member_key(self.epoch(node))
    }

    /// An operator asks a member to give a unit to another one.
    pub fn move_to(&mut self, by: usize, unit: UnitName, to: usize) {
        let order = Order::Move(unit, self.epoch(to));
        self.order(by, 1, order);
    }

    /// From now on, for so long, handlers end late.
    pub fn handlers_end_late(&mut self, time: Duration) {
        self.faults.until = self.now + time;
        self.faults.late = 1000;
    }
}
