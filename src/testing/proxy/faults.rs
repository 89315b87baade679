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
