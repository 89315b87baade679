//! The options of every command: how to connect, and how results are shown.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args};
/// Parses a duration like `1500ms`, `15s` or `1m 30s`.
pub use nats_elect::duration::parse as duration;

use crate::output::{Format, Output};

/// Options of every command.
#[derive(Debug, Args)]
pub struct Shared {
    #[command(flatten)]
    pub connection: Connection,
    #[command(flatten)]
    pub display: Display,
}

/// How to connect, and to what.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub struct Connection {
    /// The address of NATS, or several addresses separated by commas [env: NATS_URL]
    #[arg(short, long, global = true, value_name = "URL")]
    pub server: Option<String>,

    /// The context of the `nats` command to connect with
    #[arg(long, global = true, value_name = "NAME", env = "NATS_CONTEXT")]
    #[arg(hide_env_values = true)]
    pub context: Option<String>,

    /// The user's name [env: NATS_USER]
    #[arg(long, global = true, value_name = "NAME")]
    pub user: Option<String>,

    /// The user's password. Other users of this machine can see it here: prefer the environment [env:
    /// NATS_PASSWORD]
    #[arg(long, global = true, value_name = "SECRET")]
    pub password: Option<String>,

    /// A token. Other users of this machine can see it here: prefer the environment [env:
    /// NATS_TOKEN]
    #[arg(long, global = true, value_name = "SECRET")]
    pub token: Option<String>,

    /// A file with a user's JWT and seed [env: NATS_CREDS]
    #[arg(long, global = true, value_name = "FILE")]
    pub creds: Option<PathBuf>,

    /// A file with the seed of a user's nkey [env: NATS_NKEY]
    #[arg(long, global = true, value_name = "FILE")]
    pub nkey: Option<PathBuf>,

    /// A PEM file with this client's certificate [env: NATS_CERT]
    #[arg(long, global = true, value_name = "FILE")]
    pub tlscert: Option<PathBuf>,

    /// A PEM file with that certificate's private key [env: NATS_KEY]
    #[arg(long, global = true, value_name = "FILE")]
    pub tlskey: Option<PathBuf>,

    /// A PEM file with the certificate authorities to trust [env: NATS_CA]
    #[arg(long, global = true, value_name = "FILE")]
    pub tlsca: Option<PathBuf>,

    /// Start TLS before the server's greeting [env: NATS_TLS_FIRST]
    #[arg(long, global = true)]
    pub tlsfirst: bool,

    /// The prefix of reply subjects
    #[arg(long, global = true, value_name = "PREFIX")]
    pub inbox_prefix: Option<String>,

    /// The Key-Value bucket of the elections [default: leaders]
    #[arg(short, long, global = true, value_name = "NAME")]
    #[arg(env = "NATS_ELECT_BUCKET")]
    pub bucket: Option<String>,

    /// The prefix of the instances' admin subjects [default: nats-elect-admin]
    #[arg(long, global = true, value_name = "PREFIX")]
    #[arg(env = "NATS_ELECT_ADMIN__SUBJECT_PREFIX")]
    pub admin_prefix: Option<String>,

    /// The JetStream domain of the bucket, if instances of two buckets of one name answer. For
    /// commands that ask instances and do not read the bucket
    #[arg(long, global = true, value_name = "NAME")]
    pub domain: Option<String>,

    /// How long to wait for NATS and for answers, like 500ms or 10s [default: 5s; 30s for `exec`,
    /// which waits for NATS when it starts]
    #[arg(long, global = true, value_name = "TIME", env = "NATS_TIMEOUT")]
    #[arg(value_parser = duration)]
    pub timeout: Option<Duration>,
}

/// How long a command waits that watches for a moment.
#[derive(Debug, Args)]
pub struct Heartbeats {
    /// How long to wait at most for heartbeats. They come each second by default
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2500ms")]
    pub wait: Duration,
}

/// How results are shown.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Display {
    /// The form of results on stdout. With json errors on stderr are JSON
    #[arg(short, long, global = true, value_enum, value_name = "FORM")]
    #[arg(default_value = "table")]
    pub output: Format,

    /// The same as --output json
    #[arg(long, global = true, conflicts_with = "output")]
    pub json: bool,

    /// Use no colours [env: NO_COLOR, CLICOLOR, CLICOLOR_FORCE]
    #[arg(long, global = true)]
    pub no_color: bool,

    /// Log to stderr; more with each v
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

impl Display {
    pub fn to_output(&self) -> Output {
        let format = if self.json { Format::Json } else { self.output };
        Output::new(format, self.no_color)
    }
}
