//! The size of the page, and pages with much on them.

use std::collections::BTreeMap;

use nats_elect_testing::NatsServer;
use serde_json::{Value, json};

use super::super::serving;
use super::devtools::Browser;
use super::{browsing, does_not_scroll_sideways, page, updates};
use crate::fleet::{bucket, instance, leader, led};
use crate::group::pair;
use crate::maps::{foreign_group, write_map, write_member};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn all_of_it_weighs_little_and_comes_from_its_own_server() {
    let (server, _a) = led().await;
    let _b = instance(&server, "node-2").start().await.expect("start");
    let _c = instance(&server, "node-3").start().await.expect("start");
    let (serve, browser) = browsing(&server);
    browser
        .until(
            "all of it",
            "document.querySelectorAll('.roles li').length === 3",
        )
        .await;
    updates(&browser, 2).await;
    let own = format!("http://{}/", serve.address);
    let mut urls = BTreeMap::new();
    for request in browser.events("Network.requestWillBeSent") {
        let url = request["request"]["url"]
            .as_str()
            .expect("a URL")
            .to_owned();
        assert!(url.starts_with(&own), "{url}");
        urls.insert(request["requestId"].clone().to_string(), url);
    }
    // With its headers, each file once.
    let mut sizes = BTreeMap::<String, f64>::new();
    for loaded in browser.events("Network.loadingFinished") {
        if let Some(url) = urls.get(&loaded["requestId"].to_string()) {
            let bytes = loaded["encodedDataLength"].as_f64().expect("a number");
            let largest = sizes.entry(url.clone()).or_default();
            *largest = bytes.max(*largest);
        }
    }
    println!("{sizes:?}");
    assert!(sizes.len() >= 3, "{sizes:?}");
    let size: f64 = sizes.values().sum();
    assert!(size <= 100.0 * 1024.0, "{size} bytes");
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}

/// Some of them with the longest names there are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn two_hundred_roles_and_long_names_show_first_what_has_no_leader() {
    let server = NatsServer::start().expect("start");
    let long = "n".repeat(255);
    let _a = leader(&server, &long).await;
    let bucket = bucket(&server).await;
    let serve = serving(&server, &[]);
    serve
        .until("the bucket", "/readyz", |it| it.status == 200)
        .await;
    let record = |id: &str, ttl: u32| json!({ "id": id, "ttl_ms": ttl }).to_string();
    let mut roles: Vec<_> = (0..198).map(|number| format!("role-{number:03}")).collect();
    roles.push(long.clone());
    for role in &roles {
        let led = record(&format!("of-{role}")[..255.min(role.len() + 3)], 600_000);
        bucket.put(role, led.into()).await.expect("put");
    }
    let dead = record("node-9", 500);
    bucket.put("zebra", dead.into()).await.expect("put");
    let browser = Browser::start();
    page(&browser, &serve);
    let all = "document.querySelectorAll('.roles tr.good').length === 200 && document.querySelectorAll('.roles tr.bad').length === 1";
    browser.until("all roles", all).await;
    println!(
        "{} bytes",
        browser.value("fetch('/').then(it => it.text()).then(it => it.length)")
    );
    for width in [1280, 800, 400] {
        browser.resize(width, 900);
        does_not_scroll_sideways(&browser);
        browser.value("scrollTo(0, 0)");
        for shown in [".sum.bad a", "#r0-zebra"] {
            let bottom =
                format!("document.querySelector('{shown}').getBoundingClientRect().bottom");
            let bottom = browser.value(&bottom).as_f64().expect("a place");
            assert!(
                bottom <= 900.0,
                "{shown} at {width} px ends at {bottom}: it is not seen at first"
            );
        }
    }
    assert_eq!(
        browser.text("document.querySelector('.roles tbody tr').id"),
        "r0-zebra"
    );
    assert!(
        browser
            .text("document.title")
            .starts_with("✗ 1 without leader")
    );

    // What somebody reads stays where it is on the screen.
    browser.value("document.querySelector('#r0-role-120').scrollIntoView(); getSelection().selectAllChildren(document.querySelector('#r0-role-120 th'))");
    let place = "[Math.round(document.querySelector('#r0-role-120').getBoundingClientRect().top), getSelection().toString().trim()]";
    let before = browser.value(place);
    assert_eq!(before[1], "role-120");
    updates(&browser, 3).await;
    assert_eq!(browser.value(place), before);
}

/// Most of them with names as long as they can be, and of more members than a row has room for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn ten_thousand_units_are_one_row_and_those_without_an_owner_come_first() {
    const UNITS: usize = 10_000;
    let server = NatsServer::start().expect("start");
    let (_a, _b) = pair(&server).await;
    let long = "z".repeat(255);
    let owner_of = |unit: usize| (unit < 120 && unit.is_multiple_of(3)).then_some(unit / 3);
    write_map(&server, &long, UNITS, 40, owner_of).await;
    for member in 0..40 {
        let id = &format!("{member}-{long}")[..255];
        write_member(&server, &long, member, id).await;
    }
    let (_serve, browser) = browsing(&server);
    let first = "document.querySelector('.groups tbody tr')";
    let row =
        format!("{first}?.id === 'g0-{long}' && {first}.innerText.includes('20 more members')");
    browser.until("the group", &row).await;
    let owned = "['control', 'partitions'].every(it => document.querySelector(`#g0-${it}.good`)?.innerText.includes('all owned'))";
    browser.until("the other groups", owned).await;
    let size = "fetch('/').then(it => it.text()).then(it => it.length)";
    let size = browser.value(size).as_f64().expect("a number");
    assert!(size <= 40.0 * 1024.0, "{size} bytes");
    for width in [1280, 800, 400] {
        browser.resize(width, 900);
        does_not_scroll_sideways(&browser);
    }
    let title = browser.text("document.title");
    assert!(title.starts_with("✗ 10000 units without owner"), "{title}");

    // All of them change at once, and the page follows.
    browser.value("window.mark = document.querySelector('.groups tbody tr')");
    foreign_group(&server, &long, UNITS).await;
    let free =
        "document.querySelector('.groups tbody tr').innerText.includes('10000 free: 0-9999')";
    browser.until("the change", free).await;
    let same = "window.mark === document.querySelector('.groups tbody tr')";
    assert_eq!(browser.value(same), true, "the row was replaced");
    assert_eq!(browser.complaints(), Vec::<Value>::new());
}
