//! The command `nats-elect`: looks at elections, changes them, and runs commands under them.
//!
//! `cli` says what can be typed, `commands` has one file per command. `connect`, `line` and
//! `context` say which NATS; `output`, `text`, `logs` and `exit` how it is told; `trust` whose
//! signatures count. `fleet` is what is known of a bucket, `looking` finds it out for `top`, the live
//! screen, and for `serve`, the server.
#![forbid(unsafe_code)]
// Comments on options are the help text, which is no Markdown.
#![allow(clippy::doc_markdown)]
// Fields of answers have the names of their JSON.
#![allow(clippy::struct_field_names)]

#[cfg(unix)]
mod agent;
mod applications;
mod cli;
mod columns;
mod commands;
mod config_file;
mod confirm;
mod connect;
mod context;
mod doctor;
#[cfg(unix)]
mod exec;
mod exit;
mod fleet;
mod follow;
#[cfg(unix)]
mod instance_options;
mod instances;
mod line;
mod logs;
mod looking;
mod openapi;
mod operating;
mod options;
mod output;
mod past_event;
mod problem;
mod progress;
mod reading;
mod record;
mod roles;
mod secret;
mod seen;
mod serve;
mod stopped;
mod text;
mod top;
mod trust;

use std::process::ExitCode;

fn main() -> ExitCode {
    nats_elect::last_will::init();
    #[cfg(unix)]
    if let Some(ended) = exec::processes::inner() {
        return exit::report_in_time(ended, output::Output::default());
    }
    let cli = match cli::Cli::read() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let output = cli.shared.display.to_output();
    #[cfg(unix)]
    if matches!(cli.command, cli::Command::Exec(_)) {
        return exit::report_in_time(run(cli, output), output);
    }
    exit::report(&run(cli, output), output)
}

fn run(cli: cli::Cli, output: output::Output) -> exit::Outcome {
    let _logs = match cli.command.logs() {
        Some(level) => Some(logs::to_stderr(
            cli.shared.display.verbose,
            &level,
            output.colours(),
        )?),
        None => None,
    };
    for unknown in nats_elect::ManagerConfig::unknown_in_env() {
        // Where nobody may read stderr, the logs hold nothing up.
        if tracing::enabled!(tracing::Level::WARN) {
            tracing::warn!("{unknown}");
        } else {
            output.warning(&unknown);
        }
    }
    cli.command.run(&cli.shared, output)
}
