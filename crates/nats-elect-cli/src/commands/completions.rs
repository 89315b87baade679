//! `completions` and `man`: what shells and `man` know of this command.

use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::exit::{Code, Failure, Outcome};
use crate::text::clean;

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
                let pages = fs::create_dir_all(folder);
                let pages = pages.and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
                pages.map_err(|error| {
                    let folder = clean(&folder.display().to_string());
                    let what = format!("the pages can't be written to {folder}: {error}");
                    Failure::new(Code::Failed, what)
                })?;
            }
            None => clap_mangen::Man::new(Cli::command()).render(&mut io::stdout().lock())?,
        }
        Ok(0)
    }
}
