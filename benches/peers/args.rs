//! The command line.

use clap::{Parser, ValueEnum};

/// How fast a role changes hands, beside raw NATS, etcd and ZooKeeper.
///
/// Starts a private server of each system, unpacked from Debian's packages where it is not
/// installed, and candidates in processes of their own. Prints tables; all figures of one run are
/// from one machine in one hour, so trust their ratios.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench peers --", after_help = AFTER_HELP)]
pub struct Args {
    /// Few rounds, and 100 candidates at most: some minutes instead of half an hour.
    #[arg(long)]
    pub quick: bool,

    /// Only these parts.
    #[arg(long, value_enum, num_args = 1..)]
    only: Vec<Part>,

    /// `docs` writes docs/benchmarks.md and its plots. A part that was left out is said there to be
    /// not measured.
    #[arg(long, value_enum)]
    pub write: Option<Write>,

    /// What `cargo bench` says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

const AFTER_HELP: &str = "Examples:
  cargo bench --bench peers -- --quick
  cargo bench --bench peers -- --only graceful crash
  cargo bench --bench peers -- --write docs";

/// The parts of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The leader leaves, or names its successor.
    Graceful,
    /// The leader's process is killed, at several ttls.
    Crash,
    /// The leader's process is killed, and has a last will.
    LastWill,
    /// Many candidates follow one leader.
    Herd,
    /// One instance has many roles.
    Roles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Write {
    Docs,
}

impl Args {
    /// Whether a part is to be measured.
    pub fn has(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}
