//! What is measured, part by part.

mod crash;
mod graceful;
mod herd;
mod machine;
mod page;
mod roles;
mod writes;

use std::time::Duration;

use self::crash::Crash;
use self::graceful::Graceful;
use self::herd::Herd;
use self::roles::Price;
use crate::args::{Args, Part, Write};
use crate::debian::Problem;
use crate::server::Server;
use crate::system::System;
use drill::Sample;

/// The default.
const TTL: Duration = Duration::from_secs(15);

/// How much is measured.
pub struct Extent {
    /// Rounds of each kind of graceful handoff.
    rounds: usize,
    /// Those of handoffs after quiet seconds.
    quiet_rounds: usize,
    /// Crashes per ttl, and at the longest one.
    crashes: usize,
    long_crashes: usize,
    /// Crashes with a last will.
    wills: usize,
    /// How many candidates.
    herds: &'static [usize],
    herd_rounds: usize,
    /// How many roles.
    roles: &'static [u32],
    /// How long their price is looked at.
    idle: Duration,
}

const FULL: Extent = Extent {
    rounds: 200,
    quiet_rounds: 100,
    crashes: 15,
    long_crashes: 4,
    wills: 100,
    herds: &[3, 100, 500],
    herd_rounds: 5,
    roles: &[1, 100, 1_000, 10_000],
    idle: Duration::from_secs(30),
};
const QUICK: Extent = Extent {
    rounds: 30,
    quiet_rounds: 10,
    crashes: 3,
    long_crashes: 1,
    wills: 15,
    herds: &[3, 100],
    herd_rounds: 3,
    roles: &[1, 1_000],
    idle: Duration::from_secs(10),
};

/// What was measured; what was left out is empty.
#[derive(Default)]
pub struct Measured {
    graceful: Vec<Graceful>,
    /// The same, each after a few quiet seconds.
    quiet: Vec<Graceful>,
    by_name: Option<Graceful>,
    crashes: Vec<Crash>,
    will: Option<Sample>,
    herds: Vec<Herd>,
    prices: Vec<Price>,
}

/// Servers of all systems that can be had.
pub struct Servers {
    running: Vec<(System, Server)>,
    /// What can't be had, and why.
    missing: Vec<String>,
}

/// Measures what was asked for.
pub fn run(args: &Args) -> Result<(), Problem> {
    let extent = if args.quick { QUICK } else { FULL };
    let load = machine::load();
    let mut servers = Servers::start();
    for missing in &servers.missing {
        eprintln!("not measured: {missing}");
    }
    let mut measured = Measured::default();
    if args.has(Part::Graceful) {
        let (turns, quiet) = (Duration::from_millis(20), Duration::from_millis(500));
        let result = graceful::measure(&servers, "graceful", extent.rounds, turns);
        measured.graceful = servers.found("graceful", result);
        let result = graceful::measure(&servers, "quiet", extent.quiet_rounds, quiet);
        measured.quiet = servers.found("graceful after quiet seconds", result);
        measured.by_name = servers.found("by name", graceful::by_name(&servers, &extent));
    }
    if args.has(Part::LastWill) {
        measured.will = servers.found("last will", crash::with_will(&extent).map(Some));
    }
    if args.has(Part::Crash) {
        measured.crashes = servers.found("crash", crash::measure(&servers, &extent));
    }
    if args.has(Part::Roles) {
        let (prices, missing) = roles::measure(&extent);
        measured.prices = prices;
        servers.missing.extend(missing);
    }
    if args.has(Part::Herd) {
        measured.herds = herd::measure(&mut servers, &extent);
    }
    let page = page::Page::new(&measured, &servers, load)?;
    match args.write {
        Some(Write::Docs) => page.write(),
        None => {
            println!("{}", page.text());
            Ok(())
        }
    }
}

impl Servers {
    fn start() -> Self {
        let mut servers = Self {
            running: Vec::new(),
            missing: Vec::new(),
        };
        for system in [
            System::Nats,
            System::Ours,
            System::OursSynced,
            System::Etcd,
            System::ZooKeeper,
        ] {
            match Server::start(system) {
                Ok(server) => servers.running.push((system, server)),
                Err(problem) => {
                    let missing = format!("{}: {problem}", system.name());
                    servers.missing.push(missing);
                }
            }
        }
        servers
    }

    /// Returns the findings of a part. The page names a part that failed, and keeps the others.
    fn found<T: Default>(&mut self, part: &str, found: Result<T, Problem>) -> T {
        found.unwrap_or_else(|problem| {
            eprintln!("{part}: {problem}");
            self.missing.push(format!("{part}: {problem}"));
            T::default()
        })
    }

    fn of(&self, system: System) -> Option<&Server> {
        let found = self.running.iter().find(|(other, _)| *other == system);
        found.map(|(_, server)| server)
    }
}

/// Says how far a long run is.
fn progress(part: &str, round: usize, rounds: usize) {
    if (round + 1).is_multiple_of((rounds / 4).max(1)) {
        eprintln!("{part}: {} of {rounds}", round + 1);
    }
}
