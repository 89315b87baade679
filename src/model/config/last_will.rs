//! Whether a companion process releases the roles and units of a process that dies.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Whether this instance has a companion process that releases its roles, and its units of groups,
/// when the process dies: see [`last_will`](mod@crate::last_will). Default: it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct LastWillConfig {
    /// Whether there is a companion. Default false.
    pub enabled: bool,

    /// The program that the companion runs: `nats-elect`, or another one that calls
    /// [`last_will::init`](crate::last_will::init). If unset, it is the application itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<PathBuf>,
}

impl LastWillConfig {
    /// Returns a configuration with a companion that runs the application's own program.
    pub fn on() -> Self {
        Self {
            enabled: true,
            program: None,
        }
    }

    /// Returns a configuration with a companion that runs this program.
    pub fn by(program: impl Into<PathBuf>) -> Self {
        Self {
            enabled: true,
            program: Some(program.into()),
        }
    }
}
