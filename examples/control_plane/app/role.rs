//! The three roles, and the small work that belongs to each.

use std::fmt;
use std::time::Duration;

/// The roles of this control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Assigns jobs to workers.
    Scheduler,
    /// Allocates addresses.
    Network,
    /// Aggregates counts.
    Metrics,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Scheduler, Self::Network, Self::Metrics];

    /// The name under which it is elected.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Network => "network",
            Self::Metrics => "metrics",
        }
    }

    /// How long one piece of its work takes.
    pub const fn effort(self) -> Duration {
        Duration::from_millis(match self {
            Self::Scheduler => 20,
            Self::Network => 30,
            Self::Metrics => 50,
        })
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
