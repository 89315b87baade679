//! A control plane that elects three roles at once, `scheduler`, `network` and `metrics`, and survives what happens to
//! its instances.
//!
//! ```text
//! cargo run --example control_plane                            a story told live; needs only Rust and Python
//! cargo run --example control_plane -- --once                  ends by itself, with a verdict and an exit code
//! cargo run --example control_plane -- --instance node-2       one instance of a real fleet, against NATS_URL
//! ```
//!
//! Where to look first: `instance.rs` is what an application does with this crate. The rest tells the story around it:
//! `story.rs` its steps, `fleet.rs` the processes and the network between them, `verdict.rs` what must be true of the
//! history that the instances wrote down themselves.

mod args;
mod board;
mod clock;
mod fault;
mod fleet;
mod history;
mod instance;
mod screen;
mod signals;
mod story;
mod verdict;
mod work;

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;

/// Any error, for people to read.
type Problem = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.instance {
        Some(id) => instance::run(id, &args).await,
        None => story::run(&args).await,
    };
    outcome.unwrap_or_else(|problem| {
        screen::complain(&problem.to_string());
        ExitCode::FAILURE
    })
}
