//! The commands, each in a file of its own: its options, its help, and what it does.

pub mod check;
pub mod completions;
pub mod doctor;
#[cfg(unix)]
pub mod exec;
pub mod verify;

use crate::cli::{Command, Shared};
use crate::connect::block_on;
use crate::exit::Outcome;
use crate::output::Output;

/// Does what was asked.
pub fn run(command: Command, shared: &Shared, output: Output) -> Outcome {
    match command {
        Command::Check(check) => check.run(output),
        Command::Doctor(doctor) => block_on(doctor.run(shared, output)),
        Command::Verify(verify) => block_on(verify.run(shared, output)),
        #[cfg(unix)]
        Command::Exec(exec) => block_on(exec.run(shared, output)),
        #[cfg(unix)]
        Command::ExecGuard(guard) => guard.run(),
        #[cfg(unix)]
        Command::ExecStarter(starter) => starter.run(),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}
