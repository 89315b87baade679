//! Takes down what decides how things go on, and folds it into a number in which names do not
//! count. `fingerprint.rs` gives the reasons.

use std::hash::Hasher;

/// Clocks begin here: far above all other numbers, so that times are told by their size.
pub const CLOCK_BASE: u64 = 1 << 60;
/// The upper half of all names of 16 bytes: incarnations and epochs.
pub const NAME_MARK: u64 = 0xe1ec_0000_0000_0000;
/// Beats of different incarnations differ in the bits from here on.
pub const BEAT_SHIFT: u32 = 32;

/// Sequences of a model begin above this; below are numbers of terms, and sequences of a bucket that
/// counts from 1.
const FIRST_SEQUENCE: u64 = 1 << 16;

/// A number as its hasher saw it.
#[derive(Clone, Copy)]
pub enum Word {
    /// Stands for itself.
    Plain(u64),
    /// A sequence, or a number of a term.
    Sequence(u64),
    Beat(u64),
    /// A moment of long ago.
    Ancient(u64),
    /// The lower half of a name.
    Name(u64),
}

/// Takes down what is hashed, number by number.
#[derive(Default)]
pub struct Scribe {
    pub words: Vec<Word>,
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
            if mark == NAME_MARK {
                self.words.push(Word::Name(rest));
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
    /// Moments are taken relative to this one. Further back than that many nanoseconds, only their
    /// order counts.
    pub fn new(now: nats_elect_core::Moment, look_back: u64) -> Self {
        Self {
            words: Vec::with_capacity(256),
            now: now.as_nanos(),
            look_back,
        }
    }

    fn moment(&self, nanos: u64) -> Word {
        let since_then = self.now.saturating_sub(nanos);
        if since_then > self.look_back {
            Word::Ancient(nanos)
        } else {
            Word::Plain(nanos.wrapping_sub(self.now))
        }
    }
}

/// The ranks of all sequences, beats and names of a state.
pub struct Ranks {
    sequences: Vec<u64>,
    beats: Vec<u64>,
    names: Vec<u64>,
}

impl Ranks {
    pub fn of<'a>(pages: impl Iterator<Item = &'a Page>) -> Self {
        let (mut sequences, mut beats, mut names) = (vec![0], Vec::new(), Vec::new());
        for word in pages.flat_map(|page| &page.words) {
            match *word {
                Word::Sequence(number) => sequences.push(number),
                Word::Beat(number) => beats.push(number),
                Word::Name(rest) => names.push(rest),
                _ => {}
            }
        }
        Self {
            sequences: sorted(sequences.into_iter()),
            beats: sorted(beats.into_iter()),
            names: sorted(names.into_iter()),
        }
    }

    fn rank(among: &[u64], number: u64) -> u64 {
        among.partition_point(|other| *other < number) as u64
    }

    /// For names that are in an order.
    pub fn name(&self, rest: u64) -> u64 {
        Self::rank(&self.names, rest)
    }

    fn beat(&self, number: u64) -> u64 {
        let first = number >> BEAT_SHIFT << BEAT_SHIFT;
        Self::rank(&self.beats, number) - Self::rank(&self.beats, first)
    }
}

pub fn sorted(numbers: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut numbers: Vec<_> = numbers.collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// What one part of a state has taken down, with what its words are ranked by in its own right.
pub struct Page {
    words: Vec<Word>,
    ancient: Vec<u64>,
    /// Numbers of its terms.
    serials: Vec<u64>,
}

impl Page {
    pub fn new(words: Vec<Word>, counts_from_one: bool) -> Self {
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
            ancient,
            serials,
        }
    }

    /// `name` gives what counts of a name.
    pub fn fold(&self, into: &mut Fold, ranks: &Ranks, name: &impl Fn(u64) -> u64) {
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
                Word::Name(rest) => into.mix(8, name(rest)),
            }
        }
    }

    /// The sum over parts that have no order among themselves.
    pub fn sum<'a>(
        pages: impl Iterator<Item = &'a Self>,
        ranks: &Ranks,
        name: &impl Fn(u64) -> u64,
    ) -> u64 {
        let own = pages.map(|page| {
            let mut own = Fold(1);
            page.fold(&mut own, ranks, name);
            own.0
        });
        own.fold(0, u64::wrapping_add)
    }
}

#[derive(Clone, Copy)]
pub struct Fold(pub u64);

impl Fold {
    pub fn mix(&mut self, kind: u64, number: u64) {
        const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;
        let spread = (number ^ (kind << 59)).wrapping_add(SCATTER);
        let product = u128::from(self.0 ^ spread) * u128::from(SCATTER ^ 0x1234_5678_0000_0001);
        let [low, high] = [product, product >> 64].map(|half| half & u128::from(u64::MAX));
        let folded = u64::try_from(low ^ high).expect("masked");
        self.0 = folded.wrapping_add(spread.rotate_left(23)) ^ self.0.rotate_left(41);
    }
}
