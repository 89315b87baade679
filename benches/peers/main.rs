//! How fast a role changes hands, beside other systems: `cargo bench --bench peers`.
//!
//! Each candidate is a process of its own, each system has a private server with its own storage
//! on the same disk, and all are measured in the same run, in turns, by the same driver and clock.
//! `-- --help` lists the parts. `-- --write docs` draws docs/benchmarks.md and its plots.

mod args;
mod candidate;
#[path = "../../tests/support/debian.rs"]
mod debian;
mod fleet;
mod packages;
mod parts;
mod report;
mod server;
mod system;

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;

use crate::args::Args;

fn main() -> ExitCode {
    nats_elect::last_will::init();
    if let Some(orders) = drill::driven::purpose() {
        candidate::run(&orders);
        return ExitCode::SUCCESS;
    }
    let args = Args::parse();
    match on_the_disk().and_then(|()| parts::run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Servers keep their data in `TMPDIR`, which must be the same disk for all of them, and no memory:
/// runs this program again with that set.
fn on_the_disk() -> Result<(), debian::Problem> {
    let data = debian::target_folder()?.join("peers-data");
    std::fs::create_dir_all(&data)?;
    if std::env::temp_dir() == data {
        return Ok(());
    }
    let again = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .env("TMPDIR", data)
        .exec();
    Err(again.into())
}
