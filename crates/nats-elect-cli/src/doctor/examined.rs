//! What is looked at, and by which measure.

use clap::ValueEnum;
use nats_elect::{ManagerConfig, RoleSettings};

use crate::instances::Whose;
use crate::line::Line;

/// Whose permissions are tried: a file of `deploy/nats` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Stands for election
    Candidate,
    /// Reads the bucket, and asks instances how they are
    Observer,
    /// Asks instances, and has them step down, pause, resume and cordon
    Operator,
}

/// The roles that are checked.
pub struct Roles {
    pub names: Vec<String>,
    /// Nobody named one: what is denied for this name proves nothing about others.
    pub made_up: bool,
}

impl Roles {
    /// Those that somebody named.
    pub fn named(&self) -> &[String] {
        if self.made_up { &[] } else { &self.names }
    }
}

/// What is looked at, and by which measure.
pub struct Examined<'a> {
    pub line: &'a Line,
    pub config: &'a ManagerConfig,
    pub part: Part,
    pub roles: &'a Roles,
    /// The groups that somebody named, or the configuration has.
    pub groups: &'a [String],
    pub times: &'a [Times],
    /// Whose instances an operator asks.
    pub operates: Whose<'a>,
}

/// A role, as lines call it, and its settings.
pub struct Times {
    pub role: String,
    pub settings: RoleSettings,
}

impl Examined<'_> {
    pub fn bucket(&self) -> &str {
        &self.config.bucket
    }
}
