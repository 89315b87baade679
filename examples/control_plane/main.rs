//! A control plane that elects three roles at once: `scheduler`, `network` and `metrics`. It
//! survives everything that happens to its instances.
//!
//! ```text
//! cargo run --example control_plane                        a live story; needs Rust and Python
//! cargo run --example control_plane -- --once              ends with a verdict and an exit code
//! cargo run --example control_plane -- --instance node-2   one real instance, against NATS_URL
//! ```
//!
//! The folder `app` is the application: copy it to begin your own. The folder `demo` is the stage
//! around it: `story.rs` starts instances and breaks them, `scribe.rs` writes down what they do. How
//! that is judged is in `examples/drill`.

mod app;
mod demo;

use std::process::ExitCode;

use clap::Parser;

use crate::demo::args::Args;
use crate::demo::{instance, story};

#[tokio::main]
async fn main() -> ExitCode {
    let args = Args::parse();
    let outcome = match &args.instance {
        Some(id) => instance::run(id, &args).await,
        None => story::run(&args).await,
    };
    outcome.unwrap_or_else(|problem| {
        eprintln!("control_plane: {problem}");
        ExitCode::FAILURE
    })
}
