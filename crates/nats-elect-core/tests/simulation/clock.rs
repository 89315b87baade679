//! One process's clock: off by any amount, and a little too fast or too slow.

use std::time::Duration;

use nats_elect_core::Moment;

/// A local clock: off by so much, and by so many millionths too fast.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    pub offset: Duration,
    pub ppm: i64,
}

impl Clock {
    /// What it shows at this true time.
    pub fn at(self, time: Duration) -> Moment {
        let rate = i128::from(1_000_000 + self.ppm);
        let shown = i128::try_from(time.as_nanos()).expect("a short run") * rate / 1_000_000;
        Moment::from_nanos(u64::try_from(shown).expect("a forward clock")) + self.offset
    }

    /// The first true time at which it shows this.
    pub fn when(self, moment: Moment) -> Duration {
        let rate = u128::try_from(1_000_000 + self.ppm).expect("a forward clock");
        let shown = (moment - self.offset).as_nanos();
        let time = (u128::from(shown) * 1_000_000).div_ceil(rate);
        Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}
