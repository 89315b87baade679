//! What a sharded group costs, and how fast its shards change hands: `cargo bench --bench groups`.
//!
//! Each member is a process of its own. All figures of one run are from one machine in one hour.
//! `-- --write docs` writes docs/benchmarks-groups.md.

#[path = "../../tests/support/debian.rs"]
mod debian;
mod fleet;
#[path = "../peers/parts/machine.rs"]
mod machine;
mod member;
mod page;
mod readings;
#[path = "../peers/report/mod.rs"]
#[expect(dead_code, reason = "the other benchmark draws plots")]
mod report;
mod scenes;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use peak_alloc::PeakAlloc;

use crate::fleet::Problem;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// What a sharded group costs, and how fast its shards change hands.
///
/// Starts private servers, and members in processes of their own. Progress goes to standard error,
/// the tables to standard output.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo bench --bench groups --")]
struct Args {
    /// Numbers of shards.
    #[arg(long, num_args = 1.., default_values_t = [1, 10, 100, 1000, 10_000])]
    shards: Vec<u32>,

    /// Number of instances.
    #[arg(long, default_value_t = 10)]
    members: usize,

    /// The lease of a member, in seconds.
    #[arg(long, default_value_t = 15)]
    ttl: u64,

    /// Numbers of servers, with a copy of the bucket on each.
    #[arg(long, num_args = 1.., default_values_t = [1, 3])]
    replicas: Vec<usize>,

    /// For how long the fleet is looked at while nothing happens, in seconds.
    #[arg(long, default_value_t = 20)]
    idle: u64,

    /// `docs` writes docs/benchmarks-groups.md.
    #[arg(long, value_enum)]
    write: Option<Write>,

    /// What `cargo bench` says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Write {
    Docs,
}

fn main() -> ExitCode {
    nats_elect::last_will::init();
    if let Some(orders) = drill::driven::purpose() {
        member::run(&orders);
        return ExitCode::SUCCESS;
    }
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), Problem> {
    let load = machine::load();
    let mut measured = Vec::new();
    for &replicas in &args.replicas {
        for &shards in &args.shards {
            measured.push(scenes::run(args, shards, replicas)?);
        }
    }
    let page = page::text(&measured, load, args)?;
    print!("{page}");
    if args.write == Some(Write::Docs) {
        report::template::write("benchmarks-groups.md", &page)?;
    }
    Ok(())
}
