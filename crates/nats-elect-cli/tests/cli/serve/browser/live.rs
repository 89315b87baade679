//! What the page shows while a control plane fails over.

use nats_elect::StopOptions;
use nats_elect_testing::eventually;
use serde_json::Value;

use super::super::{Answer, Serving, serving};
use super::devtools::Browser;
use super::{browsing, is, page};
use crate::fleet::{ROLE, SOON, at, comes_true, hand_over, instance, leader, led};

/// A cell of the role's row.
fn cell(number: u8) -> String {
    format!(
        "(document.querySelector('#r0-scheduler td:nth-of-type({number})')?.innerText ?? '').trim()"
    )
}

/// Is true while this instance is shown to lead.
fn led_by(id: &str) -> String {
    let (state, leader) = (cell(1), cell(2));
    format!("{state}.endsWith('confirmed') && {leader} === '{id}'")
}

const TOKEN: &str = "document.querySelector('#r0-scheduler code').title";
/// Is true if the token is shown, and is of a later term.
fn newer_than(token: &str) -> String {
    format!("/^[0-9a-f]{{32}}$/.test({TOKEN}) && {TOKEN} > '{token}'")
}

const STATE: &str = "document.getElementById('link').dataset.state";

/// Would be lost if the page were loaded again.
fn mark(browser: &Browser) {
    browser.value("window.mark = document.querySelector('#r0-scheduler')");
}

#[track_caller]
fn is_the_same_page(browser: &Browser) {
    let same = "window.mark === document.querySelector('#r0-scheduler')";
    assert_eq!(
        browser.value(same),
        true,
        "it was loaded again, or the row was replaced"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn a_failover_is_shown_and_told_without_loading_the_page_again() {
    let (server, first) = led().await;
    let (_serve, browser) = browsing(&server);
    browser.until("the leader", &led_by("node-1")).await;
    is(&browser, "Live").await;
    let role = first.role(ROLE).expect("it");
    // On a machine that stands still for a lease, it has to claim the role again.
    let token = eventually(SOON, "its token", async || {
        let token = role.status().fencing_token?.to_string();
        (browser.text(TOKEN) == token).then_some(token)
    })
    .await;
    mark(&browser);
    browser
        .until(
            "the time for which it leads",
            &format!("parseFloat({}) >= 2", cell(3)),
        )
        .await;
    let second = instance(&server, "node-2").start().await.expect("start");
    let both = format!("{}.includes('node-2: follower')", cell(6));
    browser.until("the other candidate", &both).await;

    // Handed over: its successor has a token and a time of its own.
    hand_over(&first.role(ROLE).expect("it"), "node-2").await;
    browser.until("the successor", &led_by("node-2")).await;
    browser.until("its token", &newer_than(&token)).await;
    browser
        .until(
            "its time",
            &format!(
                "parseFloat({}) < 30 && !{}.includes('m ')",
                cell(3),
                cell(3)
            ),
        )
        .await;
    let news = "document.getElementById('news').textContent.includes('scheduler: node-2 leads')";
    browser.until("the news", news).await;
    let change =
        "[...document.querySelectorAll('.changes tr')].some(it => it.innerText.includes('node-2'))";
    browser.until("the change", change).await;

    let token = browser.text(TOKEN);

    // One without others dies, and has to be missed for a lease.
    second.stop(StopOptions::default()).await.expect("an end");
    first.stop(StopOptions::default()).await.expect("an end");
    let mut command = at(
        &server,
        &["exec", "--role", ROLE, "--id", "node-3", "--ttl", "3s"],
    );
    let mut third = command.args(["--", "sleep", "60"]).spawn().expect("start");
    browser.until("the last one", &led_by("node-3")).await;
    browser.until("its token", &newer_than(&token)).await;
    let token = browser.text(TOKEN);
    third.kill().expect("a kill");
    third.wait().expect("its end");
    browser
        .until(
            "nobody",
            "document.querySelector('#r0-scheduler.bad')?.innerText.includes('the lease ran out')",
        )
        .await;
    let alarm = "document.querySelector('.sum.bad')?.innerText.includes('No leader for 1 of 1 role: scheduler') \
                 && document.title.startsWith('✗ 1 without leader')";
    browser.until("the alarm", alarm).await;
    let _fourth = leader(&server, "node-4").await;
    browser.until("the next leader", &led_by("node-4")).await;
    browser.until("its token", &newer_than(&token)).await;
    browser
        .until(
            "the end of the alarm",
            "!document.querySelector('.sum.bad')",
        )
        .await;
    is_the_same_page(&browser);
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn a_lost_nats_is_shown_as_stale_until_it_is_back() {
    let (mut server, _a) = led().await;
    let (_serve, browser) = browsing(&server);
    browser.until("the leader", &led_by("node-1")).await;
    mark(&browser);
    server.kill();
    let stale = "document.querySelector('.sum.doubtful')?.innerText.includes('Stale for')";
    browser.until("stale", stale).await;
    // The lease has passed: it may have a leader, or none.
    let unknown = format!("{}.endsWith('unknown')", cell(1));
    browser.until("an unknown leader", &unknown).await;
    assert_eq!(
        browser.value(STATE),
        "Live",
        "the page itself has its server"
    );
    server.restart().expect("a restart");
    browser
        .until("current", &format!("!({stale}) && {}", led_by("node-1")))
        .await;
    is_the_same_page(&browser);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn a_restart_of_its_server_is_shown_and_the_page_comes_back() {
    let (server, a) = led().await;
    let mut serve = serving(&server, &[]);
    let browser = Browser::start();
    page(&browser, &serve);
    browser.until("the leader", &led_by("node-1")).await;
    is(&browser, "Live").await;
    let has_come = |name: &str| {
        let events = browser.events("Network.eventSourceMessageReceived");
        events.iter().any(|it| it["eventName"] == name)
    };
    // From then on the page knows where in the stream it is.
    comes_true("the beginning of the stream", async || has_come("hello")).await;
    browser.value("window.mark = true");
    serve.terminate();
    serve.code();
    is(&browser, "Not connected").await;
    assert!(
        browser
            .text("document.title")
            .starts_with("⚠ not connected")
    );
    let b = instance(&server, "node-2").start().await.expect("start");
    a.stop(StopOptions::default()).await.expect("an end");
    let _again = Serving::start_at(at(&server, &["serve", "--interval", "1s"]), &serve.address);
    is(&browser, "Live").await;
    browser.until("the leader of now", &led_by("node-2")).await;
    assert_eq!(browser.value("window.mark"), true, "it was loaded again");
    // Another process does not have the events that were missed.
    comes_true("the end of the stream it knew", async || has_come("reload")).await;
    drop(b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn updates_stop_and_go_on_as_told() {
    let (server, a) = led().await;
    let (serve, browser) = browsing(&server);
    browser.until("the leader", &led_by("node-1")).await;
    browser.value("document.getElementById('pause').click()");
    assert_eq!(browser.value(STATE), "Paused");
    let b = instance(&server, "node-2").start().await.expect("start");
    a.stop(StopOptions::default()).await.expect("an end");
    let leads = |answer: &Answer| answer.status == 200;
    serve
        .until("the successor", "/api/v1/leader/scheduler/node-2", leads)
        .await;
    eventually(SOON, "the event", async || {
        let events = browser.events("Network.eventSourceMessageReceived");
        let is_it = |it: &Value| it["data"].as_str().is_some_and(|it| it.contains("node-2"));
        events.iter().any(is_it).then_some(())
    })
    .await;
    assert_eq!(browser.value(&led_by("node-1")), true, "it is as it was");
    browser.value("document.getElementById('pause').click()");
    browser.until("the successor", &led_by("node-2")).await;
    drop(b);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn the_title_tells_of_a_lost_leader_where_nobody_looks() {
    let (server, a) = led().await;
    let (_serve, browser) = browsing(&server);
    browser.until("the leader", &led_by("node-1")).await;
    assert_eq!(browser.text("document.title"), "Leaders of leaders");
    browser.value("Object.defineProperty(document, 'hidden', { get: () => true })");
    a.stop(StopOptions::default()).await.expect("an end");
    let told = "document.title === '✗ 1 without leader · Leaders of leaders'";
    browser.until("the title", told).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn without_script_it_is_a_table_of_the_same_facts() {
    let (server, _a) = led().await;
    let _b = instance(&server, "node-2").start().await.expect("start");
    let serve = serving(&server, &[]);
    let whole = |answer: &Answer| {
        let has = |text: &str| answer.body.contains(text);
        has("node-2: follower") && has("node-1: leader") && has("no earlier leader")
    };
    serve.until("all of it", "/", whole).await;
    let [with, without] = [Browser::start(), Browser::start()];
    without.script(false);
    page(&with, &serve);
    page(&without, &serve);
    // Times pass and are told differently.
    let facts = "[...document.querySelectorAll('#live :is(th, td)')].map(it => it.innerText.replace(/[0-9.]+m?s|[0-9:]{8}/g, '…').trim())";
    let (with, facts) = (with.value(facts), without.value(facts));
    assert_eq!(with, facts);
    let visible = |selector: &str| {
        without.value(&format!(
            "document.querySelector('{selector}').checkVisibility()"
        ))
    };
    assert_eq!(visible("#pause"), false);
    assert_eq!(visible(".noscript"), true);
    assert_eq!(visible(".roles"), true);
    assert_eq!(without.complaints(), Vec::<Value>::new());
}
