//! Clusters of three: nodes that are lost before the process dies, and together with it.

use std::time::Duration;

use nats_elect::ManagerConfig;
use nats_elect_testing::{NatsCluster, TcpProxy, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::clock::Stamp;
use crate::ends::Test;
use crate::sockets::connected;
use crate::stage::{SOON, Stage};
use crate::took::{LONG, at_once, dies, rounds, tell};
use crate::victim::Victim;

pub const TESTS: &[(&str, Test)] = &[
    (
        "in_a_cluster_a_killed_process_is_not_waited_for_either",
        || Box::pin(both_ways()),
    ),
    ("a_companion_connects_to_another_node", || {
        Box::pin(node_lost_before())
    }),
    ("a_process_dies_together_with_a_node", || {
        Box::pin(node_lost_at_once())
    }),
];

const STREAM: &str = "KV_leaders";

async fn set() -> Stage<NatsCluster> {
    let cluster = NatsCluster::start(3).expect("a cluster");
    let config = ManagerConfig::default()
        .servers(cluster.urls())
        .bucket_auto_create()
        .replicas(3);
    Stage::of(cluster, config).await
}

impl Stage<NatsCluster> {
    fn stream_leader(&self) -> usize {
        let leader = self.server.wait_for_stream_leader(STREAM);
        leader.expect("a leader of the stream")
    }

    /// A node that does not lead the stream.
    fn other(&self) -> usize {
        (self.stream_leader() + 1) % 3
    }
}

/// The ways of a process to the three nodes, which open and close one by one.
struct Doors(Vec<TcpProxy>);

impl Doors {
    fn to(cluster: &NatsCluster) -> Self {
        let nodes = cluster.nodes().iter();
        let proxies = nodes.map(|node| TcpProxy::start(node.url()).expect("a proxy"));
        Self(proxies.collect())
    }

    fn urls(&self) -> String {
        let urls: Vec<_> = self.0.iter().map(TcpProxy::url).collect();
        urls.join(",")
    }

    fn open_only(&self, open: usize) {
        for (door, proxy) in self.0.iter().enumerate() {
            if door == open {
                proxy.restore();
            } else {
                proxy.cut();
            }
        }
    }

    fn open_all(&self) {
        self.0.iter().for_each(TcpProxy::restore);
    }

    fn others_than(&self, door: usize) -> Vec<u16> {
        let others = self
            .0
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != door);
        others.map(|(_, proxy)| proxy.port()).collect()
    }
}

/// The companion is connected to another node than the one that leads the stream.
async fn both_ways() {
    let stage = set().await;
    let node = stage.server.node(stage.other());
    let config = stage.config.clone().servers(node.url());
    let mut took = [Vec::new(), Vec::new()];
    for round in 0..rounds(2) {
        for (end, took) in ["stop", "kill"].into_iter().zip(&mut took) {
            let role = format!("{end}-{round}");
            let mut victim = Victim::start(&config, &role, LONG, stage.folder.path()).await;
            let mut next = stage.next(&role, LONG).await;
            let at = match end {
                "stop" => victim.order(end),
                _ => victim.kill(),
            };
            let started = next.started().await;
            took.push(at_once(&victim, at, started));
            stage.leave(&role).await;
        }
    }
    let [stopped, killed] = took;
    tell("cluster, stop", stopped);
    tell("cluster, SIGKILL", killed);
}

/// The process and its companion lose their node, and connect to another one.
async fn node_lost_before() {
    let mut stage = set().await;
    let doors = Doors::to(&stage.server);
    let lost = stage.other();
    doors.open_only(lost);
    let config = stage.config.clone().servers(doors.urls());
    let mut victim = Victim::start(&config, "before", LONG, stage.folder.path()).await;
    let companion = victim.companion(None).await;
    connected(companion, &[doors.0[lost].port()]).await;
    doors.open_all();
    let mut next = stage.next("before", LONG).await;
    stage.server.node_mut(lost).kill();
    connected(companion, &doors.others_than(lost)).await;
    assert!(!next.has_started(), "the leader lives");
    let took = dies(&mut victim, &mut next).await;
    tell("node lost before, SIGKILL", vec![took]);
}

/// Once the node that leads the stream, once another one.
async fn node_lost_at_once() {
    let mut stage = set().await;
    let rounds =
        std::env::var("LAST_WILL_NODE_ROUNDS").map_or(1, |it| it.parse().expect("a number"));
    let mut after = [Vec::new(), Vec::new()];
    for round in 0..rounds {
        for (of_leader, after) in [false, true].into_iter().zip(&mut after) {
            let lost = if of_leader {
                stage.stream_leader()
            } else {
                stage.other()
            };
            let role = format!("at-once-{round}-{of_leader}");
            let doors = Doors::to(&stage.server);
            doors.open_only(lost);
            let config = stage.config.clone().servers(doors.urls());
            let mut victim = Victim::start(&config, &role, LONG, stage.folder.path()).await;
            let companion = victim.companion(None).await;
            connected(companion, &[doors.0[lost].port()]).await;
            doors.open_all();
            let mut next = stage.next(&role, LONG).await;
            let living = stage.server.node((lost + 1) % 3).url();
            let probe = async_nats::connect(living).await.expect("a connection");
            let node = stage.server.node(lost).pid().expect("it runs");
            kill_process(pid(node), Signal::KILL).expect("it lives");
            let at = victim.kill();
            stage.server.node_mut(lost).kill();
            let (back, started) = tokio::join!(writable(probe), next.started());
            victim.acts_were_before(started);
            println!(
                "  node {} lost at once: writes after {:?}, the next handler after {:?}",
                if of_leader {
                    "that leads the stream"
                } else {
                    "that follows"
                },
                back.since(at),
                started.since(at)
            );
            let waited = started.since(back.min(started));
            // A lease that had decided before is over.
            let limit = if back.since(at) < LONG / 2 { 4 } else { 2 };
            assert!(waited < LONG / limit, "{waited:?}");
            after.push(waited);
            stage.leave(&role).await;
            stage.server.node_mut(lost).restart().expect("a restart");
            stage.server.wait_until_ready().expect("three nodes");
        }
    }
    let [follower, leader] = after;
    let what = "a follower lost at once, after the first write";
    tell(what, follower);
    let what = "the stream's leader lost at once, after the first write";
    tell(what, leader);
}

fn pid(id: u32) -> Pid {
    let id = i32::try_from(id).expect("an id");
    Pid::from_raw(id).expect("an id")
}

/// Waits until the stream takes a write.
async fn writable(client: async_nats::Client) -> Stamp {
    let jetstream = async_nats::jetstream::new(client);
    eventually(SOON, "a write of another client", async || {
        let write = async {
            let sent = jetstream.publish("$KV.leaders.probe", "".into());
            sent.await.ok()?.await.ok()
        };
        let written = tokio::time::timeout(Duration::from_millis(100), write);
        written.await.ok()??;
        Some(Stamp::now())
    })
    .await
}
