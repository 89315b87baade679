//! A network that fails.

use nats_elect::{ConnectionStatus, EndCause, Event, RoleConfig, RoleState, Storage};
use nats_elect_testing::{Direction, NatsServer, TcpProxy, eventually};

use crate::support::bucket::Stranger;
use crate::support::child::{ChildInstance, Orders};
use crate::support::clock::Stamp;
use crate::support::instance::{Instance, ending, instance, never, standing};
use crate::support::journal::{Journal, RecordedTerm};
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, proxied, recovered, served};

/// A server, a leader `a` that reaches it through a proxy, and a follower `b` that reaches it
/// directly.
struct Scene {
    journal: Journal,
    first: RecordedTerm,
    a: Instance,
    b: Instance,
    stranger: Stranger,
    proxy: TcpProxy,
    server: NatsServer,
}

impl Scene {
    async fn of(config: RoleConfig) -> Self {
        let (server, proxy, journal) = proxied();
        // On disk: it is to survive restarts.
        let join = |id, url| {
            instance(id, url, &journal)
                .with(|builder| builder.storage(Storage::File))
                .standing(config.clone())
        };
        let (a, b) = (join("a", proxy.url()), join("b", server.url()));
        let a = Box::pin(a.start()).await;
        let first = journal.started(ROLE, 0).await;
        let b = Box::pin(b.start()).await;
        b.wait_until_following("a").await;
        let stranger = Stranger::connect(&server.url()).await;
        Self {
            journal,
            first,
            a,
            b,
            stranger,
            proxy,
            server,
        }
    }

    fn term_is_the_first(&self) -> bool {
        self.journal.terms(ROLE).len() == 1 && self.first.term().is_valid()
    }
}

fn connection(status: ConnectionStatus) -> impl Fn(&Event) -> bool {
    move |event| *event == Event::ConnectionChanged(status)
}

/// A leader in a process of its own loses NATS while a contender keeps it.
async fn stops_before_anyone_else_starts(test: &str, fault: impl FnOnce(&TcpProxy)) {
    let (server, proxy, journal) = proxied();
    // What there is to stop in, a fifth of it, is more than a pause of the child.
    let ttl = ms(3000);
    let _child = ChildInstance::start(&Orders::new("child", proxy.url(), ttl), &journal);
    journal.started(ROLE, 0).await;
    let b = standing("b", server.url(), &journal, leased_for(ttl)).await;
    b.wait_until_following("child").await;

    let at = Stamp::now();
    fault(&proxy);
    let second = journal.started(ROLE, 1).await;
    recovered(test, ttl, at, &second);
    assert_eq!(second.instance, "b");
    let first = journal.ended(ROLE, 0).await;
    assert!(
        first.end() < second.start,
        "{first:?} has not ended before {second:?} started"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_cut_off_stops_before_anyone_else_starts() {
    stops_before_anyone_else_starts("cut_off_leader", TcpProxy::cut).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_in_a_black_hole_stops_before_anyone_else_starts() {
    stops_before_anyone_else_starts("black_holed_leader", TcpProxy::black_hole).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_hears_nothing_stops_although_its_heartbeats_arrive() {
    stops_before_anyone_else_starts("deaf_leader", |proxy| {
        proxy.black_hole_direction(Direction::ToClient);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_acks_extend_no_lease_beyond_the_sending_of_their_writes() {
    let ttl = ms(6000);
    let scene = Scene::of(leased_for(ttl)).await;
    let tape = scene.stranger.tape(ROLE).await;

    // Reads still work: each heartbeat is found to have landed, and the lease goes on from its
    // sending.
    scene.proxy.hold_acks();
    comes_true("some held acks", async || scene.proxy.acks_held() >= 2).await;
    let landed = tape.last().await.sequence;
    assert_eq!(tape.last().await.value["id"], "a");
    never("an end of the term", ttl * 2, || {
        !scene.a.is_leader() || !scene.term_is_the_first()
    })
    .await;
    assert!(tape.last().await.sequence > landed);

    // From here on nothing of it arrives: the lease ends with the last write that did.
    let fault = Stamp::now();
    scene.proxy.black_hole_direction(Direction::ToServer);
    let mut led = fault;
    eventually(SOON, "the end of leadership", async || {
        // Before it is asked: the answer may come late.
        let now = Stamp::now();
        if !scene.a.is_leader() {
            return Some(());
        }
        led = now;
        None
    })
    .await;
    let last = tape.last().await;
    assert_eq!(last.value["id"], "a");
    let first = scene.journal.ended(ROLE, 0).await;
    assert!(led.since(last.at) < ttl, "it led for too long");
    assert!(first.end().since(last.at) < ttl, "its handler ran too long");
    let second = scene.journal.started(ROLE, 1).await;
    recovered("late_acks", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    assert!(!first.term().is_valid());

    // All acks come, and the heartbeats that were held on their way arrive: nothing is revived,
    // nothing overwritten.
    scene.proxy.restore();
    scene.a.wait_until_following("b").await;
    never("a revival", ttl, || {
        first.term().is_valid() || scene.a.is_leader() || !scene.b.is_leader()
    })
    .await;
    assert_eq!(scene.stranger.record().await["id"], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_after_the_lease_revives_nothing() {
    let ttl = ms(3000);
    let scene = Scene::of(leased_for(ttl)).await;
    let tape = scene.stranger.tape(ROLE).await;

    let fault = Stamp::now();
    scene.proxy.delay(Direction::ToClient, ttl * 2);
    let sequence = tape.last().await.sequence;
    let landed = tape.wait_for_record_above(sequence).await;
    assert_eq!(landed.value["id"], "a", "a heartbeat whose ack is late");
    let second = scene.journal.started(ROLE, 1).await;
    recovered("late_answers", ttl, fault, &second);
    assert_eq!(second.instance, "b");
    assert!(!scene.a.is_leader());
    // Every answer of the first term arrives within this window.
    never("a revival", ttl * 2, || scene.first.term().is_valid()).await;
    assert_eq!(scene.journal.terms(ROLE).len(), 2);
    assert_eq!(scene.stranger.record().await["id"], "b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_longer_than_the_grace_period_ends_the_term_within_the_lease() {
    let ttl = ms(8000);
    let config = leased_for(ttl)
        .heartbeat_interval(ms(200))
        .disconnect_grace_period(ms(1500));
    let scene = Scene::of(config).await;

    let fault = Stamp::now();
    scene.proxy.cut();
    let log = scene.a.log();
    log.wait_for("suspension", connection(ConnectionStatus::Suspended))
        .await;
    log.wait_for("the end", ending(EndCause::ConnectionLost))
        .await;
    assert!(!scene.a.is_leader());
    log.wait_for("the loss", connection(ConnectionStatus::Lost))
        .await;
    let first = scene.journal.ended(ROLE, 0).await;
    assert!(
        first.end().since(fault) < ttl / 2,
        "not earlier than the lease"
    );
    // Nothing was released: the lease lasts on.
    assert_eq!(scene.stranger.record().await["id"], "a");
    assert_eq!(scene.b.state(), RoleState::Follower);

    scene.proxy.restore();
    let second = scene.journal.started(ROLE, 1).await;
    recovered("outage_longer_than_grace", ttl, fault, &second);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_shorter_than_the_grace_period_is_ridden_through() {
    let ttl = ms(8000);
    let config = leased_for(ttl)
        .heartbeat_interval(ms(200))
        .disconnect_grace_period(ms(5000));
    let scene = Scene::of(config).await;
    let term = scene.first.term();
    let log = scene.a.log();

    let fault = Stamp::now();
    scene.proxy.cut();
    log.wait_for_after(fault, "suspension", connection(ConnectionStatus::Suspended))
        .await;
    assert_eq!(term.connection(), ConnectionStatus::Suspended);
    assert!(scene.a.is_leader());
    let cut_at = scene.stranger.message().await.sequence;

    scene.proxy.restore();
    let restored = Stamp::now();
    let back = connection(ConnectionStatus::Connected);
    log.wait_for_after(restored, "the connection", back).await;
    eventually(SOON, "a write", async || {
        assert!(scene.a.is_leader());
        (scene.stranger.message().await.sequence > cut_at).then_some(())
    })
    .await;
    assert_eq!(scene.stranger.record().await["id"], "a");
    assert!(scene.term_is_the_first());
    assert!(!term.is_cancelled());
    let role = scene.a.role(ROLE);
    let token = eventually(SOON, "a proof", async || role.validate().await.ok()).await;
    assert_eq!(token, scene.first.fencing_token);
    assert_eq!(
        log.count(|event| matches!(event, Event::TermEnding { .. })),
        0
    );
    eprintln!(
        "RECOVERED outage_shorter_than_grace ttl={} after=0",
        ttl.as_millis()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_outlasts_the_lease_leads_to_a_new_term() {
    let ttl = ms(2000);
    let mut scene = Scene::of(leased_for(ttl)).await;
    let before = scene.stranger.message().await.sequence;

    let fault = Stamp::now();
    scene.server.kill();
    scene.journal.ended(ROLE, 0).await;
    assert!(!scene.a.is_leader());
    scene.server.restart().expect("restart");
    let second = scene.journal.started(ROLE, 1).await;
    recovered("server_restart_after_lease", ttl, fault, &second);
    assert_eq!(second.fencing_token.epoch, scene.first.fencing_token.epoch);
    assert!(scene.stranger.message().await.sequence > before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_forgot_everything_is_begun_anew_in_a_later_epoch() {
    let (mut server, journal) = served();
    let ttl = ms(2000);
    let join = |id| instance(id, server.url(), &journal).standing(leased_for(ttl));
    let (a, b) = (join("a"), join("b"));
    let a = a.start().await;
    let b = b.start().await;
    let first = journal.started(ROLE, 0).await;

    let fault = Stamp::now();
    server.kill();
    server.restart().expect("restart");
    let second = journal.started(ROLE, 1).await;
    recovered("memory_server_restart", ttl, fault, &second);
    assert!(second.fencing_token.epoch > first.fencing_token.epoch);
    assert!(!first.term().is_valid());
    let leaders = [&a, &b].iter().filter(|one| one.is_leader()).count();
    assert_eq!(leaders, 1);
    let stranger = Stranger::connect(&server.url()).await;
    assert_eq!(stranger.record().await["id"], second.instance.as_str());
}
