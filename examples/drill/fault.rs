//! What is done to the instances.

use crate::Moment;

/// Something that was done to a process.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// What it was.
    pub kind: Kind,
    /// The number of the instance, from 0.
    pub instance: usize,
    /// Which of its processes, from 1.
    pub process: u32,
    /// When it was done.
    pub from: Moment,
    /// When it was over: resumed, connected again, or gone. `None` if it never was.
    pub until: Option<Moment>,
}

/// The kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `kill -9`.
    Kill,
    /// `SIGSTOP`, and later `SIGCONT`.
    Pause,
    /// Nothing passes between it and NATS, and nothing is closed.
    Cut,
    /// `SIGTERM`: it gives away what it owns and ends.
    Drain,
}

impl Kind {
    /// Whether what it owns is free only when its lease has run out.
    pub const fn is_hard(self) -> bool {
        !matches!(self, Self::Drain)
    }

    /// What became of the instance.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kill => "killed",
            Self::Pause => "paused",
            Self::Cut => "cut off",
            Self::Drain => "drained",
        }
    }
}
