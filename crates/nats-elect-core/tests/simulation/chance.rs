//! All chance of one world, from one seed.

use std::ops::Range;
use std::time::Duration;

use uuid::Uuid;

use nats_elect_core::Fresh;
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::token::LeaseToken;

/// `SplitMix64`: small, and the same on every platform for ever.
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

    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// True so many times in a thousand.
    pub const fn permille(&mut self, so_many: u32) -> bool {
        self.below(1000) < so_many as u64
    }

    pub fn within(&mut self, range: &Range<Duration>) -> Duration {
        let width = range.end.saturating_sub(range.start).as_nanos();
        range.start + Duration::from_nanos(self.below(u64::try_from(width).unwrap_or(u64::MAX)))
    }

    /// From nothing to just below this.
    pub fn upto(&mut self, bound: Duration) -> Duration {
        self.within(&(Duration::ZERO..bound))
    }

    pub fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        let count = u64::try_from(among.len()).expect("a few");
        among[usize::try_from(self.below(count)).expect("a few")]
    }

    pub fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.next(), self.next())
    }

    pub fn fresh(&mut self) -> Fresh {
        let share = u32::try_from(self.below(1 << 30)).expect("below 2^30");
        Fresh {
            lease_token: LeaseToken::new(self.uuid()),
            release_secret: ReleaseSecret::new(self.uuid().as_u128()),
            chance: f64::from(share) / f64::from(1u32 << 30),
        }
    }
}
