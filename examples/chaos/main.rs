//! Elections in bad times: real instances, a NATS cluster of three nodes, and faults at random.
//!
//! ```text
//! cargo run --release --example chaos                                   two minutes
//! cargo run --release --example chaos -- --minutes 10 --seed 7          a schedule that can be had again
//! cargo run --release --example chaos -- --faults kill,pause-server     only these
//! cargo run --release --example chaos -- --seconds 20 --sabotage overlap    must end with exit code 1
//! cargo run --release --example chaos -- --serve target/release/nats-elect   judges `serve` too
//! ```

mod args;
mod drill;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Parser;

use crate::args::Args;
use crate::drill::Problem;
use crate::drill::instance::ORDERS;

fn main() -> ExitCode {
    nats_elect::last_will::init();
    let outcome = match std::env::var(ORDERS) {
        Ok(orders) => drill::instance::main(&orders).map(|()| true),
        Err(_) => drill(&Args::parse()),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => {
            eprintln!("chaos: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Whether it was clean.
fn drill(args: &Args) -> Result<bool, Problem> {
    if let Some(out) = &args.check {
        let (_, verdict) = drill::run::judge(out)?;
        return Ok(verdict.is_clean());
    }
    let plan = args.plan()?;
    drill::say(&format!("seed {}", plan.seed));
    let interrupted = Arc::new(AtomicBool::new(false));
    end_on_interrupt(Arc::clone(&interrupted))?;
    let (_, verdict) = drill::run::run(&plan, || interrupted.load(Ordering::Relaxed))?;
    Ok(verdict.is_clean())
}

/// The first Ctrl-C ends the faults, and the verdict is on what has been; the second one ends
/// everything.
fn end_on_interrupt(interrupted: Arc<AtomicBool>) -> Result<(), Problem> {
    let runtime = drill::runtime()?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            while tokio::signal::ctrl_c().await.is_ok() {
                if interrupted.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        });
    });
    Ok(())
}
