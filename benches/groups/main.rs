//! What a sharded group costs, and how fast its shards change hands: `cargo bench --bench groups`.
//!
//! Each member is a process of its own. All figures of one run are from one machine in one hour.

#[path = "../../examples/control_plane/clock.rs"]
mod clock;
mod fleet;
mod member;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::fleet::{Fleet, Problem};

/// What a sharded group costs, and how fast its shards change hands.
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

    /// Number of servers, with a copy of the bucket on each.
    #[arg(long, default_value_t = 1)]
    replicas: usize,

    /// For how long the fleet is looked at while nothing happens, in seconds.
    #[arg(long, default_value_t = 20)]
    idle: u64,

    /// What `cargo bench` says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    if let Some(orders) = member::Orders::of_this_process() {
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
    for &shards in &args.shards {
        let ttl = Duration::from_secs(args.ttl);
        let mut fleet = Fleet::start(shards, args.members, ttl, args.replicas)?;
        println!(
            "\n{shards} shards on {} members, ttl {ttl:?}, {}",
            args.members,
            fleet.version()
        );
        let whole = fleet.wait_until_owned()?;
        println!(
            "  start of the fleet: all owned {:.0} ms after the first handler started",
            whole.as_secs_f64() * 1e3
        );
        fleet.settle()?;
        println!("  shards per member: {:?}", fleet.shares());
        let idle = fleet.idle(Duration::from_secs(args.idle))?;
        println!(
            "  idle: {:.2} messages a second to the server, CPU of a core: members {:.2} %, at most {:.2} %, server {:.2} %; memory of a member {:.1} MiB",
            idle.messages, idle.mean_cpu, idle.most_cpu, idle.server_cpu, idle.memory
        );
        let joined = fleet.join()?;
        println!(
            "  a member joins: {:.0} KiB sent to it and the others until it was shown all, {} shards moved",
            joined.bytes / 1024.0,
            joined.moves
        );
        let left = fleet.leave()?;
        println!("  a member stops: {left}");
        let killed = fleet.kill()?;
        println!("  a member is killed: {killed}");
    }
    Ok(())
}
