//! The command `nats-elect`: looks at elections, changes them, and runs commands under them.
//!
//! `cli` says what can be typed, `commands` has one file per command. `connect` and `context` say which NATS; `output`,
//! `text` and `exit` how it is told; `trust` whose signatures count, `top` the live screen.
#![forbid(unsafe_code)]
// Comments on options are the help text, which is no Markdown.
#![allow(clippy::doc_markdown)]

mod cli;
mod commands;
mod config_file;
mod connect;
mod context;
mod doctor;
#[cfg(unix)]
mod exec;
mod exit;
mod operating;
mod output;
mod record;
mod seen;
mod stepped;
mod text;
mod top;
mod trust;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let output = output::Output::new(&cli.shared);
    if !cli.command.takes_stderr() {
        output::log_to_stderr(cli.shared.verbose, cli.command.logs(), output.colours());
    }
    let ended = commands::run(cli.command, &cli.shared, output);
    exit::told(ended, output)
}
