//! Messages are lost, late, doubled and overtaken, by chance, for a while.

use std::ops::Range;
use std::time::Duration;

use super::Scale;
use crate::chance::Chance;
use crate::happening::Happening;
use crate::network::Weather;
use crate::world::{World, ms};

/// How bad a storm may become: each in permille of the messages, at most.
#[derive(Clone, Debug)]
pub struct MessageOptions {
    pub lost: u32,
    pub ack_lost: u32,
    pub ghost: u32,
    pub twice: u32,
    pub contended: u32,
    pub doubted: u32,
    pub watch_lost: u32,
    pub watch_twice: u32,
    pub stale_read: u32,
}

impl Default for MessageOptions {
    fn default() -> Self {
        Self {
            lost: 120,
            ack_lost: 120,
            ghost: 120,
            twice: 60,
            contended: 100,
            doubted: 60,
            watch_lost: 300,
            watch_twice: 100,
            stale_read: 60,
        }
    }
}

/// Bad weather for a while.
#[derive(Clone, Debug)]
pub struct Storm {
    weather: Box<Weather>,
    length: Duration,
}

impl MessageOptions {
    pub fn draw(&self, scale: &Scale, chance: &mut Chance) -> Storm {
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
        Storm {
            weather: Box::new(Weather {
                latency: least..least + slow,
                stalled: 0,
                watch_delay: least..least + slow * 3,
                lost: upto(self.lost, chance),
                ack_lost: upto(self.ack_lost, chance),
                ghost: upto(self.ghost, chance),
                ghost_delay: Duration::ZERO..scale.ttl * 2,
                twice: upto(self.twice, chance),
                contended: upto(self.contended, chance),
                doubted: upto(self.doubted, chance),
                watch_lost: upto(self.watch_lost, chance),
                watch_twice: upto(self.watch_twice, chance),
                stale_read: upto(self.stale_read, chance),
                staleness: chance.upto(ms(10_000)),
                wiped: 0,
                expiry_late: Range {
                    start: Duration::ZERO,
                    end: ms(1),
                },
            }),
            length: chance.upto(scale.ttl * 3),
        }
    }
}

impl Storm {
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
