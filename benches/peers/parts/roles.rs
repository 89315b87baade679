//! One instance leads many roles, another one follows them all: what they cost.

use std::thread;
use std::time::Duration;

use super::herd::rate;
use super::{Extent, TTL};
use crate::fleet::Fleet;
use crate::report::sample::ms;
use crate::report::table::Table;
use crate::server::Server;
use crate::system::System;
use drill::usage::{cpu, memory};
use drill::{Moment, Problem};

/// The default heartbeat at that ttl, per second.
const HEARTBEATS: f64 = 1.0;
/// The part of the heartbeats that must be seen: a few may come just outside the time.
const ENOUGH: f64 = 0.97;
const WARM: Duration = Duration::from_secs(5);

/// What so many roles cost.
pub struct Price {
    pub roles: u32,
    /// From the order until all are led.
    pub led_after: Duration,
    /// Shares of a core.
    pub leader_cpu: f64,
    pub follower_cpu: f64,
    pub server_cpu: f64,
    /// In KiB.
    pub leader_memory: u32,
    pub follower_memory: u32,
    /// Requests of both instances, per second, heartbeats apart.
    pub beside: f64,
}

/// The price of each number of roles, or why it can't be had.
pub fn measure(extent: &Extent) -> (Vec<Price>, Vec<String>) {
    let (mut prices, mut missing) = (Vec::new(), Vec::new());
    for roles in extent.roles {
        eprintln!("roles: {roles}");
        match of(*roles, extent.idle) {
            Ok(price) => prices.push(price),
            Err(problem) => missing.push(format!("the price of {roles} roles: {problem}")),
        }
    }
    (prices, missing)
}

fn of(roles: u32, idle: Duration) -> Result<Price, Problem> {
    let server = Server::start(System::Ours)?;
    let (leader, led_after) = Fleet::with_roles(&server, "leader", roles, TTL)?;
    let (follower, _) = Fleet::with_roles(&server, "follower", roles, TTL)?;
    thread::sleep(WARM);
    let pid = |fleet: &Fleet| fleet.processes.pids()[0];
    let pids = [pid(&leader), pid(&follower), server.pid()];
    let (began, before) = (Moment::now(), pids.map(cpu));
    let requests = rate(&server, idle)?;
    let elapsed = Moment::now().since(began).as_secs_f64();
    let heartbeats = f64::from(roles) * HEARTBEATS;
    if requests < heartbeats * ENOUGH {
        let problem = format!("{requests:.0} requests a second, fewer than the heartbeats");
        return Err(problem.into());
    }
    let mut shares = [0.0; 3];
    for (share, (pid, before)) in shares.iter_mut().zip(pids.iter().zip(before)) {
        *share = (cpu(*pid)? - before?) / elapsed;
    }
    let [leader_cpu, follower_cpu, server_cpu] = shares;
    Ok(Price {
        roles,
        led_after,
        leader_cpu,
        follower_cpu,
        server_cpu,
        leader_memory: memory(pids[0])?,
        follower_memory: memory(pids[1])?,
        beside: (requests - heartbeats).max(0.0),
    })
}

/// KiB per role, beyond what one role takes.
fn kib_per_role(prices: &[Price], roles: u32, memory: fn(&Price) -> u32) -> Option<f64> {
    let of = |roles| prices.iter().find(|price| price.roles == roles).map(memory);
    let (one, many) = (of(1)?, of(roles)?);
    (roles > 1).then(|| f64::from(many.saturating_sub(one)) / f64::from(roles - 1))
}

pub fn table(prices: &[Price]) -> Table {
    let mut table = Table::new([
        "roles",
        "led after",
        "leader",
        "follower",
        "server",
        "KiB a role, leader",
        "KiB a role, follower",
        "requests beside heartbeats",
    ]);
    for price in prices {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let kib = |memory| {
            let kib = kib_per_role(prices, price.roles, memory);
            kib.map_or("–".to_owned(), |kib| format!("{kib:.1}"))
        };
        table.row([
            price.roles.to_string(),
            format!("{} ms", ms(price.led_after)),
            percent(price.leader_cpu),
            percent(price.follower_cpu),
            percent(price.server_cpu),
            kib(|price| price.leader_memory),
            kib(|price| price.follower_memory),
            format!("{:.3}", price.beside / f64::from(price.roles)),
        ]);
    }
    table
}
