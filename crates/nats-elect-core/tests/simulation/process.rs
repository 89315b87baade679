//! What happens to processes: they start, die, pause, lose their connection, and come back.

use std::time::Duration;

use nats_elect_core::{HandlerEnd, Input};

use crate::checkers::Note;
use crate::faults::RequestFault;
use crate::happening::Happening;
use crate::network::Wire;
use crate::node::{Handler, Health, Trouble};
use crate::world::World;

impl World {
    /// The process starts, connects and watches.
    pub fn boot(&mut self, node: usize) {
        let incarnation = self.chance.uuid();
        let now = self.now;
        self.nodes[node].candidate.first_beat = 0;
        self.nodes[node].candidate.paused = false;
        self.nodes[node].writes = 0;
        self.nodes[node].boot(incarnation, now);
        self.tell(&Note::Booted { node });
        self.connect(node);
    }

    pub fn crash(&mut self, node: usize) {
        let told = self.nodes[node].told.take();
        if let Some(bequest) = told {
            self.mourn(node, bequest);
        }
        self.die(node);
    }

    fn die(&mut self, node: usize) {
        self.say(node, "is killed", &());
        self.nodes[node].kill();
        self.forget(node);
        self.tell(&Note::Died { node });
    }

    /// The election's actor crashed: the process lives on, its handler was ended and its leases
    /// revoked, and a new machine goes on with the same incarnation.
    pub fn restart_actor(&mut self, node: usize) {
        self.die(node);
        let now = self.now;
        let incarnation = self.nodes[node].candidate.incarnation;
        self.nodes[node].candidate.first_beat = self.nodes[node].writes;
        self.nodes[node].boot(incarnation, now);
        self.tell(&Note::Booted { node });
        self.connect(node);
    }

    /// Connects after a moment.
    pub fn connect(&mut self, node: usize) {
        let at = self.now + self.latency();
        self.nodes[node].wire = Wire::Whole;
        self.schedule(at, Happening::Link { node });
    }

    pub fn pause(&mut self, node: usize) {
        self.say(node, "is paused", &());
        self.nodes[node].paused = true;
        self.fall_silent(node);
    }

    /// The process wakes up: its timer and what came in meanwhile are there at once, in either
    /// order.
    pub fn resume(&mut self, node: usize) {
        self.say(node, "goes on", &());
        self.nodes[node].paused = false;
        let mut backlog = std::mem::take(&mut self.nodes[node].backlog);
        let at = if self.chance.permille(500) {
            0
        } else {
            backlog.len()
        };
        backlog.insert(at, Input::Tick);
        for input in backlog {
            self.input(node, input);
        }
        self.tell(&Note::Moved {
            instant_over: false,
        });
    }

    /// Something befalls a process and passes after a while; what befalls it meanwhile may make it
    /// longer.
    pub fn afflict(&mut self, node: usize, trouble: Trouble, length: Duration) {
        let until = self.now + length;
        let longest = self.nodes[node].troubles.entry(trouble).or_default();
        *longest = until.max(*longest);
        self.schedule(until, Happening::Relief { node, trouble });
    }

    pub fn relieve(&mut self, node: usize, trouble: Trouble) {
        let lasts = |until: &Duration| self.now < *until;
        if self.nodes[node].troubles.get(&trouble).is_none_or(lasts) {
            return;
        }
        self.nodes[node].troubles.remove(&trouble);
        match trouble {
            Trouble::Paused if self.nodes[node].paused => self.resume(node),
            Trouble::Wire => self.connect_if_needed(node),
            Trouble::Unlinked => self.connect(node),
            Trouble::Unwatched => self.watch_again(node),
            Trouble::Dead if self.nodes[node].election.is_none() => self.boot(node),
            Trouble::Paused | Trouble::Dead => {}
            Trouble::Sick => self.nodes[node].health = Health::Well,
        }
    }

    fn connect_if_needed(&mut self, node: usize) {
        self.nodes[node].wire = Wire::Whole;
        if !self.nodes[node].linked {
            self.connect(node);
        }
    }

    /// All faults end: processes run, messages arrive, handlers listen.
    pub fn heal(&mut self) {
        self.weather = self.climate.clone();
        self.liars = None;
        self.storm_until = self.now;
        self.outage_until = self.outage_until.min(self.now);
        self.refusing = None;
        self.bucket.edit_max_age(None);
        self.retiring = None;
        if !self.bucket.exists {
            self.make_anew();
        }
        for node in 0..self.nodes.len() {
            self.nodes[node].plans.clear();
            self.nodes[node].health = Health::Well;
            self.nodes[node].dies_after = None;
            self.nodes[node].handler = Handler::default();
            self.nodes[node].troubles.clear();
            if self.nodes[node].paused {
                self.resume(node);
            }
            let stuck: Vec<_> = self.nodes[node]
                .terms
                .iter_mut()
                .map(|(id, term)| {
                    term.handler = Handler::default();
                    (*id, term.running && term.cancelled)
                })
                .collect();
            for (term, _) in stuck.into_iter().filter(|(_, stuck)| *stuck) {
                self.end_handler(node, term, Duration::ZERO, HandlerEnd::Returned);
            }
            if self.nodes[node].election.is_none() || self.nodes[node].leaving {
                self.crash(node);
                self.boot(node);
            } else {
                self.connect_if_needed(node);
                self.watch_again(node);
            }
        }
        // One who stands is enough; if there is none, somebody puts that right.
        if self.nodes.iter().all(|node| node.candidate.paused) {
            for node in 0..self.nodes.len() {
                RequestFault::Resume.strike(self, node);
            }
        }
    }
}
