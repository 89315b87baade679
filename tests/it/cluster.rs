//! Three nodes, one of which dies.

use nats_elect::{Event, RoleConfig, RoleManager, StopOptions, Storage, handler_fn};
use nats_elect_testing::{NatsCluster, eventually};

use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, first_and_second, instance};
use crate::support::journal::{Journal, RecordedTerm};
use crate::support::{BUCKET, ROLE, SOON, leased_for, ms, recovered};

/// A bucket of three replicas, a leader `a` and a follower `b`.
struct Scene {
    journal: Journal,
    first: RecordedTerm,
    a: Instance,
    b: Instance,
    cluster: NatsCluster,
}

impl Scene {
    async fn of(config: RoleConfig) -> Self {
        let cluster = NatsCluster::start(3).expect("start");
        let journal = Journal::default();
        let join = |id| {
            instance(id, cluster.urls(), &journal)
                .with(|builder| builder.replicas(3).storage(Storage::File))
                .standing(config.clone())
        };
        let (a, b) = first_and_second(join("a"), join("b")).await;
        let first = journal.started(ROLE, 0).await;
        Self {
            journal,
            first,
            a,
            b,
            cluster,
        }
    }

    /// Kills the node that leads the bucket's stream, as a power cut would.
    fn kill_stream_leader(&mut self) -> Stamp {
        let stream = format!("KV_{BUCKET}");
        let leader = self.cluster.wait_for_stream_leader(&stream);
        let fault = Stamp::now();
        self.cluster.node_mut(leader.expect("a leader")).kill();
        fault
    }

    async fn stranger(&self) -> Stranger {
        let living = self.cluster.nodes().iter().find(|node| node.is_running());
        Stranger::connect(&living.expect("a living node").url()).await
    }
}

/// How long the cluster takes writes away is up to NATS and the machine, so it is measured beside:
/// an outage for which the lease suffices must end no term, and a term may end only for want of a
/// lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_default_lease_rides_through_the_death_of_the_stream_leader() {
    let config = RoleConfig::default();
    let settings = config.settings().expect("valid");
    let ttl = settings.ttl;
    let mut scene = Scene::of(config).await;
    let before = scene.stranger().await.message().await.sequence;

    let fault = scene.kill_stream_leader();
    let stranger = scene.stranger().await;
    let back = eventually(ttl * 4, "a stranger's write", async || {
        let sent = stranger
            .jetstream
            .publish(format!("$KV.{BUCKET}.probe"), "".into());
        sent.await.ok()?.await.ok()?;
        Some(Stamp::now())
    })
    .await;
    let outage = back.since(fault);
    let ends = |event: &Event| matches!(event, Event::TermEnding { .. });
    let proven = eventually(SOON, "a proof, or the term's end", async || {
        match scene.a.role(ROLE).validate().await {
            Ok(token) => Some(Some(token)),
            Err(_) if scene.a.log().count(ends) > 0 => Some(None),
            Err(_) => None,
        }
    })
    .await;
    let Some(proven) = proven else {
        let spare = settings.stop_budget + settings.drift_margin() + settings.heartbeat * 3;
        assert!(
            outage + spare > ttl,
            "it gave up although NATS was back after {outage:?}"
        );
        let first = scene.journal.ended(ROLE, 0).await;
        assert!(first.end().since(fault) < ttl, "it outlived its lease");
        let second = scene.journal.started(ROLE, 1).await;
        recovered("stream_leader_killed_default_lease", ttl, fault, &second);
        return;
    };
    assert_eq!(proven, scene.first.fencing_token);
    assert_eq!(scene.journal.terms(ROLE).len(), 1);
    assert_eq!(scene.a.log().count(ends), 0);
    assert!(scene.stranger().await.message().await.sequence > before);
    scene.b.wait_until_following("a").await;
    eprintln!(
        "RECOVERED stream_leader_killed_default_lease ttl={} after=0 (unwritable for {} ms)",
        ttl.as_millis(),
        outage.as_millis()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_lease_is_lost_with_the_stream_leader_and_won_again() {
    let ttl = ms(3000);
    let mut scene = Scene::of(leased_for(ttl)).await;

    // A slow disk may have cost so short a lease before.
    let last = eventually(SOON, "a term that goes on", async || {
        let both = [&scene.a, &scene.b];
        let leader = both.into_iter().find(|one| one.is_leader())?;
        let proven = leader.role(ROLE).validate().await.ok()?;
        let terms = scene.journal.terms(ROLE);
        terms.iter().position(|it| it.fencing_token == proven)
    })
    .await;
    let fault = scene.kill_stream_leader();
    let first = scene.journal.ended(ROLE, last).await;
    assert!(first.end().since(fault) < ttl, "it outlived its lease");
    let second = scene.journal.started(ROLE, last + 1).await;
    recovered("stream_leader_killed_short_lease", ttl, fault, &second);
    assert!(second.start.since(fault) > ttl / 2);
    let proof = eventually(SOON, "a proof", async || {
        let both = [&scene.a, &scene.b];
        let leader = both.into_iter().find(|one| one.is_leader())?;
        leader.role(ROLE).validate().await.ok()
    })
    .await;
    assert!(proof >= second.fencing_token);
    let message = scene.stranger().await.message().await;
    assert!(message.sequence > first.fencing_token.sequence);
}

/// One node says that the name is in use as soon as another one has begun to create the bucket; a
/// third does not know of it yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_start_at_once_agree_on_one_new_bucket() {
    let cluster = NatsCluster::start(3).expect("start");
    for round in 0..8 {
        let starting = (0..9).map(|index| {
            let builder = RoleManager::builder()
                .servers(cluster.node(index % 3).url())
                .bucket(format!("new-{round}"))
                .bucket_auto_create()
                .replicas(3)
                .storage(Storage::Memory)
                .role(
                    ROLE,
                    RoleConfig::default(),
                    handler_fn(|_| async { Ok(()) }),
                );
            tokio::spawn(builder.start())
        });
        for started in starting.collect::<Vec<_>>() {
            let manager = started.await.expect("no panic").expect("a bucket");
            manager.stop(StopOptions::default()).await.expect("stop");
        }
    }
}
