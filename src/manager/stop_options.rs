//! How to stop, and whether a role is freed then.

use std::time::Duration;

/// Whether a role is freed for others when its election is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Release {
    /// Do as the role's `delete_on_stop` says.
    #[default]
    Configured,
    /// Free the role once its handler has ended. Another instance leads at once.
    Delete,
    /// Leave the record. Another instance leads when the lease has run out.
    Keep,
}

impl Release {
    pub(super) const fn choice(self) -> Option<bool> {
        match self {
            Self::Configured => None,
            Self::Delete => Some(true),
            Self::Keep => Some(false),
        }
    }
}

/// How to stop.
///
/// ```
/// use std::time::Duration;
///
/// use nats_elect::{Release, StopOptions};
///
/// let restart = StopOptions::default()
///     .release(Release::Keep)
///     .timeout(Duration::from_secs(10));
/// assert_eq!(restart.release, Release::Keep);
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct StopOptions {
    /// Whether the roles are freed. Default: as each role is configured.
    pub release: Release,
    /// How long handlers may take to end. Default: 30 s.
    pub timeout: Duration,
}

impl Default for StopOptions {
    fn default() -> Self {
        Self {
            release: Release::default(),
            timeout: Duration::from_secs(30),
        }
    }
}

impl StopOptions {
    /// Sets [`release`](field@Self::release).
    #[must_use]
    pub const fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// Sets [`timeout`](field@Self::timeout).
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}
