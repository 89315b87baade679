//! A sharded service, and a proof that it holds. Six processes share 256 shards. Each shard counts
//! in the bucket, and has one owner at a time, whatever becomes of the processes.
//!
//! ```text
//! cargo run --example sharded                          all scenes, then a verdict and an exit code
//! cargo run --example sharded -- --svg ownership.svg   and a picture of who owned what
//! cargo run --example sharded -- --seed 7 --seconds 300
//! ```
//!
//! `counter.rs` and `instance.rs` are the service: begin your own with them. `script.rs` has the
//! scenes, `verdict.rs` the rules for a group. The stage around it is in `examples/drill`.

mod args;
mod counter;
mod instance;
mod picture;
mod script;
#[cfg(test)]
mod tests;
mod verdict;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.instance {
        Some(id) => instance::run(id, &args).await.map(|()| true),
        None => script::run(&args).await,
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("sharded: {problem}");
            ExitCode::FAILURE
        }
    }
}
