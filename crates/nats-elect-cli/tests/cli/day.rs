//! A fleet of the example `control_plane` for pictures of it, and the past that it has behind it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use async_nats::jetstream;
use nats_elect::{FencingToken, History};
use nats_elect_testing::eventually;
use serde_json::{Value, json};

use crate::running::Process;

pub const BUCKET: &str = "control-plane";
pub const NODES: [&str; 3] = ["node-1", "node-2", "node-3"];

/// An instance of the example.
pub fn node(url: &str, id: &str) -> Process {
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
    Process(child)
}

/// From when on a node led, in minutes before its present term, and which; how the role had become
/// free, and for how long there was no sign of the leader before.
pub type Led = (u64, usize, &'static str, f64);

/// Each role, and who led it before.
pub type Past = [(&'static str, &'static [Led]); 3];

/// A day of this fleet, before its present terms.
pub const DAY: Past = [
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

/// Puts such a past into the history: the instances have only just begun to write it.
pub async fn live_through(past: &Past, client: &async_nats::Client) {
    let context = jetstream::new(client.clone());
    let begun = eventually(Duration::from_secs(30), "the first terms", async || {
        let history = History::open(client.clone(), BUCKET).await.ok()?;
        let begun = history.of_all(10).await.ok()?;
        (begun.len() == past.len()).then_some(begun)
    })
    .await;
    let stream = context.get_stream(format!("nats-elect-events-{BUCKET}"));
    stream.await.expect("it").purge().await.expect("a purge");
    let mut told: Vec<Value> = Vec::new();
    for now in &begun {
        let (_, terms) = past.iter().find(|(role, _)| *role == now.role).expect("it");
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
            told.push(one);
            previous = NODES[*node];
        }
        let mut present = present;
        present["vacancy"] = json!("released");
        present["previous"] = json!(previous);
        present["silence_seconds"] = json!(0.004);
        told.push(present);
    }
    for one in told {
        let role = one["role"].as_str().expect("a role");
        let subject = format!("nats-elect-events.{BUCKET}.{role}");
        let sent = context.publish(subject, one.to_string().into()).await;
        sent.expect("sent").await.expect("kept");
    }
}
