//! What happens to processes: they start, die, pause, lose their connection, and come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::group::{GroupInput, UnitKey};
use nats_elect_core::{Failure, Input, Link};

use super::node::{Handler, Process, Trouble};
use super::world::{Happening, World};
use crate::network::{Weather, Wire};

impl World {
    /// A process starts, connects, watches, and claims its first epoch.
    pub fn boot(&mut self, node: usize) {
        self.say(node, "starts", &());
        let group = self.new_group(node);
        let at = &mut self.nodes[node];
        at.life += 1;
        at.wire = Wire::Whole;
        at.process = Some(Process {
            group,
            wake: 0,
            keepers: Vec::new(),
            watch: None,
            terms: BTreeMap::new(),
            own: BTreeSet::new(),
            requests: BTreeMap::new(),
            drains: false,
        });
        self.tally.processes += 1;
        self.begin_epoch(node);
        self.connect(node);
    }

    pub fn kill(&mut self, node: usize) {
        self.say(node, "is killed", &());
        let at = &mut self.nodes[node];
        at.life += 1;
        at.process = None;
        at.linked = false;
        at.paused = false;
        at.backlog.clear();
        self.mourn(node);
    }

    pub fn connect(&mut self, node: usize) {
        let (at, life) = (self.now + self.latency(), self.nodes[node].life);
        self.nodes[node].wire = Wire::Whole;
        self.schedule(at, Happening::Link { node, life });
    }

    /// The client is connected. Its watch begins anew.
    pub fn link(&mut self, node: usize) {
        let now = self.now;
        let at = &mut self.nodes[node];
        let lasts = |trouble| at.troubles.get(&trouble).is_some_and(|until| now < *until);
        if at.wire != Wire::Whole || lasts(Trouble::Unlinked) || lasts(Trouble::Unusable) {
            return;
        }
        at.linked = true;
        self.tell_link(node, &Link::Up(self.stream.made));
        self.watch(node, Duration::ZERO);
    }

    pub fn disconnect(&mut self, node: usize) {
        self.nodes[node].linked = false;
        self.break_watch(node);
        if !self.nodes[node].paused {
            let since = self.nodes[node].clock.at(self.now);
            self.tell_link(node, &Link::Down { since });
        }
    }

    /// The connection's monitor finds that its bucket can't be used. What the machine writes may
    /// arrive all the same.
    pub fn bucket_unusable(&mut self, node: usize, kind: FailureKind) {
        let at = &mut self.nodes[node];
        let Some(process) = at.process.as_mut().filter(|_| !at.paused) else {
            return;
        };
        process.watch = None;
        let detail = kind.as_str().to_owned();
        self.tell_link(node, &Link::Unusable(Failure { kind, detail }));
    }

    fn tell_link(&mut self, node: usize, link: &Link) {
        let process = self.nodes[node].process.as_ref();
        let keepers = process.into_iter().flat_map(|process| &process.keepers);
        for epoch in keepers.map(|keeper| keeper.epoch).collect::<Vec<_>>() {
            self.keeper_input(node, epoch, Input::Link(link.clone()));
        }
    }

    /// Nothing comes from its watch any more. Nobody tells the process.
    pub fn break_watch(&mut self, node: usize) {
        let process = self.nodes[node].process.as_mut();
        if let Some(watch) = process.and_then(|process| process.watch.as_mut()) {
            watch.broken = true;
        }
    }

    pub fn pause(&mut self, node: usize) {
        if self.nodes[node].process.is_some() {
            self.say(node, "is paused", &());
            self.nodes[node].paused = true;
            self.fall_silent(node);
        }
    }

    /// Its timers and what came in meanwhile are there at once, in either order.
    pub fn resume(&mut self, node: usize) {
        if !std::mem::take(&mut self.nodes[node].paused) {
            return;
        }
        self.say(node, "goes on", &());
        let backlog = std::mem::take(&mut self.nodes[node].backlog);
        let first = self.chance.permille(500);
        if first {
            self.group_input(node, GroupInput::Tick);
        }
        for happening in backlog {
            self.happen(happening);
        }
        self.group_input(node, GroupInput::Tick);
    }

    /// Something befalls a process and passes after a while.
    pub fn afflict(&mut self, node: usize, trouble: Trouble, length: Duration) {
        let until = self.now + length;
        let longest = self.nodes[node].troubles.entry(trouble).or_default();
        *longest = until.max(*longest);
        self.schedule(until, Happening::Relief { node, trouble });
    }

    pub fn relieve(&mut self, node: usize, trouble: Trouble) {
        let now = self.now;
        let troubles = &mut self.nodes[node].troubles;
        if troubles.get(&trouble).is_none_or(|until| now < *until) {
            return;
        }
        troubles.remove(&trouble);
        match trouble {
            Trouble::Paused => self.resume(node),
            Trouble::Wire | Trouble::Unlinked | Trouble::Unusable => self.connect(node),
            Trouble::Dead if self.nodes[node].process.is_none() => self.boot(node),
            Trouble::Dead => {}
        }
    }

    /// All faults end: processes run, messages arrive, handlers listen.
    pub fn heal(&mut self) {
        self.weather = Weather::fair();
        self.hints_lost = 0;
        self.purges_next = false;
        self.storm_until = self.now;
        self.outage_until = self.outage_until.min(self.now);
        self.drop_requests();
        let mut may_block = self.chance.permille(500);
        for node in 0..self.nodes.len() {
            let at = &mut self.nodes[node];
            at.plans.clear();
            let troubles = std::mem::take(&mut at.troubles);
            at.handler = Handler::default();
            self.resume(node);
            let drains = self.nodes[node].process.as_ref().is_none_or(|it| it.drains);
            if drains {
                self.kill(node);
                self.boot(node);
                continue;
            }
            let mut stuck = Vec::new();
            if let Some(process) = &mut self.nodes[node].process {
                for (key, term) in &mut process.terms {
                    if term.running && (term.cancelled || term.revoked) {
                        stuck.push(key.clone());
                    } else {
                        term.handler = Handler::default();
                    }
                }
            }
            // The handlers of one process may hang for good, if others can have their units.
            let can_move = stuck
                .iter()
                .all(|(unit, _)| self.is_taken_elsewhere(unit, node));
            let blocks = may_block && can_move;
            may_block &= stuck.is_empty();
            for (unit, sequence) in stuck.into_iter().filter(|_| !blocks) {
                self.handler_ends(node, &unit, sequence);
            }
            if troubles.contains_key(&Trouble::Unusable) || !self.is_watching(node) {
                self.connect(node);
            }
        }
        self.restore_groups();
    }

    /// Whether each of the other processes takes part in the unit's group.
    fn is_taken_elsewhere(&self, unit: &UnitKey, without: usize) -> bool {
        let mut others = (0..self.nodes.len()).filter(|node| *node != without);
        others.all(|node| self.nodes[node].group.groups.contains_key(&unit.group))
    }

    /// A watch at work goes on: what it did not show stays hidden.
    fn is_watching(&self, node: usize) -> bool {
        let at = &self.nodes[node];
        let watch = at.process.as_ref().and_then(|it| it.watch.as_ref());
        at.linked && at.wire == Wire::Whole && watch.is_some_and(|it| !it.broken)
    }
}
