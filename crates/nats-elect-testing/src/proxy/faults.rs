//! The faults in force.

use std::time::Duration;

use super::Direction;

/// All faults of a proxy at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) is_cut: bool,
    /// Counts the cuts, so that a connection notices a cut that was over before it looked.
    pub(super) cuts: u64,
    /// By direction.
    ways: [Way; 2],
    pub(super) acks: AckFault,
}

/// The faults in one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub(super) silent: bool,
    pub(super) delay: Duration,
    /// The share of the pieces that come later still.
    stalled: f64,
    /// How much later they come.
    stalled_by: Duration,
}

impl Way {
    /// Returns how long a piece is on its way. Its luck, from 0 to 1, decides whether it is
    /// stalled.
    pub(super) fn time_of(&self, luck: f64) -> Duration {
        if luck < self.stalled {
            self.delay + self.stalled_by
        } else {
            self.delay
        }
    }

    pub(super) fn stall(&mut self, share: f64, by: Duration) {
        self.stalled = share;
        self.stalled_by = by;
    }
}

/// The fault of publish acks on their way to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AckFault {
    #[default]
    None,
    Hold,
    Drop,
}

impl Faults {
    pub(super) fn way(&self, direction: Direction) -> Way {
        self.ways[direction as usize]
    }

    pub(super) fn way_mut(&mut self, direction: Direction) -> &mut Way {
        &mut self.ways[direction as usize]
    }

    /// Returns whether later data may overtake acks.
    pub(super) fn holds_acks(&self) -> bool {
        self.acks != AckFault::None
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
