//! The faults in force.

use std::time::Duration;

use super::Direction;

/// Everything that a proxy does to its connections at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) is_cut: bool,
    /// Counts the cuts, so that a connection learns of one that is over before it looked.
    pub(super) cuts: u64,
    to_server: Way,
    to_client: Way,
    pub(super) acks: AckFault,
}

/// What happens in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub(super) silent: bool,
    pub(super) delay: Duration,
    stalls: Stalls,
}

/// Which share of the pieces comes how much later.
#[derive(Clone, Copy, Debug, Default)]
struct Stalls {
    share: f64,
    by: Duration,
}

impl Way {
    /// How long a piece is on its way: its luck, from 0 to 1, says whether it is stalled.
    pub(super) fn time_of(&self, luck: f64) -> Duration {
        if luck < self.stalls.share {
            self.delay + self.stalls.by
        } else {
            self.delay
        }
    }

    pub(super) fn stall(&mut self, share: f64, by: Duration) {
        self.stalls = Stalls { share, by };
    }
}

/// What happens to publish acks on their way to the client.
#[derive(Clone, Copy, Debug)]
pub(super) enum AckFault {
    Delay(Duration),
    Drop,
}

impl Default for AckFault {
    fn default() -> Self {
        Self::Delay(Duration::ZERO)
    }
}

impl Faults {
    pub(super) fn way(&self, direction: Direction) -> Way {
        match direction {
            Direction::ToServer => self.to_server,
            Direction::ToClient => self.to_client,
        }
    }

    pub(super) fn way_mut(&mut self, direction: Direction) -> &mut Way {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    /// Whether acks may be overtaken by what came after them.
    pub(super) fn holds_acks(&self) -> bool {
        !matches!(self.acks, AckFault::Delay(Duration::ZERO))
    }

    pub(super) fn cut(&mut self) {
        self.is_cut = true;
        self.cuts += 1;
    }

    pub(super) fn clear(&mut self) {
        *self = Self {
            cuts: self.cuts,
            ..Self::default()
        };
    }
}
