//! What a change costs.

use std::fs;

use nats_elect_testing::NatsServer;
use serde_json::json;
use uuid::Uuid;

use super::serving;
use crate::fleet::bucket;

/// The changes that are made each time.
const CHANGES: usize = 2000;

/// What changes cost in a bucket of so many roles.
#[derive(Debug)]
struct Cost {
    /// Of processor time.
    ticks: u64,
    /// The changes that `serve` saw: of two soon after each other it may see one.
    seen: u64,
}

async fn cost(roles: usize) -> Cost {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let mut beat = 0;
    let mut lead = async |leader: usize| {
        for role in 0..roles {
            beat += 1;
            let record = json!({
                "id": format!("node-{leader}"),
                "incarnation": Uuid::from_u128(leader as u128 + 1),
                "ttl_ms": 60_000,
                "beat": beat,
            });
            let record = record.to_string().into();
            let put = bucket.put(format!("role-{role}"), record).await;
            put.expect("put");
        }
    };
    lead(0).await;
    let serve = serving(&server, &[]);
    let shown = async |leader: usize| {
        let last = format!("/api/v1/leader/role-{}/node-{leader}", roles - 1);
        serve.until("a leader", &last, |it| it.status == 200).await
    };
    let ready = |it: &super::Answer| it.status == 200;
    serve.until("all roles", "/api/v1/roles", ready).await;
    lead(1).await;
    shown(1).await;
    let seen = || {
        let metrics = serve.get("/metrics").body;
        let counts = metrics
            .lines()
            .filter(|line| line.starts_with("election_observed_changes_total{"));
        let counts = counts.map(|line| line.rsplit_once(' ').expect("a value").1);
        counts
            .map(|it| it.parse::<u64>().expect("a number"))
            .sum::<u64>()
    };
    let (seen_before, before) = (seen(), ticks(serve.pid()));
    for round in 0..CHANGES / roles {
        lead(2 + round).await;
    }
    shown(1 + CHANGES / roles).await;
    Cost {
        ticks: ticks(serve.pid()) - before,
        seen: seen() - seen_before,
    }
}

/// The processor time of a process: fields 14 and 15 in proc(5).
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let after_name = stat.rsplit_once(") ").expect("a name").1;
    let fields = after_name.split(' ').skip(11).take(2);
    fields.map(|it| it.parse::<u64>().expect("ticks")).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_costs_the_same_however_many_roles_there_are() {
    let few = cost(CHANGES / 10).await;
    let many = cost(CHANGES).await;
    eprintln!("{few:?} and {many:?}");
    // Leases are looked at now and then, so that it is not quite the same. Ticks are coarse.
    let (few_each, many_each) = ((few.ticks + 10) * many.seen, many.ticks * few.seen);
    assert!(many_each < few_each * 3, "{few:?} and {many:?}");
}
