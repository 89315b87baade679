//! The picture of `top` in the documentation, taken of the example `control_plane` while it runs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nats_elect::StepDown;
use nats_elect::admin::AdminClient;
use nats_elect_testing::NatsServer;

use super::svg;
use super::terminal::Terminal;

const BUCKET: &str = "control-plane";
const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// An instance of the example. Dropping it kills it.
struct Node(Child);

impl Node {
    fn start(url: &str, id: &str) -> Self {
        let command = Path::new(env!("CARGO_BIN_EXE_nats-elect"));
        let program = command.with_file_name("examples").join("control_plane");
        let child = Command::new(&program)
            .args(["--instance", id, "--ttl", "3s"])
            .env("NATS_URL", url)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("first: cargo build --example control_plane");
        Self(child)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes docs/top.svg; first: cargo build --example control_plane"]
async fn the_picture_for_the_docs() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let mut nodes: Vec<Node> = NODES.iter().map(|id| Node::start(&url, id)).collect();
    let client = async_nats::connect(&url).await.expect("a connection");
    let admin = AdminClient::new(client, BUCKET).expect("a client");
    let within = Duration::from_secs(2);
    let leads = async |role: &str| {
        nats_elect_testing::eventually(Duration::from_secs(30), "a leader", async || {
            admin.leader(role, within).await.ok()
        })
        .await
        .instance
    };
    for role in ["metrics", "network", "scheduler"] {
        leads(role).await;
    }
    let arguments = ["top", "-s", url.as_str(), "-b", BUCKET];
    let mut terminal = Terminal::run((32, 110), &arguments, &[]);
    terminal.shows(&["3 instances answer"]).await;

    // One is killed and comes back, another one is paused for a role that it does not lead, a third
    // role is handed over.
    let killed = leads("network").await.instance_id;
    let at = NODES.iter().position(|id| *id == killed).expect("a node");
    drop(nodes.remove(at));
    let silent = format!("{killed} does not answer");
    terminal.shows(&[&silent, "1 silent"]).await;
    let successor = leads("network").await;
    let claimed = format!("network: {} leads", successor.instance_id);
    terminal.shows(&[&claimed]).await;
    nodes.push(Node::start(&url, &killed));
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
    // Down to the second role.
    terminal.press("j");
    terminal
        .shows(&["= paused", "▶ network", "as the named heir"])
        .await;

    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let picture = svg::picture(&terminal.screen(), "nats-elect top");
    // An address that the reader's own may look like.
    let own = url.rsplit_once("//").map_or(url.as_str(), |(_, host)| host);
    let picture = picture.replace(own, "127.0.0.1:4222");
    std::fs::write(folder.join("top.svg"), picture).expect("write");
    terminal.press("q");
    assert_eq!(terminal.ended().await, 0);
}
