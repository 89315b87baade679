//! `top`: a live screen of roles and instances.

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;

use crate::exit::{Failure, Outcome};
use crate::options::{Shared, duration};
use crate::output::Output;
use crate::top::{self, How, Look};
use crate::trust::Trust;

/// Instances are asked no more often.
const SHORTEST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(60 * 60);

const EXAMPLES: &str = "\
Examples:
  nats-elect top
  nats-elect top --interval 5s --bucket control-plane
  nats-elect top --once | mail -s leaders ops@example.com

Keys: q quits, arrows select, / filters, ? shows help.";

/// Show roles and leaders live
///
/// The screen shows all roles, those that are not known to be led first. A role has its leader, the
/// rest of the lease, how long the leader has led, how long its last heartbeat took, and the fencing
/// token. Below are the groups, the candidates of the selected role, and the latest changes.
///
/// Leaders and leases come from the bucket, changes before the start from the stream of published
/// events, and the rest from the instances. If a part can't be had, because a permission is missing,
/// no history is kept or the admin service is off, the screen says so and leaves that part out.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Top {
    /// How often the instances are asked, from 500ms to 1h. With very many instances it is less often
    #[arg(short, long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    interval: Duration,

    /// Write one picture as text, and exit
    #[arg(long)]
    once: bool,

    #[command(flatten)]
    trust: Trust,
}

impl Top {
    /// Whether it writes its screen where logs would go.
    pub fn takes_stderr(&self) -> bool {
        !self.once && io::stderr().is_terminal()
    }

    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        if output.is_data() {
            return Err(Failure::usage("`top` is a screen, and writes no JSON")
                .advice("programs can use `watch --json` and `candidates --json`"));
        }
        if !(SHORTEST..=LONGEST).contains(&self.interval) {
            return Err(Failure::usage("--interval must be from 500ms to 1h"));
        }
        if !self.once && !io::stdout().is_terminal() {
            return Err(Failure::usage("`top` needs a terminal")
                .advice("`top --once` writes one picture as text"));
        }
        let config = shared.config()?;
        let observer = shared.observer(None, &self.trust, !self.once).await?;
        let how = How {
            observer,
            config,
            interval: self.interval,
            look: Look {
                colours: output.colours(),
            },
        };
        if self.once {
            Box::pin(top::once(how, output)).await
        } else {
            top::watch(how).await
        }
    }
}
