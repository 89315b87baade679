//! The leader leaves.

use std::thread;
use std::time::Duration;

use super::{Extent, Servers, TTL, progress};
use crate::candidate::Order;
use crate::debian::Problem;
use crate::fleet::Fleet;
use crate::report::sample::{ms, ratio};
use crate::report::table::Table;
use crate::system::System;
use drill::Sample;

pub const CANDIDATES: usize = 3;

/// What one system needed, from the end of the old handler and from the order.
pub struct Graceful {
    pub system: System,
    pub name: &'static str,
    /// How the leader leaves.
    order: Order,
    pub gap: Sample,
    pub whole: Sample,
}

impl Graceful {
    fn new(system: System, name: &'static str, order: Order) -> Self {
        Self {
            system,
            name,
            order,
            gap: Sample::default(),
            whole: Sample::default(),
        }
    }
}

/// Handoffs of all systems, in turns, with this pause after each. It keeps what followers say to a
/// new leader out of the next system's figure.
pub fn measure(
    servers: &Servers,
    role: &str,
    rounds: usize,
    pause: Duration,
) -> Result<Vec<Graceful>, Problem> {
    let mut lines = Vec::new();
    for (system, server) in &servers.running {
        let mut ways = vec![Graceful::new(*system, system.name(), Order::Leave)];
        if *system == System::Ours {
            let name = "nats-elect, the instance stops";
            ways.push(Graceful::new(*system, name, Order::Stop));
        }
        for (number, graceful) in ways.into_iter().enumerate() {
            let role = format!("{role}-{number}");
            let fleet = Fleet::start(*system, server, &role, TTL, CANDIDATES)?;
            lines.push((fleet, graceful));
        }
    }
    for round in 0..rounds {
        for (fleet, graceful) in &mut lines {
            let took = fleet.hand_off(&graceful.order)?;
            fleet.fill()?;
            graceful.gap.add(took.gap);
            graceful.whole.add(took.whole);
            thread::sleep(pause);
        }
        progress(role, round, rounds);
    }
    Ok(lines.into_iter().map(|(_, graceful)| graceful).collect())
}

/// A role of this library goes around by name.
pub fn by_name(servers: &Servers, extent: &Extent) -> Result<Option<Graceful>, Problem> {
    let Some(server) = servers.of(System::Ours) else {
        return Ok(None);
    };
    // An instance that led stays out for two heartbeats.
    let ttl = Duration::from_secs(2);
    let mut fleet = Fleet::start(System::Ours, server, "by-name", ttl, CANDIDATES)?;
    let name = "nats-elect, `step_down` by name";
    let mut by_name = Graceful::new(System::Ours, name, Order::Leave);
    for round in 0..extent.rounds {
        let took = fleet.hand_to_next()?;
        by_name.gap.add(took.gap);
        by_name.whole.add(took.whole);
        thread::sleep(Duration::from_millis(100));
        progress("by name", round, extent.rounds);
    }
    Ok(Some(by_name))
}

/// The line of a system that was measured.
pub fn of(measured: &[Graceful], system: System) -> Option<&Graceful> {
    measured.iter().find(|line| line.system == system)
}

pub fn table(measured: &[Graceful], by_name: Option<&Graceful>) -> Table {
    let median = |system, sample: fn(&Graceful) -> &Sample| {
        of(measured, system).map_or(Duration::ZERO, |line| sample(line).median())
    };
    let mut table = Table::new([
        "",
        "from the end",
        "p99",
        "to raw",
        "to etcd",
        "from the order",
        "p99",
        "to raw",
        "to etcd",
    ]);
    for line in measured.iter().chain(by_name) {
        let mut row = vec![line.name.to_owned()];
        let samples: [fn(&Graceful) -> &Sample; 2] = [|line| &line.gap, |line| &line.whole];
        for sample in samples {
            let took = sample(line);
            row.extend([
                ms(took.median()),
                ms(took.p99()),
                ratio(took.median(), median(System::Nats, sample)),
                ratio(took.median(), median(System::Etcd, sample)),
            ]);
        }
        table.row(row);
    }
    table
}
