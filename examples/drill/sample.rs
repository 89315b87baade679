//! Medians and their like.

use std::time::Duration;

/// What was measured, round by round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample(Vec<Duration>);

impl Sample {
    /// One more round.
    pub fn add(&mut self, took: Duration) {
        let at = self.0.partition_point(|other| *other < took);
        self.0.insert(at, took);
    }

    /// Half of the rounds took no longer.
    pub fn median(&self) -> Duration {
        self.share(50)
    }

    /// 99 of 100 rounds took no longer; of fewer than 100 rounds, none did.
    pub fn p99(&self) -> Duration {
        self.share(99)
    }

    /// The longest round.
    pub fn most(&self) -> Duration {
        self.share(100)
    }

    /// What so many of 100 rounds did not exceed.
    pub fn share(&self, percent: usize) -> Duration {
        let at = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(at).copied().unwrap_or_default()
    }

    /// How many rounds there were.
    pub fn rounds(&self) -> usize {
        self.0.len()
    }
}

impl FromIterator<Duration> for Sample {
    fn from_iter<I: IntoIterator<Item = Duration>>(took: I) -> Self {
        let mut took: Vec<_> = took.into_iter().collect();
        took.sort_unstable();
        Self(took)
    }
}
