//! The leader leaves.

use std::thread;
use std::time::Duration;

use super::{Extent, Servers, TTL, progress};
use crate::debian::Problem;
use crate::fleet::Fleet;
use crate::report::sample::{Sample, ms, ratio};
use crate::report::table::Table;
use crate::system::System;

pub const CANDIDATES: usize = 3;

/// What one system needed, from the end of the old handler and from the order.
pub struct Graceful {
    pub system: System,
    pub gap: Sample,
    pub whole: Sample,
}

/// Handoffs of all systems, in turns.
pub fn measure(servers: &Servers, extent: &Extent) -> Result<Vec<Graceful>, Problem> {
    let mut lines = Vec::new();
    for (system, server) in &servers.running {
        let fleet = Fleet::start(*system, server, "graceful", TTL, CANDIDATES)?;
        let graceful = Graceful {
            system: *system,
            gap: Sample::default(),
            whole: Sample::default(),
        };
        lines.push((fleet, graceful));
    }
    for round in 0..extent.rounds {
        for (fleet, graceful) in &mut lines {
            let took = fleet.hand_off()?;
            fleet.fill()?;
            graceful.gap.add(took.gap);
            graceful.whole.add(took.whole);
            // What followers say to a new leader is not in the next system's figure.
            thread::sleep(Duration::from_millis(20));
        }
        progress("graceful", round, extent.rounds);
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
    let mut by_name = Graceful {
        system: System::Ours,
        gap: Sample::default(),
        whole: Sample::default(),
    };
    for round in 0..extent.rounds {
        let took = fleet.hand_to_next()?;
        by_name.gap.add(took.gap);
        by_name.whole.add(took.whole);
        thread::sleep(Duration::from_millis(100));
        progress("by name", round, extent.rounds);
    }
    Ok(Some(by_name))
}

/// The median from the end of the old handler, of a system that was measured.
pub fn median(measured: &[Graceful], system: System) -> Option<Duration> {
    let found = measured.iter().find(|line| line.system == system);
    found.map(|line| line.gap.median())
}

pub fn table(measured: &[Graceful], by_name: Option<&Graceful>) -> Table {
    let median = |system| median(measured, system).unwrap_or_default();
    let (raw, etcd) = (median(System::Nats), median(System::Etcd));
    let mut table = Table::new(["", "median", "p99", "to raw", "to etcd", "from the order"]);
    let mut row = |name: &str, line: &Graceful| {
        table.row([
            name.to_owned(),
            ms(line.gap.median()),
            ms(line.gap.p99()),
            ratio(line.gap.median(), raw),
            ratio(line.gap.median(), etcd),
            ms(line.whole.median()),
        ]);
    };
    for line in measured {
        row(line.system.name(), line);
    }
    if let Some(line) = by_name {
        row("nats-elect, `step_down` by name", line);
    }
    table
}
