//! What `doctor` looks at: one file for each part of what an election stands on.
//!
//! Nothing here can change a bucket: the only messages to its keys carry two conditions that no
//! stream can fulfil.

pub mod bucket;
pub mod crash;
pub mod findings;
pub mod fleet;
pub mod groups;
pub mod pace;
pub mod permissions;
pub mod records;
pub mod server;

use clap::ValueEnum;

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
