//! The pictures of `top` in the documentation, taken of the example `control_plane` while it runs.

use std::path::PathBuf;
use std::time::Duration;

use nats_elect::StepDown;
use nats_elect::admin::AdminClient;
use nats_elect_testing::{NatsServer, eventually};

use super::svg;
use super::terminal::Terminal;
use crate::day::{self, BUCKET, NODES};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes docs/top.svg and docs/top-wide.svg; first: cargo build --example control_plane"]
async fn the_pictures_for_the_docs() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let mut nodes: Vec<_> = NODES.iter().map(|id| day::node(&url, id)).collect();
    let client = async_nats::connect(&url).await.expect("a connection");
    let admin = AdminClient::new(client.clone(), BUCKET).expect("a client");
    let within = Duration::from_secs(2);
    let leads = async |role: &str| {
        eventually(Duration::from_secs(30), "a leader", async || {
            admin.leader(role, within).await.ok()
        })
        .await
        .instance
    };
    for role in ["metrics", "network", "scheduler"] {
        leads(role).await;
    }
    day::live_through(&day::DAY, &client).await;
    let arguments = ["top", "-s", url.as_str(), "-b", BUCKET];
    let mut terminal = Terminal::run((24, 80), &arguments, &[]);
    let mut wide = Terminal::run((50, 200), &arguments, &[]);
    for terminal in [&terminal, &wide] {
        let wanted = ["3 instances answer", "Changes latest first ─"];
        terminal.shows(&wanted).await;
    }

    // One is killed and comes back, another one is paused for a role that it does not lead, a third
    // role is handed over.
    let killed = leads("network").await.instance_id;
    let at = NODES.iter().position(|id| *id == killed).expect("a node");
    drop(nodes.remove(at));
    terminal.shows(&["2 instances answer"]).await;
    let successor = leads("network").await;
    let claimed = format!("network: {} leads", successor.instance_id);
    terminal.shows(&[&claimed]).await;
    nodes.push(day::node(&url, &killed));
    terminal.shows(&["3 instances answer"]).await;
    let everyone = admin.instances(within).await.expect("instances");
    let idle = everyone
        .iter()
        .find(|it| it.instance_id != successor.instance_id && it.instance_id != killed)
        .expect("another one");
    admin.pause(idle, Some("network")).await.expect("a pause");
    let scheduler = leads("scheduler").await;
    let down = admin.step_down(&scheduler, "scheduler", StepDown::to(&killed));
    down.await.expect("a handoff");
    for (terminal, name) in [(&mut terminal, "top.svg"), (&mut wide, "top-wide.svg")] {
        // Down to the second role.
        terminal.press("j");
        terminal
            .shows(&["= follower, paused", "▶ network", "handed over by"])
            .await;
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let picture = svg::picture(&terminal.screen(), "nats-elect top");
        // An address that the reader's own may look like.
        let own = url.rsplit_once("//").map_or(url.as_str(), |(_, host)| host);
        let picture = picture.replace(own, "127.0.0.1:4222");
        std::fs::write(folder.join(name), picture).expect("write");
        terminal.quit().await;
    }
}
