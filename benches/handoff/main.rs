//! How fast a role changes hands: `cargo bench -p nats-elect-benches --bench handoff`. After
//! ` -- `, `--quick` measures less, `--cluster` against three NATS servers and buckets with three
//! replicas, `--many 500` with so many candidates instead of a hundred.
//!
//! Everything is a ratio to the raw NATS operation, measured in the same run in alternation: one
//! client deletes a key, the others watch it, one of them creates it. Milliseconds of one machine
//! say little about another.

#[path = "../../examples/control_plane/clock.rs"]
mod clock;
mod crash;
mod fleet;
mod nats;
mod raw;
mod stats;

use std::time::Duration;

use nats_elect::RoleConfig;
use nats_elect_testing::{NatsCluster, NatsServer};

use crate::crash::Victim;
use crate::fleet::{Claims, Fleet};
use crate::nats::Nats;
use crate::raw::Raw;
use crate::stats::{Sample, ms, ratio};

const DELAYS: [u64; 6] = [0, 1, 2, 5, 10, 20];
const FEW: usize = 3;

/// How much is measured.
struct Extent {
    /// Rounds of each kind of graceful handoff.
    rounds: usize,
    crashes: usize,
    many: usize,
    /// Rounds among the many, twice per delay.
    rounds_of_many: usize,
}

const FULL: Extent = Extent {
    rounds: 60,
    crashes: 12,
    many: 100,
    rounds_of_many: 20,
};
const QUICK: Extent = Extent {
    rounds: 15,
    crashes: 3,
    many: 100,
    rounds_of_many: 5,
};
/// Run by `cargo test`: only to see that it still works.
const TEST: Extent = Extent {
    rounds: 1,
    crashes: 1,
    many: 5,
    rounds_of_many: 1,
};

#[tokio::main]
async fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [first, url, bucket, role, ttl] = &arguments[..]
        && first == crash::ARGUMENT
    {
        crash::be_the_victim(url, bucket, role, ttl).await;
        return;
    }
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    // `cargo bench` says `--bench`, `cargo test` does not.
    let extent = match (has("--bench") && !has("--test"), has("--quick")) {
        (false, _) => TEST,
        (true, true) => QUICK,
        (true, false) => FULL,
    };
    let many = arguments.iter().position(|argument| argument == "--many");
    let many = many.and_then(|at| arguments.get(at + 1)?.parse().ok());
    let extent = Extent {
        many: many.unwrap_or(extent.many),
        ..extent
    };
    let nats = if has("--cluster") {
        Nats::Three(NatsCluster::start(3).expect("a private cluster"))
    } else {
        Nats::One(NatsServer::start().expect("a private server"))
    };
    let claims = Claims::install();
    let mut raw = Raw::start(&nats, FEW).await;
    let floor = graceful(&nats, &mut raw, &extent).await;
    crashed(&nats, &extent, floor).await;
    among_many(&nats, &mut raw, &extent, &claims).await;
    crashed_among_many(&nats, &extent, &claims).await;
}

fn config(ttl: Duration) -> RoleConfig {
    RoleConfig::default().ttl(ttl)
}

fn delayed(delay: u64) -> RoleConfig {
    let mut config = config(Duration::from_secs(15));
    config.claim_delay = Some(Duration::from_millis(delay));
    config
}

/// The leader of three leaves. Returns the median of the raw operation.
async fn graceful(nats: &Nats, raw: &mut Raw, extent: &Extent) -> Duration {
    let mut fleet = Fleet::start(nats, "few", FEW).await;
    let mut floor = Sample::default();
    let mut lines = Vec::new();
    for delay in DELAYS {
        let (role, config) = (format!("graceful-{delay}"), delayed(delay));
        lines.push((delay, Sample::default(), fleet.stand(&role, &config).await));
    }
    for _ in 0..extent.rounds {
        floor.add(raw.hand_off().await);
        for (delay, sample, leader) in &mut lines {
            let (role, config) = (format!("graceful-{delay}"), delayed(*delay));
            let left = *leader;
            let (took, next) = fleet.hand_off(&role, left).await;
            sample.add(took);
            fleet.rejoin(&role, &config, left).await;
            *leader = next;
        }
    }
    let (by_name, gaps) = by_name(&mut fleet, extent).await;
    println!(
        "\ngraceful handoff, {FEW} candidates, {} rounds (ms)",
        floor.rounds()
    );
    println!(
        "{:<34} {:>8} {:>8} {:>13}",
        "", "median", "p95", "ratio to raw"
    );
    let row = |name: &str, sample: &Sample| {
        println!(
            "{name:<34} {:>8} {:>8} {:>13}",
            ms(sample.median()),
            ms(sample.p95()),
            ratio(sample.median(), floor.median())
        );
    };
    row("raw: delete, watch, create", &floor);
    for (delay, sample, _) in &lines {
        row(&format!("leave to next handler, delay {delay} ms"), sample);
    }
    row("step_down by name to next handler", &by_name);
    row("  of that, handler's end to next", &gaps);
    floor.median()
}

/// A role goes around by name, and the successor is asked first.
async fn by_name(fleet: &mut Fleet, extent: &Extent) -> (Sample, Sample) {
    // An instance that led stays out for two heartbeats.
    let config = config(Duration::from_secs(2));
    let mut leader = fleet.stand("by-name", &config).await;
    let (mut whole, mut gaps) = (Sample::default(), Sample::default());
    for _ in 0..extent.rounds {
        let (took, gap, next) = fleet.hand_to_next("by-name", leader).await;
        whole.add(took);
        gaps.add(gap);
        leader = next;
    }
    (whole, gaps)
}

/// The leader's process is killed.
async fn crashed(nats: &Nats, extent: &Extent, floor: Duration) {
    let ttl = Duration::from_secs(1);
    let mut fleet = Fleet::start(nats, "crashes", FEW - 1).await;
    let mut sample = Sample::default();
    for round in 0..extent.crashes {
        let role = format!("crash-{round}");
        let victim = Victim::start(nats, "crashes", &role, ttl);
        fleet.follow(&role, &config(ttl), crash::NAME).await;
        // Anywhere between two heartbeats.
        tokio::time::sleep(ttl / 5 * u32::try_from(round % 10).unwrap_or(0) / 10).await;
        let killed = victim.kill();
        sample.add(fleet.next_start().await.at.since(killed));
        fleet.leave(&role).await;
    }
    println!(
        "\ncrash: SIGKILL to next handler, {FEW} candidates, ttl 1 s, {} rounds (ms)",
        sample.rounds()
    );
    println!(
        "{:>8} {:>8} {:>13} {:>13}",
        "median", "p95", "ratio to ttl", "ratio to raw"
    );
    println!(
        "{:>8} {:>8} {:>13} {:>13}",
        ms(sample.median()),
        ms(sample.p95()),
        ratio(sample.median(), ttl),
        ratio(sample.median(), floor)
    );
}

/// The leader's process is killed, and a hundred others follow it: who claims?
async fn crashed_among_many(nats: &Nats, extent: &Extent, claims: &Claims) {
    let ttl = Duration::from_secs(2);
    let mut fleet = Fleet::start(nats, "many-crashes", extent.many).await;
    let (mut took, mut lost) = (Sample::default(), 0);
    for round in 0..extent.crashes {
        let role = format!("crash-among-many-{round}");
        let victim = Victim::start(nats, "many-crashes", &role, ttl);
        fleet.follow(&role, &config(ttl), crash::NAME).await;
        // The leader asks who could lead once a lease, and names them with a heartbeat.
        tokio::time::sleep(ttl * 2).await;
        let before = claims.lost();
        let killed = victim.kill();
        took.add(fleet.next_start().await.at.since(killed));
        // Claims on their way are answered by then.
        tokio::time::sleep(Duration::from_millis(200)).await;
        lost += claims.lost() - before;
        fleet.leave(&role).await;
    }
    let rounds = took.rounds();
    println!(
        "\ncrash: SIGKILL to next handler, {} candidates, ttl 2 s, {rounds} rounds: median {} ms, \
         {} of the ttl; {lost} lost claims in all",
        extent.many,
        ms(took.median()),
        ratio(took.median(), ttl),
    );
}

/// What became of one delay among many candidates.
#[derive(Default)]
struct Herd {
    took: Sample,
    lost: u64,
    messages: u64,
}

/// The leader of a hundred leaves: what the claim delay is good for.
async fn among_many(nats: &Nats, raw: &mut Raw, extent: &Extent, claims: &Claims) {
    let mut floor = Sample::default();
    let mut fleet = Fleet::start(nats, "many", extent.many).await;
    let mut herds = DELAYS.map(|delay| (delay, Herd::default()));
    // There and back, so that no delay is always measured first.
    for pass in 0..2 {
        for step in 0..herds.len() {
            let at = if pass == 0 {
                step
            } else {
                herds.len() - 1 - step
            };
            let (delay, herd) = &mut herds[at];
            let (role, config) = (format!("many-{delay}-{pass}"), delayed(*delay));
            let mut leader = fleet.stand(&role, &config).await;
            for _ in 0..extent.rounds_of_many {
                floor.add(raw.hand_off().await);
                let (lost, messages) = (claims.lost(), nats.messages());
                let (took, next) = fleet.hand_off(&role, leader).await;
                // Claims on their way are answered by then.
                tokio::time::sleep(Duration::from_millis(30)).await;
                herd.took.add(took);
                herd.lost += claims.lost() - lost;
                herd.messages += nats.messages() - messages;
                fleet.rejoin(&role, &config, leader).await;
                leader = next;
            }
            fleet.leave(&role).await;
        }
    }
    println!(
        "\ngraceful handoff, {} candidates, {} rounds each; raw with {FEW}: {} (ms)",
        extent.many,
        extent.rounds_of_many * 2,
        ms(floor.median())
    );
    println!(
        "{:>11} {:>8} {:>8} {:>13} {:>12} {:>16}",
        "claim_delay", "median", "p95", "ratio to raw", "lost claims", "messages to NATS"
    );
    for (delay, herd) in &herds {
        let each = |count: u64| {
            let rounds = u64::try_from(herd.took.rounds().max(1)).unwrap_or(1);
            format!("{}.{}", count / rounds, count * 10 / rounds % 10)
        };
        println!(
            "{:>11} {:>8} {:>8} {:>13} {:>12} {:>16}",
            format!("{delay} ms"),
            ms(herd.took.median()),
            ms(herd.took.p95()),
            ratio(herd.took.median(), floor.median()),
            each(herd.lost),
            each(herd.messages)
        );
    }
}
