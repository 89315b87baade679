//! A `serve` that starts while something is wrong, beside one that saw it begin.

use std::time::Duration;

use nats_elect::{Release, StopOptions};

use super::metrics::value;
use super::{Answer, Serving, serving};
use crate::fleet::led;

const SECONDS: &str = "election_observed_leaderless_seconds{";
/// The lease of the leader that is gone.
const LEASE: f64 = 3.0;
/// How long the outage has lasted when it starts: longer than it takes to notice one.
const OUTAGE: f64 = LEASE * 4.0;

fn seconds(serve: &Serving) -> f64 {
    value(&serve.get("/metrics"), SECONDS)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_serve_that_starts_amid_an_outage_shows_when_it_began() {
    for release in [Release::Keep, Release::Delete] {
        let (server, a) = led().await;
        let first = serving(&server, &[]);
        let led = "/api/v1/leader/scheduler/node-1";
        first.until("a leader", led, |it| it.status == 200).await;
        a.stop(StopOptions::default().release(release))
            .await
            .expect("a stop");
        let lasts = |answer: &Answer| value(answer, SECONDS) > OUTAGE;
        first.until("an outage", "/metrics", lasts).await;
        let later = serving(&server, &[]);
        // It has seen nothing of the outage, and waits a lease for a heartbeat.
        let is_read = |answer: &Answer| answer.body.contains(SECONDS);
        later.until("its series", "/metrics", is_read).await;
        let before = seconds(&first);
        let told = seconds(&later);
        let after = seconds(&first);
        let about = (before - LEASE)..(after + LEASE);
        assert!(about.contains(&told), "{told} beside {before} to {after}");

        let role = "/api/v1/roles/scheduler";
        let is_free = |answer: &Answer| answer.json()["leader"].is_null();
        let told = later.until("no leader", role, is_free).await.json();
        let known = first.get(role).json();
        assert!(known["since"].is_string(), "{known}");
        for field in ["since", "standing", "ttl_seconds"] {
            assert_eq!(told[field], known[field], "{field}");
        }
        let ttl = "election_observed_lease_ttl_seconds{";
        let ttl = [&first, &later].map(|it| value(&it.get("/metrics"), ttl));
        assert!(ttl.iter().all(|it| (it - LEASE).abs() < 0.1), "{ttl:?}");
        // On its page the outage has lasted as long.
        let page = later.get("/").body;
        let ago = page
            .split(" ago")
            .next()
            .and_then(|it| it.rsplit(", ").next());
        let ago = humantime_of(ago.expect("for how long"));
        assert!(ago.as_secs_f64() > OUTAGE - LEASE, "{ago:?}");
    }
}

/// Reads a time such as `12.3 s` or `1m 2s`.
fn humantime_of(text: &str) -> Duration {
    let text = text.replace(' ', "");
    if let Some(seconds) = text.strip_suffix('s').and_then(|it| it.parse().ok()) {
        return Duration::from_secs_f64(seconds);
    }
    humantime::parse_duration(&text).unwrap_or_else(|_| panic!("{text}"))
}
