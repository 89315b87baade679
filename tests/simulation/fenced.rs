//! Applications that write under their term's fence, at any time: in office, right after a pause, and long after their end.
//!
//! They draw from a chance of their own, so that a seed's other events stay what they are.

use std::time::Duration;

use nats_elect::FencingToken;
use nats_elect::internals::{Input, TermId};

use crate::chance::Chance;
use crate::checkers::Note;
use crate::plan::Kind;
use crate::world::{Happening, World};

/// So many times a term's handler, or what is left of it, writes.
const TRIES: u32 = 40;

/// The chance of all writers of a run.
#[derive(Debug)]
pub struct Writers(Chance);

/// One application's writes in one term.
#[derive(Clone, Copy, Debug)]
pub struct Writer {
    pub node: usize,
    pub term: TermId,
    pub token: FencingToken,
    /// The process that it runs in.
    pub life: u64,
    tries: u32,
}

/// What happens to a fenced write.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Try(Writer),
    /// It arrives; its answer takes so long.
    Arrive(Writer, Duration),
    Refused(Writer),
}

impl Writers {
    /// Every other seed has some, where the bucket and its server can do fenced writes.
    pub fn of_seed(seed: u64, kind: Kind) -> Option<Self> {
        let mut chance = Chance::new(seed ^ 0xfe2c_ed00_0000_0000);
        let able = matches!(kind, Kind::Ours | Kind::Plain);
        (able && chance.permille(500)).then_some(Self(chance))
    }
}

impl World {
    /// A term began: its handler writes.
    pub fn begin_writing(&mut self, node: usize, term: TermId, token: FencingToken) {
        let writer = Writer {
            node,
            term,
            token,
            life: self.nodes[node].life,
            tries: 0,
        };
        self.write_later(writer);
    }

    fn write_later(&mut self, mut writer: Writer) {
        writer.tries += 1;
        let ttl = self.nodes[writer.node].settings.ttl;
        if let Some(Writers(chance)) = self.writers.as_mut().filter(|_| writer.tries <= TRIES) {
            let longest = chance.pick(&[ttl / 50, ttl / 4, ttl]);
            let at = self.now + chance.upto(longest);
            self.schedule(at, Happening::Fenced(Step::Try(writer)));
        }
    }

    pub fn fenced(&mut self, step: Step) {
        match step {
            Step::Try(writer) => self.try_fenced(writer),
            Step::Arrive(writer, back) => self.fenced_arrives(writer, back),
            Step::Refused(writer) => {
                let node = &self.nodes[writer.node];
                let hears = node.linked && node.wire.carries_answers();
                if hears && node.life == writer.life {
                    let term = writer.term;
                    self.input(writer.node, Input::Superseded { term });
                }
            }
        }
    }

    fn try_fenced(&mut self, writer: Writer) {
        let node = &self.nodes[writer.node];
        if node.life != writer.life {
            return;
        }
        let valid = node
            .terms
            .get(&writer.term)
            .is_some_and(|term| term.is_valid(node.clock.at(self.now)));
        let open = node.linked && !node.paused;
        let arrives = node.wire.carries_requests();
        let ttl = node.settings.ttl;
        self.write_later(writer);
        let Some(Writers(chance)) = &mut self.writers else {
            return;
        };
        // Whoever is paused between its look at the lease and its write looks as if it had not looked.
        let heedless = chance.permille(500);
        let slow = chance.permille(250).then(|| chance.upto(ttl * 3));
        let lost = chance.permille(50);
        let twice = chance.permille(50);
        let (there, back) = (latency(chance), latency(chance));
        if !open || !(valid || heedless) {
            return;
        }
        self.tally.fenced_tried += 1;
        if lost || !arrives && slow.is_none() {
            return;
        }
        let at = self.now + slow.unwrap_or(there);
        self.schedule(at, Happening::Fenced(Step::Arrive(writer, back)));
        if twice {
            self.schedule(at + ttl, Happening::Fenced(Step::Arrive(writer, back)));
        }
    }

    /// The server looks at nothing but the fence key's sequence.
    fn fenced_arrives(&mut self, writer: Writer, back: Duration) {
        if !self.bucket.exists || self.now < self.outage_until {
            return;
        }
        let standing = self.bucket.fence().map_or(0, |fence| fence.revision);
        self.say(writer.node, "fenced write arrives", &(writer, standing));
        if standing == writer.token.sequence {
            self.tally.fenced_written += 1;
            let token = writer.token;
            self.tell(&Note::FencedWrite { token });
        } else {
            self.tally.fenced_refused += 1;
            self.schedule(self.now + back, Happening::Fenced(Step::Refused(writer)));
        }
    }
}

fn latency(chance: &mut Chance) -> Duration {
    Duration::from_micros(200) + chance.upto(Duration::from_micros(600))
}
