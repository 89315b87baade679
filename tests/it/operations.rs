//! What those who operate NATS do to it while a fleet runs: what `docs/operations.md` says of it.

use async_nats::jetstream::stream::Config;
use nats_elect::{EndCause, Event, FailureKind, FencingToken, RoleConfig, StepDown, Storage};
use nats_elect_testing::{NatsCluster, NatsServer, eventually};

use crate::support::backup::{Backup, DiskCopy};
use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, failure, first_and_second, hand_over, instance};
use crate::support::journal::{Journal, RecordedTerm};
use crate::support::{BUCKET, ROLE, SOON, comes_true, leased_for, ms, served};

/// A leader `a` and a follower `b`, with leases as they are by default, in a bucket on disk.
async fn pair(urls: &str, replicas: usize, journal: &Journal) -> (Instance, Instance) {
    let join = |id| {
        instance(id, urls, journal)
            .with(|builder| builder.storage(Storage::File).replicas(replicas))
            .standing(RoleConfig::default())
    };
    let (a, b) = first_and_second(join("a"), join("b")).await;
    (a, b)
}

/// It leads, by a write that NATS has confirmed just now.
async fn is_proven(leader: &Instance) -> FencingToken {
    let role = leader.role(ROLE);
    eventually(SOON, "a proof", async || role.validate().await.ok()).await
}

/// Its first term goes on.
async fn still_leads(a: &Instance, journal: &Journal) {
    let first = journal.started(ROLE, 0).await;
    assert_eq!(is_proven(a).await, first.fencing_token);
    assert_eq!(journal.terms(ROLE).len(), 1);
}

/// All replicas are there, and have everything.
async fn wait_until_replicated(stranger: &Stranger, replicas: usize) {
    eventually(SOON, "replicas that are up to date", async || {
        let stream = stranger.jetstream.get_stream(format!("KV_{BUCKET}"));
        let cluster = stream.await.ok()?.cached_info().cluster.clone()?;
        let others = cluster.replicas.iter().filter(|one| one.current);
        (cluster.leader.is_some() && others.count() + 1 == replicas).then_some(())
    })
    .await;
}

/// A cluster that has just been made may not answer in time.
async fn update(stranger: &Stranger, config: &Config) {
    eventually(SOON, "the settings", async || {
        stranger.jetstream.update_stream(config.clone()).await.ok()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_gets_three_replicas_and_one_again_while_terms_go_on() {
    let cluster = NatsCluster::start(3).expect("start");
    let journal = Journal::default();
    let (a, b) = pair(&cluster.urls(), 1, &journal).await;
    let stranger = Stranger::connect(&cluster.urls()).await;
    let mut config = stranger.stream().await.cached_info().config.clone();
    assert_eq!(config.num_replicas, 1);

    config.num_replicas = 3;
    update(&stranger, &config).await;
    wait_until_replicated(&stranger, 3).await;
    still_leads(&a, &journal).await;
    // However late its watch tells it, it is b's turn.
    let down = StepDown::any().hold_off(SOON);
    a.role(ROLE).step_down(down).await.expect("led");
    assert_eq!(journal.started(ROLE, 1).await.instance, "b");
    let second = is_proven(&b).await;

    config.num_replicas = 1;
    update(&stranger, &config).await;
    wait_until_replicated(&stranger, 1).await;
    assert_eq!(is_proven(&b).await, second, "and back to one");

    // What can't be changed: it takes a new bucket.
    config.storage = async_nats::jetstream::stream::StorageType::Memory;
    // A stream that has just been scaled down may forget a request as its leader moves.
    eventually(SOON, "a refusal", async || {
        let refused = stranger.jetstream.update_stream(config.clone()).await;
        let refused = refused.expect_err("another storage").to_string();
        refused.contains("storage").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_of_three_nodes_ends_no_term() {
    let mut cluster = NatsCluster::start(3).expect("start");
    let journal = Journal::default();
    let (a, b) = pair(&cluster.urls(), 3, &journal).await;
    let stranger = Stranger::connect(&cluster.urls()).await;
    wait_until_replicated(&stranger, 3).await;
    for node in 0..3 {
        cluster.node(node).lame_duck().expect("it runs");
        let ended = cluster.node_mut(node).wait_for_exit(SOON);
        ended.expect("ended");
        cluster.node_mut(node).restart().expect("started again");
        cluster.wait_until_ready().expect("ready");
        wait_until_replicated(&stranger, 3).await;
        still_leads(&a, &journal).await;
    }
    // The stream may be led elsewhere, too.
    let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.KV_{BUCKET}");
    let client = stranger.jetstream.client();
    let moved = client.request(subject, "".into()).await;
    let moved = moved.expect("an answer").payload;
    let moved: serde_json::Value = serde_json::from_slice(&moved).expect("JSON");
    assert_eq!(moved["success"], true, "{moved}");
    wait_until_replicated(&stranger, 3).await;
    still_leads(&a, &journal).await;
    b.wait_until_following("a").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_that_is_restarted_or_killed_ends_no_term_of_a_default_lease() {
    let (mut server, journal) = served();
    let (a, b) = pair(&server.url(), 1, &journal).await;
    server.restart().expect("started again");
    still_leads(&a, &journal).await;
    server.kill();
    server.restart().expect("started again");
    still_leads(&a, &journal).await;
    b.wait_until_following("a").await;
}

/// A fleet of short leases, in a bucket on disk.
struct Fleet {
    url: String,
    journal: Journal,
}

impl Fleet {
    fn new(server: &NatsServer) -> Self {
        let (url, journal) = (server.url(), Journal::default());
        Self { url, journal }
    }

    async fn join(&self, id: &str) -> Instance {
        instance(id, &self.url, &self.journal)
            .with(|builder| builder.storage(Storage::File))
            .standing(leased_for(ms(3000)).heartbeat_interval(ms(1000)))
            .start()
            .await
    }

    /// Whoever joins alone leads, and writes more than it takes to lead anew over a copy from
    /// before. It then hands over, and its successor writes on: no such copy knows its token. No
    /// heartbeat is due just after.
    async fn last_token(&self, leader: &Instance, follower: &Instance) -> FencingToken {
        leader.wait_until_leader().await;
        follower.wait_until_following(&leader.id).await;
        for _ in 0..20 {
            is_proven(leader).await;
        }
        hand_over(&leader.role(ROLE), &follower.id).await;
        follower.wait_until_leader().await;
        for _ in 0..20 {
            is_proven(follower).await;
        }
        self.newest().fencing_token
    }

    fn newest(&self) -> RecordedTerm {
        self.journal.terms(ROLE).pop().expect("a term")
    }

    /// The first term that began after that one.
    async fn term_after(&self, token: FencingToken) -> RecordedTerm {
        eventually(SOON, "a later term", async || {
            let newest = self.newest();
            (newest.fencing_token != token).then_some(newest)
        })
        .await
    }
}

/// The backups of servers before 2.15 keep the time of creation, those of later ones do not
/// (nats-server#7882).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_restored_backup_does_to_fencing_tokens_is_up_to_the_server_and_a_new_bucket_is_not()
{
    let mut server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let before = Fleet::new(&server);
    let a = before.join("a").await;
    a.wait_until_leader().await;
    let backup = Backup::of(&stranger).await;
    let b = before.join("b").await;
    let last = before.last_token(&a, &b).await;
    a.stop().await;
    b.stop().await;
    stranger.delete_bucket().await;
    backup.restore(&stranger).await;
    let created = stranger.stream().await.cached_info().created;

    // Nobody is left who saw what the copy lacks.
    let after = Fleet::new(&server);
    let c = after.join("c").await;
    let token = after.journal.started(ROLE, 0).await.fencing_token;
    eprintln!("RESTORED {last}, then {token}");
    if token.epoch == last.epoch {
        assert!(token.sequence < last.sequence, "{token} after {last}");
    } else {
        assert!(token > last, "{token} after {last}");
    }
    assert_eq!(c.log().count(failure(FailureKind::Regression)), 0);
    c.stop().await;
    server.restart().expect("started again");
    let again = Stranger::connect(&server.url()).await;
    let restarted = again.stream().await.cached_info().created;
    assert_eq!(restarted, created, "its epoch after a restart");

    again.delete_bucket().await;
    let anew = Fleet::new(&server);
    let d = anew.join("d").await;
    let token = anew.journal.started(ROLE, 0).await.fencing_token;
    assert!(token > last, "{token} after {last}");
    d.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_that_is_restored_under_a_running_fleet_is_noticed() {
    let server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let fleet = Fleet::new(&server);
    let a = fleet.join("a").await;
    a.wait_until_leader().await;
    let backup = Backup::of(&stranger).await;
    let b = fleet.join("b").await;
    let last = fleet.last_token(&a, &b).await;

    stranger.delete_bucket().await;
    backup.restore(&stranger).await;
    // The journal checks that no two led at a time, and that tokens grow.
    assert!(fleet.term_after(last).await.fencing_token > last);
    eventually(SOON, "a word of it", async || {
        let ends = |event: &Event| {
            matches!(
                event,
                Event::TermEnding {
                    cause: EndCause::BucketLost | EndCause::Regressed | EndCause::Superseded,
                    ..
                }
            )
        };
        let told = b.log().count(ends) > 0
            && a.log().count(failure(FailureKind::Regression))
                + b.log().count(failure(FailureKind::Regression))
                > 0;
        told.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_copy_of_the_disk_takes_the_fencing_tokens_of_a_fresh_fleet_back() {
    let mut server = NatsServer::start().expect("start");
    let before = Fleet::new(&server);
    let a = before.join("a").await;
    a.wait_until_leader().await;
    let copy = DiskCopy::of(&mut server);
    is_proven(&a).await;
    let b = before.join("b").await;
    let last = before.last_token(&a, &b).await;
    a.stop().await;
    b.stop().await;
    copy.put_back(&mut server);

    let after = Fleet::new(&server);
    let c = after.join("c").await;
    let token = after.journal.started(ROLE, 0).await.fencing_token;
    assert_eq!(token.epoch, last.epoch);
    assert!(token.sequence < last.sequence, "{token} after {last}");
    assert_eq!(
        c.log().count(failure(FailureKind::Regression)),
        0,
        "nobody knows"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_copy_of_the_disk_under_a_running_fleet_is_noticed_and_tokens_grow() {
    let mut server = NatsServer::start().expect("start");
    let fleet = Fleet::new(&server);
    let a = fleet.join("a").await;
    a.wait_until_leader().await;
    let copy = DiskCopy::of(&mut server);
    is_proven(&a).await;
    let b = fleet.join("b").await;
    let last = fleet.last_token(&a, &b).await;

    copy.put_back(&mut server);
    assert!(fleet.term_after(last).await.fencing_token > last);
    eventually(SOON, "a word of the lost writes", async || {
        let told = [&a, &b].map(|one| one.log().count(failure(FailureKind::Regression)));
        (told != [0, 0]).then_some(())
    })
    .await;
}

/// Some servers then show the time of the first restart as that of the bucket's creation
/// (nats-server#8470). The journal checks that tokens grow and that no two lead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_that_is_edited_between_two_restarts_is_led_on_or_anew_in_a_later_epoch() {
    let mut server = NatsServer::start().expect("start");
    let fleet = Fleet::new(&server);
    let a = fleet.join("a").await;
    let first = is_proven(&a).await;
    server.restart().expect("started again");
    let stranger = Stranger::connect(&server.url()).await;
    let mut config = stranger.stream().await.cached_info().config.clone();
    config.description = Some("edited".to_owned());
    let edited = stranger.jetstream.update_stream(config).await;
    edited.expect("edited");
    server.restart().expect("started again");

    let stranger = Stranger::connect(&server.url()).await;
    let created = stranger.stream().await.cached_info().created;
    let epoch = u64::try_from(created.unix_timestamp_nanos()).expect("a time");
    let last = eventually(SOON, "a leader in the bucket as it is", async || {
        let token = a.role(ROLE).validate().await.ok()?;
        (token.epoch == epoch).then_some(token)
    })
    .await;
    eprintln!("EDITED {first}, then {last}");
    assert!(last >= first, "{last} after {first}");
}

/// What the page says of capacity.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_costs_a_message_per_heartbeat_and_two_keys_however_many_stand_for_it() {
    const ROLES: u32 = 5;
    let (server, journal) = served();
    let config = leased_for(ms(5000)).heartbeat_interval(ms(400));
    let heartbeat = config.settings().expect("valid").heartbeat;
    let names: Vec<_> = (0..ROLES).map(|index| format!("role-{index}")).collect();
    let mut fleet = Vec::new();
    for id in ["a", "b", "c", "d"] {
        let mut joining = instance(id, server.url(), &journal);
        for name in &names {
            joining = joining.role(name, config.clone());
        }
        fleet.push(joining.start().await);
    }
    for name in &names {
        journal.started(name, 0).await;
    }
    let stranger = Stranger::connect(&server.url()).await;
    let state = async || stranger.stream().await.cached_info().state.clone();
    let (began, before) = (Stamp::now(), state().await);
    let after = eventually(SOON, "ten heartbeats of each", async || {
        let after = state().await;
        (after.last_sequence >= before.last_sequence + u64::from(ROLES * 10)).then_some(after)
    })
    .await;
    let took = Stamp::now().since(began);
    let stored = after.last_sequence - before.last_sequence;
    // Each is at most one early by where the count began.
    let beats = took.as_secs_f64() / heartbeat.as_secs_f64() + 1.0;
    let per_role = stored / u64::from(ROLES);
    #[allow(clippy::cast_precision_loss)]
    let most = per_role as f64 <= beats;
    assert!(most, "{stored} messages in {took:?}");
    // Servers before 2.12 have one more, which is the first.
    let roles = u64::from(ROLES);
    assert!(
        (roles * 2..=roles * 2 + 1).contains(&after.messages),
        "{after:?}"
    );
    // A watch that was made anew leaves the old one for a few seconds.
    comes_true("a watch for each instance", async || {
        state().await.consumer_count == 2 * fleet.len()
    })
    .await;
    eprintln!(
        "CAPACITY {} bytes for {ROLES} roles, {stored} messages in {took:?}",
        after.bytes
    );
}
