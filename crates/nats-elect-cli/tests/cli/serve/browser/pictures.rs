//! The pictures of the page in the documentation, taken of the example `control_plane` while it runs.

use std::path::PathBuf;
use std::time::Duration;

use nats_elect::StepDown;
use nats_elect::admin::AdminClient;
use nats_elect_testing::NatsServer;
use serde_json::json;

use super::super::{Answer, serving};
use super::devtools::Browser;
use super::{is, page};
use crate::day::{self, BUCKET, DAY, NODES};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes docs/serve*.webp; first: cargo build --example control_plane"]
async fn the_pictures_for_the_docs() {
    let server = NatsServer::start().expect("a server");
    let mut nodes = Vec::new();
    // One after the other, so that each has a role to lead.
    let serve = serving(&server, &[BUCKET]);
    for id in NODES {
        nodes.push(day::node(&server.url(), id));
        let follows = |answer: &Answer| {
            let follows = format!("{id}: follower");
            let leads = format!("{id}: leader");
            answer.body.contains(&follows) || answer.body.contains(&leads)
        };
        serve.until(id, "/", follows).await;
    }
    let client = async_nats::connect(server.url())
        .await
        .expect("a connection");
    day::live_through(&DAY, &client).await;
    drop(serve);
    let admin = AdminClient::new(client.clone(), BUCKET).expect("a client");
    for (role, heir) in [("network", "node-2"), ("metrics", "node-3")] {
        let within = Duration::from_secs(2);
        let leader = admin.leader(role, within).await.expect("a leader").instance;
        if leader.instance_id != heir {
            let down = admin.step_down(&leader, role, StepDown::to(heir)).await;
            down.expect("a handoff");
        }
    }

    // Beside it, a role that nobody leads any more: its instances are gone.
    let bucket = async_nats::jetstream::new(client)
        .get_key_value(BUCKET)
        .await;
    let gone = json!({ "id": "node-4", "ttl_ms": 3000 }).to_string();
    bucket
        .expect("the bucket")
        .put("billing", gone.into())
        .await
        .expect("put");
    let serve = serving(&server, &[BUCKET]);
    let whole = |answer: &Answer| {
        let has = |text: &str| answer.body.contains(text);
        has("No leader for 1 of 4 roles")
            && has("node-2: leader</li>")
            && has("node-3: leader</li>")
            && has(">metrics</th><td>node-")
    };
    serve.until("all of it", "/", whole).await;

    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let browser = Browser::start();
    browser.call("Emulation.setScrollbarsHidden", &json!({ "hidden": true }));
    for (name, scheme, size, has_script) in [
        ("serve", "light", (1280, 1180), true),
        ("serve-dark", "dark", (1280, 1180), true),
        ("serve-narrow", "light", (400, 1100), true),
        ("serve-plain", "light", (1280, 760), false),
    ] {
        browser.scheme(scheme);
        browser.resize(size.0, size.1);
        browser.script(has_script);
        page(&browser, &serve);
        if has_script {
            is(&browser, "Live").await;
        }
        let picture = browser.picture("webp");
        std::fs::write(folder.join(format!("{name}.webp")), picture).expect("write");
        if let Some(folder) = std::env::var_os("PICTURES") {
            let path = PathBuf::from(folder).join(format!("{name}.png"));
            std::fs::write(path, browser.picture("png")).expect("write");
        }
    }
}
