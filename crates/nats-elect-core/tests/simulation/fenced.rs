//! Applications that write under their term's fence, at any time: in office, right after a pause,
//! and long after their end.
//!
//! They draw from a chance of their own, so that a seed's other events stay what they are.

use std::time::Duration;

use nats_elect_core::token::FencingToken;
use nats_elect_core::{Input, TermId};

use crate::chance::Chance;
use crate::checkers::Note;
use crate::happening::Happening;
use crate::plan::Kind;
use crate::world::World;

const FENCED_LATENCY: Duration = Duration::from_micros(500);
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
    /// A create or an update: where its key must stand. A put needs nothing.
    over: Option<u64>,
    /// How often this write may be sent again.
    retries: u32,
}

/// What happens to a fenced write.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    Try(Writer),
    /// It arrives; its answer takes so long, if one comes.
    Arrive(Writer, Option<Duration>),
    /// It was refused; so much the server told.
    Refused(Writer, u64),
    /// The fence key was read to find out why.
    Read {
        writer: Writer,
        told: u64,
        fence: u64,
        key: u64,
    },
    /// A guard is sent on condition that the fence key stands where it was read.
    Prove(Writer, u64),
    /// It was stored: the fence has gone.
    Proved(Writer),
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
            over: None,
            retries: 0,
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
            Step::Refused(writer, told) => {
                if self.hears(writer) {
                    self.read_fence(writer, told);
                }
            }
            Step::Read {
                writer,
                told,
                fence,
                key,
            } => {
                if self.hears(writer) {
                    self.judge_refusal(writer, told, fence, key);
                }
            }
            Step::Prove(writer, fence) => {
                let standing = self.bucket.fence().map_or(0, |fence| fence.revision);
                let in_office = self.bucket.exists && self.now >= self.outage_until;
                let step = if in_office && standing == fence {
                    Step::Proved(writer)
                } else {
                    Step::Refused(writer, standing)
                };
                self.schedule(self.now + FENCED_LATENCY, Happening::Fenced(step));
            }
            Step::Proved(writer) => self.superseded(writer),
        }
    }

    fn hears(&self, writer: Writer) -> bool {
        let node = &self.nodes[writer.node];
        node.linked && node.wire.carries_answers() && node.life == writer.life
    }

    /// The stream's leader is asked; one of before may answer.
    fn read_fence(&mut self, writer: Writer, told: u64) {
        let Some(Writers(chance)) = &mut self.writers else {
            return;
        };
        let ago = if chance.permille(200) {
            chance.upto(Duration::from_secs(10))
        } else {
            Duration::ZERO
        };
        let fence = self.bucket.fence_of(ago, self.now);
        let step = Step::Read {
            writer,
            told,
            fence: fence.map_or(0, |fence| fence.revision),
            key: self.data,
        };
        self.schedule(self.now + FENCED_LATENCY, Happening::Fenced(step));
    }

    /// As the fenced store does.
    fn judge_refusal(&mut self, mut writer: Writer, told: u64, fence: u64, key: u64) {
        let ours = writer.token.sequence;
        if fence > ours {
            self.superseded(writer);
        } else if fence < ours && told == fence {
            #[cfg(feature = "__mutations")]
            if nats_elect_core::Mutation::SupersededByRead.is_on() {
                self.superseded(writer);
                return;
            }
            self.schedule(self.now, Happening::Fenced(Step::Prove(writer, fence)));
        } else if writer.retries > 0 {
            writer.retries -= 1;
            writer.over = writer.over.map(|_| key);
            let arrive = Step::Arrive(writer, Some(FENCED_LATENCY));
            self.schedule(self.now + FENCED_LATENCY * 4, Happening::Fenced(arrive));
        }
    }

    fn superseded(&mut self, writer: Writer) {
        let token = writer.token;
        self.tell(&Note::ToldSuperseded { token });
        let term = writer.term;
        self.input(writer.node, Input::Superseded { term });
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
        let key = self.data;
        let Some(Writers(chance)) = &mut self.writers else {
            return;
        };
        let mut writer = writer;
        writer.retries = 3;
        // What it expects of its key may be wrong.
        writer.over = chance
            .permille(400)
            .then(|| key.saturating_sub(chance.below(2)));
        // Whoever is paused between its look at the lease and its write looks as if it had not
        // looked.
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
        self.schedule(at, Happening::Fenced(Step::Arrive(writer, Some(back))));
        if twice {
            self.schedule(
                at + ttl,
                Happening::Fenced(Step::Arrive(writer, Some(back))),
            );
        }
    }

    /// The server looks at the fence key's sequence, and for creates, updates and batches at the
    /// key's own.
    fn fenced_arrives(&mut self, writer: Writer, back: Option<Duration>) {
        if !self.bucket.exists {
            return;
        }
        if self.now < self.outage_until {
            self.fenced_arrives_in_an_outage(writer, back);
            return;
        }
        let standing = self.bucket.fence().map_or(0, |fence| fence.revision);
        self.say(writer.node, "fenced write arrives", &(writer, standing));
        let told = if standing != writer.token.sequence {
            standing
        } else if writer.over.is_some_and(|over| over != self.data) {
            self.data
        } else {
            self.data += 1;
            self.tally.fenced_written += 1;
            let token = writer.token;
            self.tell(&Note::FencedWrite { token });
            return;
        };
        self.tally.fenced_refused += 1;
        if let Some(back) = back {
            let refused = Step::Refused(writer, told);
            self.schedule(self.now + back, Happening::Fenced(refused));
        }
    }

    /// A leader of before refuses by what it knew, and its successor stores the same write.
    fn fenced_arrives_in_an_outage(&mut self, writer: Writer, back: Option<Duration>) {
        let Some(Writers(chance)) = &mut self.writers else {
            return;
        };
        if chance.permille(500) {
            return;
        }
        let ago = chance.upto(Duration::from_secs(10));
        let fence = self.bucket.fence_of(ago, self.now);
        let told = fence.map_or(0, |fence| fence.revision);
        if told != writer.token.sequence
            && let Some(back) = back
        {
            let refused = Step::Refused(writer, told);
            self.schedule(self.now + back, Happening::Fenced(refused));
        }
        let arrive = Step::Arrive(writer, None);
        self.schedule(self.outage_until, Happening::Fenced(arrive));
    }
}

fn latency(chance: &mut Chance) -> Duration {
    Duration::from_micros(200) + chance.upto(Duration::from_micros(600))
}
