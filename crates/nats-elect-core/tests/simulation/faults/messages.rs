//! Messages are lost, late, doubled and overtaken, by chance, for a while.

use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::happening::Happening;
use crate::network::Weather;
use crate::world::{World, ms};

/// Bad weather for a while.
#[derive(Clone, Debug)]
pub struct Storm {
    weather: Box<Weather>,
    length: Duration,
}

impl Storm {
    pub fn draw(scale: &Scale, chance: &mut Chance) -> Self {
        // Each storm has its own mix: some faults often, others not at all.
        let upto = |most: u32, chance: &mut Chance| {
            if chance.permille(400) {
                0
            } else {
                u32::try_from(chance.below(u64::from(most) + 1)).expect("a permille")
            }
        };
        let slow = chance.upto(scale.timeout * 3 / 2);
        let least = Duration::from_micros(200);
        Self {
            weather: Box::new(Weather {
                latency: least..least + slow,
                stalled: 0,
                watch_delay: least..least + slow * 3,
                lost: upto(120, chance),
                ack_lost: upto(120, chance),
                ghost: upto(120, chance),
                ghost_delay: Duration::ZERO..scale.ttl * 2,
                twice: upto(60, chance),
                contended: upto(100, chance),
                doubted: upto(60, chance),
                watch_lost: upto(300, chance),
                watch_twice: upto(100, chance),
                stale_read: upto(60, chance),
                staleness: chance.upto(ms(10_000)),
                wiped: 0,
                expiry_late: Duration::ZERO..ms(1),
            }),
            length: chance.upto(scale.ttl * 3),
        }
    }

    pub fn strike(&self, world: &mut World) {
        world.storm_until = world.now + self.length;
        world.weather = Weather {
            wiped: world.climate.wiped,
            expiry_late: world.climate.expiry_late.clone(),
            ..(*self.weather).clone()
        };
        world.schedule(world.storm_until, Happening::Calm);
    }
}
