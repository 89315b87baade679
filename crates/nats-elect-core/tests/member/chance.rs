//! All chance of one world, from one seed.

use std::time::Duration;

/// `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below a bound, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("small");
        usize::try_from(self.next() % bound).expect("small")
    }

    /// True so many times in a thousand.
    pub fn permille(&mut self, so_many: usize) -> bool {
        self.below(1000) < so_many
    }

    /// So many milliseconds, and some microseconds.
    pub fn millis(&mut self, from: usize, to: usize) -> Duration {
        let micros = from * 1000 + self.below((to - from) * 1000 + 1);
        Duration::from_micros(u64::try_from(micros).expect("small"))
    }
}
