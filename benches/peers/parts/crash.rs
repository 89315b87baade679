//! The leader's process is killed, and its lease runs out.

use std::thread;
use std::time::Duration;

use super::{Extent, Servers, TTL, progress};
use crate::debian::Problem;
use crate::fleet::Fleet;
use crate::report::sample::{ms, ratio};
use crate::report::table::Table;
use crate::server::Server;
use crate::system::System;
use drill::Sample;

const CANDIDATES: usize = 3;
const TTLS: [Duration; 5] = [
    Duration::from_secs(15),
    Duration::from_secs(2),
    Duration::from_secs(1),
    Duration::from_millis(300),
    Duration::from_millis(100),
];

/// What one system needed at one ttl.
pub struct Crash {
    pub system: System,
    pub asked: Duration,
    pub granted: Duration,
    pub took: Sample,
}

/// At one ttl after the other, all systems at once: they wait most of the time.
pub fn measure(servers: &Servers, extent: &Extent) -> Result<Vec<Crash>, Problem> {
    let mut crashes = Vec::new();
    for ttl in TTLS {
        let rounds = match ttl.as_secs() {
            15 => extent.long_crashes,
            _ => extent.crashes,
        };
        eprintln!("crash: ttl {ttl:?}, {rounds} rounds");
        let at_once: Vec<_> = thread::scope(|scope| {
            let running: Vec<_> = servers
                .running
                .iter()
                .filter(|(system, _)| may_have(*system, ttl))
                .map(|(system, server)| scope.spawn(move || at(*system, server, ttl, rounds)))
                .collect();
            let done = running.into_iter().map(|one| one.join().expect("no panic"));
            done.collect::<Result<_, _>>()
        })?;
        crashes.extend(at_once);
    }
    Ok(crashes)
}

/// A key by hand has no lease. etcd counts in seconds.
fn may_have(system: System, ttl: Duration) -> bool {
    match system {
        System::Nats | System::OursSynced => false,
        System::Etcd => ttl >= Duration::from_secs(1),
        System::Ours | System::OursWithWill | System::ZooKeeper => true,
    }
}

fn at(system: System, server: &Server, ttl: Duration, rounds: usize) -> Result<Crash, Problem> {
    let role = format!("crash-{}", ttl.as_millis());
    let mut fleet = Fleet::start(system, server, &role, ttl, CANDIDATES)?;
    let mut took = Sample::default();
    for round in 0..rounds {
        settle(ttl, round);
        took.add(fleet.crash()?.gap);
        fleet.fill()?;
    }
    Ok(Crash {
        system,
        asked: ttl,
        granted: fleet.granted.unwrap_or(ttl),
        took,
    })
}

/// The leader has led for some heartbeats, and dies anywhere between two renewals.
pub fn settle(ttl: Duration, round: usize) {
    let begun = (ttl * 2).min(Duration::from_secs(4));
    // All over the longest time between two renewals, and in step with no heartbeat: by the golden
    // ratio.
    let part = u32::try_from(round * 618 % 1000).unwrap_or(0);
    thread::sleep(begun + ttl * 2 / 3 * part / 1000);
}

/// The leader has a last will, and the lease is long.
pub fn with_will(extent: &Extent) -> Result<Sample, Problem> {
    let server = Server::start(System::OursWithWill)?;
    let mut fleet = Fleet::start(System::OursWithWill, &server, "will", TTL, CANDIDATES)?;
    let mut took = Sample::default();
    for round in 0..extent.wills {
        // Anywhere between two heartbeats, which are a second apart.
        let part = u64::try_from(round * 37 % 100).unwrap_or(0);
        thread::sleep(Duration::from_millis(150 + 10 * part));
        took.add(fleet.crash()?.gap);
        fleet.fill()?;
        progress("last will", round, extent.wills);
    }
    Ok(took)
}

pub fn table(crashes: &[Crash], will: Option<&Sample>) -> Table {
    let mut table = Table::new([
        "",
        "ttl",
        "granted",
        "rounds",
        "median",
        "p99",
        "most",
        "median to ttl",
    ]);
    let mut row = |name: &str, (asked, granted): (Duration, Duration), took: &Sample| {
        table.row([
            name.to_owned(),
            format!("{asked:?}"),
            format!("{granted:?}"),
            took.rounds().to_string(),
            ms(took.median()),
            ms(took.p99()),
            ms(took.most()),
            ratio(took.median(), asked),
        ]);
    };
    if let Some(took) = will {
        row(System::OursWithWill.name(), (TTL, TTL), took);
    }
    for crash in crashes {
        let ttls = (crash.asked, crash.granted);
        row(crash.system.name(), ttls, &crash.took);
    }
    table
}
