//! The commands, each in a file of its own: its options, its help, and what it does.

pub mod check;
pub mod completions;
pub mod verify;

use crate::cli::{Command, Shared};
use crate::connect::block_on;
use crate::exit::Outcome;
use crate::output::Output;

/// Does what was asked.
pub fn run(command: Command, shared: &Shared, output: Output) -> Outcome {
    match command {
        Command::Check(check) => check.run(output),
        Command::Verify(verify) => block_on(verify.run(shared, output)),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}
