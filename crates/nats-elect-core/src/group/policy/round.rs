//! Rounds of moves that only make things better: they begin, are carried through, and rest.

use std::time::Duration;

use crate::moment::Moment;

/// Whether a round is under way. A round begins when the imbalance leaves the band, or when a wish
/// can be met. It goes on until nothing can be made better, also within the band. Between rounds
/// is a cool-down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Round {
    /// A new planner does not know whether its predecessor carried a round through. So it does.
    #[default]
    Unknown,
    /// A round is under way.
    Open,
    /// No round is under way.
    Over {
        /// When the last round ended, if there was one.
        at: Option<Moment>,
    },
}

impl Round {
    /// When a round may go on or begin.
    pub(super) fn may_begin(self, cool_down: Duration) -> Option<Moment> {
        match self {
            Self::Over { at: Some(at) } => Some(at + cool_down),
            _ => None,
        }
    }

    /// Whether units move although the imbalance is within the band.
    pub(super) fn is_open(self) -> bool {
        !matches!(self, Self::Over { .. })
    }

    /// The state after a plan that leaves moves to do, or none.
    pub(super) fn after(self, unfinished: bool, now: Moment) -> Self {
        match self {
            _ if unfinished => Self::Open,
            Self::Open => Self::Over { at: Some(now) },
            Self::Unknown => Self::Over { at: None },
            over @ Self::Over { .. } => over,
        }
    }
}
