//! Applications that are killed again and again.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nats_elect_testing::NatsServer;

use crate::agent::running::Agent;
use crate::agent::worker::{History, Worker};

/// The ttl is far longer than the test: only the kernel's word about the connection frees the role.
/// `NATS_ELECT_AGENT_KILLS` sets the number of kills.
#[tokio::test]
async fn a_role_outlives_its_killed_applications_without_a_lease_to_wait_for() {
    let kills = std::env::var("NATS_ELECT_AGENT_KILLS");
    let kills: usize = kills.map_or(10, |kills| kills.parse().expect("a number"));
    let server = NatsServer::start().expect("a server");
    let agents = [
        Agent::start(&server, "a", "10m").await,
        Agent::start(&server, "b", "10m").await,
    ];
    let history = History::new();
    let mut leader = Worker::start(&agents[0], "0", &history);
    history.works("0", &[]).await;
    let mut gaps = Vec::new();
    for kill in 1..=kills {
        let agent = &agents[kill % 2];
        let next = Worker::start(agent, &kill.to_string(), &history);
        agent.follows().await;
        let killed = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("a time");
        let began = Instant::now();
        leader.process.kill();
        history.begins(next.name()).await;
        assert!(
            began.elapsed() < crate::fleet::SOON,
            "long before the lease is over"
        );
        let first = history.first_of(next.name());
        gaps.push((first - killed.as_secs_f64()) * 1000.0);
        leader = next;
    }
    history.judge();
    gaps.sort_by(f64::total_cmp);
    let at = |part: usize| gaps[(gaps.len() * part / 100).min(gaps.len() - 1)];
    println!(
        "{kills} kills: from the kill to the next one's first work {:.1} ms median, {:.1} ms p99, {:.1} ms most",
        at(50),
        at(99),
        at(100)
    );
}
