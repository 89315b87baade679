//! `completions` and `man`: what shells and `man` know of this command.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::Outcome;

/// Write completions for a shell
///
/// The command writes them to stdout. zsh reads a file `_nats-elect` in a folder of `fpath`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  nats-elect completions bash > /etc/bash_completion.d/nats-elect
  nats-elect completions zsh > ~/.zfunc/_nats-elect
  nats-elect completions fish > ~/.config/fish/completions/nats-elect.fish")]
pub struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub fn run(&self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "nats-elect", &mut script);
        io::stdout().lock().write_all(&script)?;
        Ok(0)
    }
}

/// Write the manual pages
///
/// There is one page for the command and one for each subcommand, in the format of man(7).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  nats-elect man /usr/local/share/man/man1
  nats-elect man | man -l -")]
pub struct Man {
    /// The folder to write them to. Without it, the first page goes to stdout
    folder: Option<PathBuf>,
}

impl Man {
    pub fn run(&self) -> Outcome {
        match &self.folder {
            Some(folder) => {
                fs::create_dir_all(folder)?;
                clap_mangen::generate_to(Cli::command(), folder)?;
            }
            None => clap_mangen::Man::new(Cli::command()).render(&mut io::stdout().lock())?,
        }
        Ok(0)
    }
}
