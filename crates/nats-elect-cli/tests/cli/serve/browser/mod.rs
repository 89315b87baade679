//! The page in headless Chromium.
//!
//! Chromium is `CHROMIUM_BIN`, else one on `PATH`, else Debian's `chromium-headless-shell` with its
//! libraries, unpacked below `target/`. Where none can be had the tests fail and say why.

mod accessible;
mod axe;
mod chromium;
mod devtools;
mod keyboard;
mod live;
mod many;
mod pictures;

use self::devtools::Browser;
use super::{Serving, serving};
use nats_elect_testing::NatsServer;

fn page(browser: &Browser, serve: &Serving) {
    browser.open(&format!("http://{}/", serve.address));
}

/// `serve` of this server, and a browser that shows its page.
fn browsing(server: &NatsServer) -> (Serving, Browser) {
    let (serve, browser) = (serving(server, &[]), Browser::start());
    page(&browser, &serve);
    (serve, browser)
}

/// Waits until the page was brought up to date so often.
async fn updates(browser: &Browser, times: u8) {
    let as_of = "document.querySelector('#link time').dateTime";
    for _ in 0..times {
        let before = browser.text(as_of);
        browser
            .until("an update", &format!("{as_of} !== '{before}'"))
            .await;
    }
}

/// Waits until it is shown that `node-1` leads.
async fn shows_its_leader(browser: &Browser) {
    let row = "document.querySelector('#r0-scheduler td')?.innerText.includes('confirmed')";
    browser.until("the leader", row).await;
}

/// Waits until the page follows what happens, or says this of it.
async fn is(browser: &Browser, state: &str) {
    let shown = format!("document.getElementById('link').dataset.state === '{state}'");
    browser.until(state, &shown).await;
}

/// Nothing of the page is beyond its right edge.
#[track_caller]
fn does_not_scroll_sideways(browser: &Browser) {
    let too_wide = "[...document.querySelectorAll('body *')].filter(it => it.checkVisibility() && it.getBoundingClientRect().right > innerWidth + 1 \
                    && !it.closest('.aside, thead')).map(it => it.outerHTML.slice(0, 200))";
    assert_eq!(browser.value(too_wide), serde_json::json!([]));
    let width = "document.scrollingElement.scrollWidth <= innerWidth";
    assert_eq!(browser.value(width), true);
}
