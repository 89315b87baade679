//! The page without a mouse, and without eyes.

use std::collections::BTreeSet;

use serde_json::json;

use super::{browsing, is, shows_its_leader, updates};
use crate::fleet::{bucket, led};

/// What has the focus, as a path of its own.
const FOCUSED: &str = "document.activeElement.id || document.activeElement.getAttribute('href') || document.activeElement.nodeName";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn everything_is_reached_and_worked_by_keys_and_keeps_its_focus() {
    let (server, _a) = led().await;
    // Nobody leads it: the page begins with a link to it.
    let dead = json!({ "id": "node-9", "ttl_ms": 500 }).to_string();
    bucket(&server)
        .await
        .put("network", dead.into())
        .await
        .expect("put");
    let (_serve, browser) = browsing(&server);
    browser
        .until(
            "the role without leader",
            "!!document.querySelector('.sum.bad a')",
        )
        .await;
    let all = "[...document.querySelectorAll('a[href], button, input, select, summary, [tabindex]')].map(it => it.id || it.getAttribute('href'))";
    let all = browser.value(all);
    let all: BTreeSet<_> = all
        .as_array()
        .expect("all")
        .iter()
        .map(|it| it.as_str().expect("a name").to_owned())
        .collect();
    assert!(all.len() >= 6, "{all:?}");
    let mut reached = BTreeSet::new();
    for _ in 0..all.len() {
        browser.press("Tab");
        reached.insert(browser.text(FOCUSED));
        let outline = browser.value(
            "(it => it.outlineStyle !== 'none' && parseFloat(it.outlineWidth) >= 2)(getComputedStyle(document.activeElement))",
        );
        assert_eq!(
            outline,
            true,
            "{}: the focus is not to be seen",
            browser.text(FOCUSED)
        );
    }
    assert_eq!(reached, all);

    for (key, state) in [("Space", "Paused"), ("Enter", "Live")] {
        browser.value("document.getElementById('pause').focus()");
        browser.press(key);
        is(&browser, state).await;
    }
    browser.value("document.querySelector('.sum.bad a').focus()");
    updates(&browser, 2).await;
    assert_eq!(
        browser.text(FOCUSED),
        "#r0-network",
        "an update takes the focus away"
    );
    browser.press("Enter");
    browser
        .until(
            "the role",
            "document.querySelector(':target')?.id === 'r0-network'",
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn a_screen_reader_hears_of_changes_and_not_of_every_tick() {
    let (server, a) = led().await;
    let (_serve, browser) = browsing(&server);
    shows_its_leader(&browser).await;
    let spoken = "[...document.querySelectorAll('[aria-live], [role=status], [role=alert], [role=log], output')].map(it => it.id).join()";
    assert_eq!(
        browser.text(spoken),
        "news",
        "nothing else is read out by itself"
    );
    browser.value(
        "window.heard = []; new MutationObserver(() => heard.push(news.textContent)).observe(news, { childList: true, subtree: true, characterData: true })",
    );
    updates(&browser, 3).await;
    assert_eq!(browser.value("heard"), json!([]));
    let role = a.role("scheduler").expect("it");
    role.step_down(nats_elect::StepDown::any())
        .await
        .expect("a step-down");
    browser
        .until(
            "one announcement",
            "heard.some(it => it.includes('nobody is known to lead (released)'))",
        )
        .await;

    // Many changes at once are one announcement.
    browser.value("heard.length = 0; for (let i = 0; i < 50; i += 1) say(`role-${i}: nobody is known to lead`)");
    browser.until("it", "heard.length > 0").await;
    assert_eq!(browser.value("heard.length"), 1);
    assert!(
        browser.text("heard[0]").contains("changes"),
        "{}",
        browser.text("heard[0]")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a browser: .ci/nightly"]
async fn cards_are_still_tables_for_a_screen_reader() {
    let (server, _a) = led().await;
    let (_serve, browser) = browsing(&server);
    shows_its_leader(&browser).await;
    browser.value("document.getElementById('pause').click()");
    let count = |width: u32| {
        browser.resize(width, 900);
        let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().expect("nodes").clone();
        [
            "table",
            "row",
            "columnheader",
            "rowheader",
            "cell",
            "caption",
        ]
        .map(|role| {
            let is_it =
                |it: &&serde_json::Value| it["role"]["value"] == role && it["ignored"] == false;
            nodes.iter().filter(is_it).count()
        })
    };
    let (wide, narrow) = (count(1280), count(400));
    assert_eq!(wide[0], 4, "{wide:?}");
    assert_eq!(narrow, wide, "tables, rows, headings and cells");
}
