//! `completions`: what shells know of this command.

use std::io::{self, Write};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::Outcome;

/// Write completions for a shell
///
/// The command writes a script to stdout. With it the shell completes commands, options and their
/// values. The script belongs to this version: a file that keeps it has to be written anew after an
/// upgrade.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  source <(nats-elect completions bash)              in ~/.bashrc
  source <(nats-elect completions zsh)               in ~/.zshrc, after compinit
  nats-elect completions fish | source               in ~/.config/fish/config.fish
  eval (nats-elect completions elvish | slurp)       in ~/.elvish/rc.elv
  nats-elect completions powershell | Out-String | Invoke-Expression   in $PROFILE")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(&self, mut command: Command) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "nats-elect", &mut script);
        io::stdout().lock().write_all(&script)?;
        Ok(0)
    }
}
