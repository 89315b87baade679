//! The pictures of `top` in the documentation, taken of the example `control_plane` while it runs.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use async_nats::jetstream;
use nats_elect::admin::AdminClient;
use nats_elect::{FencingToken, History, StepDown};
use nats_elect_testing::{NatsServer, eventually};
use serde_json::{Value, json};

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

/// From when on a node led, in minutes before its present term, and which; how the role had become
/// free, and for how long there was no sign of the leader before.
type Led = (u64, usize, &'static str, f64);

/// A day of this fleet, before its present terms.
const DAY: [(&str, &[Led]); 3] = [
    (
        "metrics",
        &[
            (1310, 2, "released", 0.004),
            (612, 0, "handed_over", 0.003),
            (609, 1, "handed_over", 0.004),
        ],
    ),
    (
        "network",
        &[
            (1312, 1, "released", 0.005),
            (845, 2, "expired", 3.214),
            (843, 0, "expired", 3.107),
            (840, 2, "expired", 3.188),
            (838, 1, "expired", 3.152),
            (611, 2, "handed_over", 0.003),
        ],
    ),
    (
        "scheduler",
        &[
            (1311, 0, "released", 0.004),
            (842, 2, "expired", 3.121),
            (610, 1, "handed_over", 0.004),
            (95, 0, "handed_over", 0.003),
        ],
    ),
];

/// Puts that day into the history: the instances have only just begun to write it.
async fn live_through_the_day(client: &async_nats::Client) {
    let context = jetstream::new(client.clone());
    let begun = eventually(Duration::from_secs(30), "the first terms", async || {
        let history = History::open(client.clone(), BUCKET).await.ok()?;
        let begun = history.of_all(10).await.ok()?;
        (begun.len() == DAY.len()).then_some(begun)
    })
    .await;
    let stream = context.get_stream(format!("nats-elect-events-{BUCKET}"));
    stream.await.expect("it").purge().await.expect("a purge");
    let mut day: Vec<Value> = Vec::new();
    for now in &begun {
        let (_, terms) = DAY.iter().find(|(role, _)| *role == now.role).expect("it");
        let present = serde_json::from_str::<Value>(&now.to_json()).expect("JSON");
        let mut previous = NODES[0];
        for (at, (ago, node, vacancy, silence)) in (0..).zip(*terms) {
            let token = FencingToken {
                epoch: now.fencing_token.epoch,
                sequence: now.fencing_token.sequence - 1000 + at,
            };
            let mut one = present.clone();
            one["at_ms"] = json!(now.at_ms - ago * 60_000);
            one["instance_id"] = json!(NODES[*node]);
            one["fencing_token"] = json!(token);
            one["correlation_id"] = json!(format!("5a0c9d21-1-{at}"));
            one["vacancy"] = json!(vacancy);
            one["previous"] = json!(previous);
            one["silence_seconds"] = json!(silence);
            day.push(one);
            previous = NODES[*node];
        }
        let mut present = present;
        present["vacancy"] = json!("released");
        present["previous"] = json!(previous);
        present["silence_seconds"] = json!(0.004);
        day.push(present);
    }
    for one in day {
        let role = one["role"].as_str().expect("a role");
        let subject = format!("nats-elect-events.{BUCKET}.{role}");
        let sent = context.publish(subject, one.to_string().into()).await;
        sent.expect("sent").await.expect("kept");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes docs/top.svg and docs/top-wide.svg; first: cargo build --example control_plane"]
async fn the_pictures_for_the_docs() {
    let server = NatsServer::start().expect("a server");
    let url = server.url();
    let mut nodes: Vec<Node> = NODES.iter().map(|id| Node::start(&url, id)).collect();
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
    live_through_the_day(&client).await;
    let arguments = ["top", "-s", url.as_str(), "-b", BUCKET];
    let mut terminal = Terminal::run((24, 80), &arguments, &[]);
    let mut wide = Terminal::run((50, 200), &arguments, &[]);
    for terminal in [&terminal, &wide] {
        let wanted = ["3 instances answer", "changes of the last 24h"];
        terminal.shows(&wanted).await;
    }

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
    for (terminal, name) in [(&mut terminal, "top.svg"), (&mut wide, "top-wide.svg")] {
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
        std::fs::write(folder.join(name), picture).expect("write");
        terminal.press("q");
        assert_eq!(terminal.ended().await, 0);
    }
}
