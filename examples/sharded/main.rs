//! A sharded service, and a proof that it holds. Six processes share 256 shards. Each shard counts
//! in the bucket, and has one owner at a time, whatever becomes of the processes.
//!
//! ```text
//! cargo run --example sharded                          all scenes, then a verdict and an exit code
//! cargo run --example sharded -- --svg ownership.svg   and a picture of who owned what
//! cargo run --example sharded -- --seed 7 --seconds 300
//! ```
//!
//! `counter.rs` and `instance.rs` are the service: begin your own with them. The rest is the stage
//! around it. `script.rs` has the scenes, `fleet.rs` the processes and their network, `verdict.rs`
//! the rules.

mod args;
mod chart;
#[path = "../control_plane/clock.rs"]
mod clock;
mod counter;
mod fault;
mod fleet;
mod instance;
mod journal;
mod ownership;
mod picture;
mod script;
#[path = "../chaos/drill/svg.rs"]
mod svg;
mod terms;
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
