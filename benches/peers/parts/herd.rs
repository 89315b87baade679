//! Many candidates follow one leader: what a handoff and a crash cost then, and what they cost
//! while nothing happens.

use std::thread;
use std::time::Duration;

use super::crash::settle;
use super::writes::Writes;
use super::{Extent, Servers};
use crate::candidate::Order;
use crate::debian::Problem;
use crate::fleet::{Fleet, Handoff};
use crate::report::sample::ms;
use crate::report::table::Table;
use crate::server::Server;
use crate::system::System;
use drill::Moment;
use drill::Sample;

const TTL: Duration = Duration::from_secs(2);
/// For what followers say to a new leader.
const AFTERWARDS: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(5);

/// One system with so many candidates.
pub struct Herd {
    pub system: System,
    pub candidates: usize,
    /// Requests to the server per second while nothing happens.
    pub idle: f64,
    pub release: Change,
    pub crash: Change,
}

/// A kind of handoff among them.
#[derive(Default)]
pub struct Change {
    pub took: Sample,
    /// Requests to the server beyond the idle ones, in the second after each, together.
    requests: f64,
    /// Writes to the bucket that each took, the least first, where those can be seen.
    writes: Vec<usize>,
}

impl Change {
    /// Requests of one round.
    pub fn requests(&self) -> f64 {
        self.requests / f64::from(u32::try_from(self.took.rounds().max(1)).unwrap_or(u32::MAX))
    }
}

/// One system after the other: hundreds of processes of each.
pub fn measure(servers: &mut Servers, extent: &Extent) -> Vec<Herd> {
    let mut herds = Vec::new();
    for candidates in extent.herds {
        for system in [System::Nats, System::Ours, System::Etcd, System::ZooKeeper] {
            if let Some(server) = servers.of(system) {
                let part = format!("herd: {}, {candidates} candidates", system.name());
                eprintln!("{part}");
                let herd = of(system, server, *candidates, extent).map(Some);
                herds.extend(servers.found(&part, herd));
            }
        }
    }
    herds
}

fn of(
    system: System,
    server: &Server,
    candidates: usize,
    extent: &Extent,
) -> Result<Herd, Problem> {
    let role = format!("herd-{candidates}");
    let mut fleet = Fleet::start(system, server, &role, TTL, candidates)?;
    let writes = match system {
        System::Ours | System::Nats => Some(Writes::watch(server.address())?),
        _ => None,
    };
    settle(TTL, 0);
    let idle = rate(server, IDLE)?;
    let mut watched = Watched {
        server,
        idle,
        writes,
    };
    let (mut release, mut crash) = (Change::default(), Change::default());
    for _ in 0..extent.herd_rounds {
        thread::sleep(TTL / 2);
        watched.through(&mut release, || fleet.hand_off(&Order::Leave))?;
        fleet.fill()?;
    }
    if system != System::Nats {
        for round in 0..extent.herd_rounds {
            settle(TTL, round);
            watched.through(&mut crash, || fleet.crash())?;
            fleet.fill()?;
        }
    }
    Ok(Herd {
        system,
        candidates,
        idle,
        release,
        crash,
    })
}

/// Requests per second.
pub fn rate(server: &Server, time: Duration) -> Result<f64, Problem> {
    let (began, before) = (Moment::now(), server.requests()?);
    thread::sleep(time);
    let since = count(server.requests()? - before);
    Ok(since / Moment::now().since(began).as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "requests of some seconds")]
const fn count(number: u64) -> f64 {
    number as f64
}

struct Watched<'a> {
    server: &'a Server,
    idle: f64,
    writes: Option<Writes>,
}

impl Watched<'_> {
    fn through(
        &mut self,
        change: &mut Change,
        hand_over: impl FnOnce() -> Result<Handoff, Problem>,
    ) -> Result<(), Problem> {
        let (began, before) = (Moment::now(), self.server.requests()?);
        let took = hand_over()?;
        thread::sleep(AFTERWARDS);
        let requests = count(self.server.requests()? - before);
        let idle = self.idle * Moment::now().since(began).as_secs_f64();
        change.requests += (requests - idle).max(0.0);
        change.took.add(took.gap);
        if let Some(writes) = &self.writes {
            let (ended, started) = took.span;
            change.writes.push(writes.between(ended, started));
            change.writes.sort_unstable();
        }
        Ok(())
    }
}

pub fn table(herds: &[Herd]) -> Table {
    let mut table = Table::new([
        "",
        "candidates",
        "release",
        "writes",
        "requests",
        "crash, ttl 2 s",
        "writes",
        "requests",
    ]);
    for herd in herds {
        let writes = |change: &Change| match change.writes.get(change.writes.len() / 2) {
            Some(median) => format!("{median} / {}", change.writes.last().unwrap_or(median)),
            None => "–".to_owned(),
        };
        let (crash, requests) = match herd.crash.took.rounds() {
            0 => ("–".to_owned(), "–".to_owned()),
            _ => (
                ms(herd.crash.took.median()),
                format!("{:.0}", herd.crash.requests()),
            ),
        };
        table.row([
            herd.system.name().to_owned(),
            herd.candidates.to_string(),
            ms(herd.release.took.median()),
            writes(&herd.release),
            format!("{:.0}", herd.release.requests()),
            crash,
            writes(&herd.crash),
            requests,
        ]);
    }
    table
}

/// Requests per second that one more follower costs.
pub fn idle_table(herds: &[Herd]) -> Table {
    let mut table = Table::new([
        "",
        "requests a second with 3",
        "with more",
        "per follower more",
    ]);
    for few in herds.iter().filter(|herd| herd.candidates == 3) {
        let more = herds
            .iter()
            .filter(|herd| herd.system == few.system && herd.candidates > 3)
            .max_by_key(|herd| herd.candidates);
        let Some(more) = more else { continue };
        let added = u32::try_from(more.candidates - few.candidates).unwrap_or(1);
        table.row([
            few.system.name().to_owned(),
            format!("{:.1}", few.idle),
            format!("{:.1} with {}", more.idle, more.candidates),
            format!("{:.2}", (more.idle - few.idle) / f64::from(added)),
        ]);
    }
    table
}
