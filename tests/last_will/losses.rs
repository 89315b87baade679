//! Companions that can't do their work. Then the lease decides, as without them.

use nats_elect::ManagerConfig;
use nats_elect_testing::TcpProxy;
use rustix::process::{Signal, kill_process};

use crate::companions::is_gone;
use crate::ends::Test;
use crate::stage::Stage;
use crate::took::{LONG, SHORT, at_once, with_the_lease};
use crate::victim::Victim;

pub const TESTS: &[(&str, Test)] = &[
    ("a_companion_without_nats_leaves_it_to_the_lease", || {
        Box::pin(cut_off())
    }),
    ("a_companion_that_reaches_nats_late_still_releases", || {
        Box::pin(cut_off_for_a_while())
    }),
    ("a_companion_that_stood_still_does_no_harm", || {
        Box::pin(stopped())
    }),
];

/// The process and its companion have one way to the server, and the candidate another.
async fn through_a_proxy() -> (Stage, TcpProxy, ManagerConfig) {
    let stage = Stage::set().await;
    let proxy = TcpProxy::start(stage.server.url()).expect("a proxy");
    let config = stage.config.clone().servers(proxy.url());
    (stage, proxy, config)
}

async fn cut_off() {
    let (stage, proxy, config) = through_a_proxy().await;
    let mut victim = Victim::start(&config, "cut", SHORT, stage.folder.path()).await;
    let companion = victim.companion(None).await;
    let mut next = stage.next("cut", SHORT).await;
    proxy.cut();
    let at = victim.kill();
    let started = next.started().await;
    with_the_lease(at, started);
    proxy.restore();
    // It finds a lease that is over.
    is_gone(companion).await;
    assert!(stage.leads("cut"), "nobody freed the role of the next one");
}

async fn cut_off_for_a_while() {
    let (stage, proxy, config) = through_a_proxy().await;
    let folder = stage.folder.path();
    for fault in [TcpProxy::cut, TcpProxy::black_hole] {
        let mut victim = Victim::start(&config, "late", LONG, folder).await;
        let mut next = stage.next("late", LONG).await;
        fault(&proxy);
        let at = victim.kill();
        // A wait for what must not happen.
        tokio::time::sleep(SHORT / 4).await;
        assert!(!next.has_started(), "nothing could be released");
        proxy.restore();
        let started = next.started().await;
        at_once(&victim, at, started);
        stage.leave("late").await;
    }
}

/// Where no other process of the session becomes its parent, the kernel wakes it at that moment.
async fn stopped() {
    let stage = Stage::set().await;
    let mut victim = Victim::start(&stage.config, "still", SHORT, stage.folder.path()).await;
    let companion = victim.companion(None).await;
    let mut next = stage.next("still", SHORT).await;
    kill_process(companion, Signal::STOP).expect("it lives");
    victim.kill();
    let started = next.started().await;
    victim.acts_were_before(started);
    // It has ended, or it comes too late.
    let _ = kill_process(companion, Signal::CONT);
    is_gone(companion).await;
    assert!(
        stage.leads("still"),
        "nobody freed the role of the next one"
    );
}
