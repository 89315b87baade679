//! When two states are the same situation.
//!
//! States that behave alike from here on, up to names, count as one. Four things are names:
//!
//! - *True time and clocks.* The core computes with differences of moments of one clock, so all
//!   moments are taken relative to their clock. Those of more than a lease ago are told apart by
//!   their order alone: every comparison with the present comes out the same for all of them, for
//!   no setting looks back further.
//! - *Sequences, beats, terms.* They are compared for equality and order and made by counting up,
//!   so their ranks do. Zero stays zero.
//! - *Incarnations.* They are compared for equality alone. Instances are alike, so all ways of
//!   numbering them are tried and the least result is taken.
//! - *What nobody looks at*: a machine's labels and counters (see `Election::hash_state`), and
//!   revisions that an instance was shown but has forgotten.

use std::hash::{Hash, Hasher};

use crate::instance::{BEAT_SHIFT, CLOCK_BASE, INCARNATION_MARK, Instance, Process};
use crate::state::State;

/// Sequences of the model bucket begin above this; below are numbers of terms, and sequences of a
/// bucket that counts from 1.
const FIRST_SEQUENCE: u64 = 1 << 16;

/// A number as its hasher saw it.
#[derive(Clone, Copy)]
enum Word {
    /// Stands for itself.
    Plain(u64),
    /// A sequence, or a number of a term.
    Sequence(u64),
    Beat(u64),
    /// A moment of long ago.
    Ancient(u64),
    Incarnation {
        index: usize,
        life: u8,
    },
}

/// Takes down what is hashed, number by number.
#[derive(Default)]
struct Scribe {
    words: Vec<Word>,
    now: u64,
    look_back: u64,
}

impl Hasher for Scribe {
    fn finish(&self) -> u64 {
        unreachable!("it only takes down")
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Ok(bytes) = <[u8; 16]>::try_from(bytes) {
            let (mark, rest) = uuid::Uuid::from_bytes(bytes).as_u64_pair();
            if mark == INCARNATION_MARK {
                let index = usize::try_from(rest >> 8).expect("a few");
                let life = u8::try_from(rest & 0xff).expect("masked");
                self.words.push(Word::Incarnation { index, life });
                return;
            }
        }
        for chunk in bytes.chunks(8) {
            let mut eight = [0; 8];
            eight[..chunk.len()].copy_from_slice(chunk);
            self.words.push(Word::Plain(u64::from_le_bytes(eight)));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.words.push(Word::Plain(number.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.words.push(Word::Plain(number.into()));
    }

    fn write_u64(&mut self, number: u64) {
        self.words.push(if number == u64::MAX {
            Word::Plain(number)
        } else if number >= CLOCK_BASE / 2 {
            self.moment(number)
        } else if number >> BEAT_SHIFT > 0 {
            Word::Beat(number)
        } else {
            Word::Sequence(number)
        });
    }

    fn write_usize(&mut self, number: usize) {
        self.words.push(Word::Plain(number as u64));
    }
}

impl Scribe {
    fn moment(&self, nanos: u64) -> Word {
        let since_then = self.now.saturating_sub(nanos);
        if since_then > self.look_back {
            Word::Ancient(nanos)
        } else {
            Word::Plain(nanos.wrapping_sub(self.now))
        }
    }

    fn of(instance: &Instance, look_back: u64) -> Self {
        let mut scribe = Self {
            words: Vec::with_capacity(256),
            now: 0,
            look_back,
        };
        let Some(process) = &instance.process else {
            return scribe;
        };
        scribe.now = process.clock.as_nanos();
        scribe.take_down(process);
        scribe.take_down_what_was_seen(&process.seen);
        scribe
    }

    fn take_down(&mut self, process: &Process) {
        let Process {
            election,
            clock,
            due,
            request,
            reply_to,
            watch,
            term,
            paused,
            linked,
            stopping,
            seen: _,
            last_beat,
            doubted: _,
        } = process;
        election.hash_state(*clock, self);
        (due, watch, paused, linked, stopping, last_beat).hash(self);
        if let Some(request) = request {
            // Its number only tells its answer from others, and there is never a second one.
            (1u8, &request.asks, &request.progress).hash(self);
            (request.age, request.excused, request.spared).hash(self);
        }
        if let Some(reply_to) = reply_to {
            (3u8, reply_to).hash(self);
        }
        if let Some(term) = term {
            (2u8, term.id, term.lease, term.acting, term.over).hash(self);
            (term.running, term.cancelled, term.aborted, term.overrun).hash(self);
            (term.deaf, term.blocked).hash(self);
            (term.cancelled_for, term.revoked_for).hash(self);
        }
    }

    /// Of the sequences that it has in mind, those that it was shown.
    fn take_down_what_was_seen(&mut self, seen: &[u64]) {
        let mut in_mind = sorted(self.words.iter().filter_map(|word| match word {
            Word::Sequence(number) => Some(*number),
            _ => None,
        }));
        in_mind.retain(|number| seen.contains(number));
        // Not hashed as a slice: that would show its bytes, not its numbers.
        self.words.push(Word::Plain(in_mind.len() as u64));
        self.words.extend(in_mind.into_iter().map(Word::Sequence));
    }
}

/// The ranks of all sequences and beats of a state.
struct Ranks {
    sequences: Vec<u64>,
    beats: Vec<u64>,
}

impl Ranks {
    fn rank(among: &[u64], number: u64) -> u64 {
        among.partition_point(|other| *other < number) as u64
    }

    fn beat(&self, number: u64) -> u64 {
        let first = number >> BEAT_SHIFT << BEAT_SHIFT;
        Self::rank(&self.beats, number) - Self::rank(&self.beats, first)
    }
}

fn sorted(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// What an instance has taken down, with what its words are ranked by in its own right.
struct Page {
    words: Vec<Word>,
    life: u8,
    ancient: Vec<u64>,
    /// Numbers of its terms.
    serials: Vec<u64>,
}

impl Page {
    fn new(words: Vec<Word>, life: u8, counts_from_one: bool) -> Self {
        let ancient = sorted(words.iter().filter_map(|word| match word {
            Word::Ancient(nanos) => Some(*nanos),
            _ => None,
        }));
        let serials = sorted(words.iter().filter_map(|word| match word {
            Word::Sequence(number) if *number < FIRST_SEQUENCE && !counts_from_one => Some(*number),
            _ => None,
        }));
        Self {
            words,
            life,
            ancient,
            serials,
        }
    }

    fn fold(&self, into: &mut Fold, ranks: &Ranks, places: &[usize], lives: &[u8]) {
        into.mix(1, self.words.len() as u64);
        for word in &self.words {
            match *word {
                Word::Plain(number) => into.mix(2, number),
                Word::Sequence(0) => into.mix(3, 0),
                Word::Sequence(number) if self.serials.binary_search(&number).is_ok() => {
                    into.mix(4, Ranks::rank(&self.serials, number));
                }
                Word::Sequence(number) => {
                    into.mix(5, Ranks::rank(&ranks.sequences, number));
                }
                Word::Beat(number) => into.mix(6, ranks.beat(number)),
                Word::Ancient(nanos) => into.mix(7, Ranks::rank(&self.ancient, nanos)),
                Word::Incarnation { index, life } => {
                    into.mix(8, places[index] as u64);
                    into.mix(9, (lives[index] - life).into());
                }
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Fold(u64);

impl Fold {
    fn mix(&mut self, kind: u64, number: u64) {
        const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
        let spread = (number ^ (kind << 59)).wrapping_add(SCATTER);
        let product = u128::from(self.0 ^ spread) * u128::from(SCATTER ^ 0x1234_5678_0000_0001);
        let [low, high] = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
        let folded = u64::try_from(low ^ high).expect("masked");
        self.0 = folded.wrapping_add(spread.rotate_left(23)) ^ self.0.rotate_left(41);
    }
}

/// A number for the situation. Two situations get the same by accident alone.
pub fn of(state: &State) -> u64 {
    let counts_from_one = !state.bucket.made.unique_sequences;
    let mut common = Scribe::default();
    let bucket = &state.bucket;
    (bucket.role(), bucket.fence(), &state.faults).hash(&mut common);
    (state.last_token, state.leaderless, state.time, state.broken).hash(&mut common);
    if state.faults.may(crate::fault::Fault::Stale) {
        bucket.stale_snapshot(1).hash(&mut common);
    }
    let page = |words, life| Page::new(words, life, counts_from_one);
    let common = page(common.words, 0);
    let ghosts = state.ghosts.iter().map(|ghost| {
        let mut scribe = Scribe::default();
        (ghost.nonce, &ghost.kind).hash(&mut scribe);
        page(scribe.words, 0)
    });
    let wills = state.wills.iter().map(|will| {
        let mut scribe = Scribe::default();
        will.hash(&mut scribe);
        page(scribe.words, 0)
    });
    let ghosts: Vec<_> = ghosts.chain(wills).collect();
    let pages: Vec<_> = state
        .instances
        .iter()
        .enumerate()
        .map(|(index, instance)| {
            let mut words = Scribe::of(instance, state.look_back).words;
            // Instances of different priorities are not alike.
            words.push(Word::Plain(if state.ranked { index as u64 } else { 0 }));
            page(words, instance.life)
        })
        .collect();
    let lives: Vec<_> = pages.iter().map(|page| page.life).collect();
    let ranks = ranks(std::iter::once(&common).chain(&ghosts).chain(&pages));
    orders(pages.len())
        .iter()
        .map(|order| {
            let mut places = [0; 3];
            for (place, index) in order.iter().enumerate() {
                places[*index] = place;
            }
            let mut fold = Fold(0);
            common.fold(&mut fold, &ranks, &places, &lives);
            // They have no order among themselves.
            let haunted = ghosts.iter().map(|ghost| {
                let mut own = Fold(1);
                ghost.fold(&mut own, &ranks, &places, &lives);
                own.0
            });
            fold.mix(10, haunted.fold(0, u64::wrapping_add));
            for index in *order {
                pages[*index].fold(&mut fold, &ranks, &places, &lives);
            }
            fold.0
        })
        .min()
        .expect("at least one order")
}

fn ranks<'a>(pages: impl Iterator<Item = &'a Page>) -> Ranks {
    let mut ranks = Ranks {
        sequences: vec![0],
        beats: Vec::new(),
    };
    for word in pages.flat_map(|page| &page.words) {
        match *word {
            Word::Sequence(number) => ranks.sequences.push(number),
            Word::Beat(number) => ranks.beats.push(number),
            _ => {}
        }
    }
    ranks.sequences = sorted(ranks.sequences.into_iter());
    ranks.beats = sorted(ranks.beats.into_iter());
    ranks
}

const fn orders(instances: usize) -> &'static [&'static [usize]] {
    match instances {
        1 => &[&[0]],
        2 => &[&[0, 1], &[1, 0]],
        _ => &[
            &[0, 1, 2],
            &[0, 2, 1],
            &[1, 0, 2],
            &[1, 2, 0],
            &[2, 0, 1],
            &[2, 1, 0],
        ],
    }
}
