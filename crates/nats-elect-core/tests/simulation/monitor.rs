//! The connection monitor: it tells an election that its connection is lost, and that an outage has
//! lasted for the whole grace period.

use std::time::Duration;

use nats_elect_core::{Input, Link, Moment};

use crate::chance::Chance;
use crate::happening::Happening;
use crate::world::{World, ms};

/// How well it tells. All of it is drawn apart from all else, so that seeds stay what they were.
#[derive(Debug)]
pub struct Monitor {
    chance: Chance,
    /// An election hears of an outage so late at most,
    late: Duration,
    /// and so late of the end of its grace period.
    grace_late: Duration,
    /// Words about the end of a grace period that are lost, or told twice, in permille.
    lost: u32,
    doubled: u32,
    /// An answer that came before the connection broke is taken after the news of that.
    overtakes: bool,
}

impl Monitor {
    /// It tells everything at once.
    pub const fn prompt(seed: u64) -> Self {
        Self {
            chance: Chance::new(seed ^ 0x96ac_e000_0000_0000),
            late: Duration::ZERO,
            grace_late: Duration::ZERO,
            lost: 0,
            doubled: 0,
            overtakes: false,
        }
    }

    pub fn of_seed(seed: u64, ttl: Duration) -> Self {
        let mut monitor = Self::prompt(seed);
        let zero = Duration::ZERO;
        monitor.late = monitor.chance.pick(&[zero, zero, ttl / 20, ttl / 2]);
        monitor.grace_late = monitor.chance.pick(&[zero, ttl / 2, ttl * 3]);
        monitor.lost = monitor.chance.pick(&[0, 500, 1000]);
        monitor.doubled = monitor.chance.pick(&[0, 500]);
        monitor.overtakes = monitor.chance.permille(250);
        monitor
    }
}

impl World {
    /// The connection is lost.
    pub fn disconnect(&mut self, node: usize) {
        let now = self.nodes[node].clock.at(self.now);
        let lost = &mut self.nodes[node];
        lost.linked = false;
        let is_new = lost.lost_at.is_none();
        let since = *lost.lost_at.get_or_insert(now);
        if let Some(grace) = lost.settings.grace.filter(|_| is_new) {
            let at = lost.clock.when(since + grace);
            self.schedule(at, Happening::OutageLasts { node, since });
        }
        let late = self.monitor.late;
        if late.is_zero() {
            self.hear_of_outage(node);
        } else {
            let at = self.now + self.monitor.chance.upto(late);
            self.schedule(at, Happening::OutageHeard { node });
        }
    }

    /// Whether an answer that comes now still came through.
    pub fn hears_answers(&self, node: usize) -> bool {
        let hearer = &self.nodes[node];
        let now = hearer.clock.at(self.now);
        let just_lost = hearer.lost_at.is_some_and(|at| now < at + ms(5));
        (hearer.linked || just_lost && self.monitor.overtakes) && hearer.wire.carries_answers()
    }

    /// The election hears of the outage, if there is one.
    pub fn hear_of_outage(&mut self, node: usize) {
        if let Some(since) = self.nodes[node].lost_at {
            self.nodes[node].told_lost = true;
            self.input(node, Input::Link(Link::Down { since }));
        }
    }

    /// The connection is there again. Nobody hears of that before the outage.
    pub fn connected_again(&mut self, node: usize) {
        if !self.nodes[node].told_lost {
            self.hear_of_outage(node);
        }
        self.nodes[node].told_lost = false;
        self.nodes[node].lost_at = None;
    }

    /// The grace period has passed since this outage began.
    pub fn outage_lasts(&mut self, node: usize, since: Moment) {
        #[cfg(feature = "__mutations")]
        if nats_elect_core::Mutation::MonitorNeverTells.is_on() {
            return;
        }
        if self.nodes[node].lost_at != Some(since)
            || self.monitor.chance.permille(self.monitor.lost)
        {
            return;
        }
        let times = 1 + u32::from(self.monitor.chance.permille(self.monitor.doubled));
        for _ in 0..times {
            let late = self.monitor.grace_late;
            let at = self.now + self.monitor.chance.upto(late);
            self.schedule(at, Happening::GraceOver { node, since });
        }
    }

    pub fn grace_over(&mut self, node: usize, since: Moment) {
        self.tally.graces_told += 1;
        // What this step draws is drawn apart, too.
        std::mem::swap(&mut self.chance, &mut self.monitor.chance);
        self.input(node, Input::GraceOver { since });
        std::mem::swap(&mut self.chance, &mut self.monitor.chance);
    }
}
