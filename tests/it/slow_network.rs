//! A network that is slow, and loses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nats_elect_testing::{Direction, TcpProxy, eventually};

use crate::support::clock::Stamp;
use crate::support::instance::{Instance, instance};
use crate::support::{ROLE, SOON, comes_true, leased_for, ms, proxied};

const ROLES: [&str; 5] = [ROLE, "billing", "cleanup", "metrics", "reports"];
/// How long the network is to stall, in seconds, for a longer look than every build can have.
const LONGER: &str = "NATS_ELECT_STALL_SECONDS";

fn delay(proxy: &TcpProxy, one_way: Duration) {
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.delay(direction, one_way);
    }
}

/// Asks NATS one question after the other. How many milliseconds the slowest answer took is in what it
/// returns.
fn questions(url: String) -> Arc<AtomicU64> {
    let slowest = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&slowest);
    tokio::spawn(async move {
        let client = async_nats::connect(url).await.expect("a connection");
        loop {
            let asked = Stamp::now();
            let _ = client.request("$JS.API.INFO", "".into()).await;
            let millis = Stamp::now().since(asked).as_millis();
            told.fetch_max(u64::try_from(millis).expect("a while"), Ordering::Relaxed);
            tokio::time::sleep(ms(5)).await;
        }
    });
    slowest
}

/// Looks for so long whether all is well. Nothing is promised where a round trip takes longer than a
/// quarter of the ttl: if one did, because this machine is busy, it looks again. Returns whether all
/// was well from the beginning.
async fn steadily(
    lasts: Duration,
    ttl: Duration,
    slowest: &AtomicU64,
    mut look: impl FnMut() -> Result<(), String>,
) -> bool {
    for attempt in 0..4 {
        let begun = Stamp::now();
        let wrong = loop {
            if let Err(wrong) = look() {
                break wrong;
            }
            if Stamp::now().since(begun) >= lasts {
                return attempt == 0;
            }
            tokio::time::sleep(ms(5)).await;
        };
        // A question that is open now is answered by then. The next leader's claim counts for the next look.
        let before = slowest.swap(0, Ordering::Relaxed);
        eventually(SOON, "all well again", async || look().ok()).await;
        let slowest = ms(before.max(slowest.load(Ordering::Relaxed)));
        assert!(
            slowest > ttl / 4,
            "no round trip above {slowest:?}: {wrong}"
        );
    }
    panic!("this machine is too busy for so slow a network");
}

/// Heartbeats too, which tell how it came to the end.
fn last_events(instance: &Instance, role: &str) -> String {
    let events = instance.log_of(role).all();
    let last = events.iter().rev().take(16).rev();
    let lines: Vec<_> = last
        .map(|(at, event)| format!("{:>20} {event:?}", at.as_nanos()))
        .collect();
    format!("\n{}", lines.join("\n"))
}

/// Default settings but for the ttl; every request takes that long.
async fn keeps_its_leader(ttl: Duration, round_trip: Duration) {
    let (_server, proxy, journal) = proxied();
    let join = |id| instance(id, proxy.url(), &journal).standing(leased_for(ttl));
    let a = join("a").start().await;
    let b = join("b").start().await;
    journal.started(ROLE, 0).await;
    // Both begin anew on the slow network: what they have is lost.
    proxy.cut();
    comes_true("no leader", async || !a.is_leader() && !b.is_leader()).await;
    let begun = Stamp::now();
    proxy.restore();
    delay(&proxy, round_trip / 2);
    let slowest = questions(proxy.url());
    let leads = || a.is_leader() || b.is_leader();
    comes_true("a leader", async || leads()).await;
    // To connect: the greeting, the login, and at most a second and a half until that is tried. To
    // claim: the watch, a look, the keys, the claim, its fence, the proof of both, and one of them
    // once more. What stood there runs out meanwhile, at most.
    let bound = ms(1500) + round_trip * 11 + ttl * 2;
    let found = Stamp::now().since(begun);
    eprintln!("LED ttl={ttl:?} round_trip={round_trip:?} after={found:?}");
    assert!(found < bound, "a leader after {found:?}");
    let before = [&a, &b].map(|it| it.log().endings().len());
    let leads = || {
        let events = || [&a, &b].map(|it| last_events(it, ROLE)).join("\n");
        let is_led = leads().then_some(());
        is_led.ok_or_else(|| format!("a moment without a leader: {}", events()))
    };
    if steadily((ttl * 3).max(ms(10_000)), ttl, &slowest, leads).await {
        let after = [&a, &b].map(|it| it.log().endings().len());
        assert_eq!(before, after, "a demotion");
    }
}

/// A claim, its fence and a heartbeat have 78 % of the ttl. The rest is for pauses of a busy machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_trip_of_almost_a_quarter_of_the_ttl_keeps_its_leader() {
    keeps_its_leader(ms(5000), ms(1100)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_round_trip_of_almost_a_quarter_of_a_short_ttl_keeps_its_leader() {
    keeps_its_leader(ms(2000), ms(440)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_network_that_stalls_every_fifth_message_ends_no_term() {
    let (_server, proxy, journal) = proxied();
    let ttl = ms(5000);
    let config = leased_for(ttl);
    let join = |id| {
        let joining = instance(id, proxy.url(), &journal);
        ROLES
            .iter()
            .fold(joining, |it, role| it.role(role, config.clone()))
    };
    let a = join("a").start().await;
    for role in ROLES {
        journal.started(role, 0).await;
    }
    let b = join("b").start().await;
    b.wait_until_following("a").await;

    delay(&proxy, ms(150));
    let slowest = questions(proxy.url());
    for direction in [Direction::ToServer, Direction::ToClient] {
        proxy.stall(direction, 0.2, ms(500));
    }
    let seconds = std::env::var(LONGER).ok();
    let seconds = seconds.map_or(20, |text| text.parse().expect("seconds"));
    // After a term that this machine was too busy for, either of them may lead.
    let is_led = |role| [&a, &b].iter().any(|it| it.role(role).is_leader());
    let all_led = || match ROLES.iter().find(|role| !is_led(role)) {
        Some(role) => Err(format!("{role}: {}", last_events(&a, role))),
        None => Ok(()),
    };
    if steadily(Duration::from_secs(seconds), ttl, &slowest, all_led).await {
        for role in ROLES {
            assert_eq!(a.log_of(role).endings(), [], "{role}");
        }
    }
}
