//! axe-core, in light and dark, wide and narrow, with and without a history.

use std::time::Duration;

use nats_elect::EventsConfig;
use nats_elect_testing::NatsServer;
use serde_json::json;

use super::{axe, browsing, does_not_scroll_sideways};
use crate::fleet::{ROLE, bucket, instance, stranger};
use crate::group::{all_owned, member};
use crate::maps::{foreign_group, write_map, write_member};

/// Which labels of the timeline have too little contrast to their bar, for each of its colours: axe
/// can't tell what is behind text in a picture.
const WEAK_LABELS: &str = "(() => {
  const light = name => {
    const probe = document.createElement('b');
    probe.className = 'aside';
    document.body.append(probe);
    probe.attributeStyleMap.set('color', `var(${name})`);
    const channels = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map(it => it / 255);
    probe.remove();
    const [r, g, b] = channels.map(it => it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
  };
  const contrast = (a, b) => Math.max(light(a), light(b)) / Math.min(light(a), light(b));
  const bars = [0, 1, 2, 3, 4, 5].map(it => `--c${it}`);
  return bars.filter(it => contrast(it, '--on-bar') < 4.5 || contrast(it, '--card') < 3);
})()";

/// The page breaks none of its rules, however it is looked at.
async fn has_no_violation(events: EventsConfig, what: &str) {
    let server = NatsServer::start().expect("start");
    let bucket = bucket(&server).await;
    let a = instance(&server, "node-1")
        .events(events.clone())
        .start()
        .await
        .expect("start");
    a.role(ROLE)
        .expect("it")
        .wait_until_leading()
        .await
        .expect("a term");
    let b = instance(&server, "node-2")
        .events(events)
        .start()
        .await
        .expect("start");
    b.role(ROLE).expect("it").pause().await.expect("a pause");
    // One role whose leader is dead, one that may have a leader, an instance that does not answer.
    let record = |ttl: u32| json!({ "id": "node-9", "ttl_ms": ttl }).to_string();
    bucket
        .put("network", record(500).into())
        .await
        .expect("put");
    bucket
        .put("quiet", record(600_000).into())
        .await
        .expect("put");
    let _stranger = stranger(&server, None).await;
    // A group whose units have owners, one whose units have none, one that may have some.
    let c = member(&server, "node-3").start().await.expect("start");
    all_owned(&[&c]).await;
    foreign_group(&server, "orphans", 300).await;
    write_map(&server, "odd", 2, 1, |_| Some(0)).await;
    write_member(&server, "odd", 0, "nobody").await;
    let (_serve, browser) = browsing(&server);
    let whole = "['node-2: follower, paused', 'mute', 'no leader', 'unconfirmed', 'node-1: leader', 'node-3: 12', '300 free: 0-299', '2 unconfirmed: 0-1'].every(it => document.body.innerText.includes(it)) \
                 && document.getElementById('link').dataset.state === 'Live'";
    browser.until("all of it", whole).await;
    browser.value("document.getElementById('pause').click()");
    for scheme in ["light", "dark"] {
        for width in [1280, 400] {
            browser.scheme(scheme);
            browser.resize(width, 900);
            assert_eq!(browser.value(WEAK_LABELS), json!([]), "{scheme}");
            axe::check(&browser, &format!("{scheme}, {width} px, {what}"));
            does_not_scroll_sideways(&browser);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn axe_finds_no_violation_with_a_history() {
    let kept = EventsConfig::default().keep(Duration::from_secs(3600));
    has_no_violation(kept, "with a history").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn axe_finds_no_violation_without_a_history() {
    has_no_violation(EventsConfig::off(), "without a history").await;
}
