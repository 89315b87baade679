//! Copies of the bucket: as `nats stream backup` takes and `nats stream restore` brings them back,
//! and of a server's disk.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use async_nats::{Client, ToSubject};
use futures::StreamExt;
use nats_elect_testing::NatsServer;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::bucket::Stranger;
use super::{BUCKET, SOON};

/// The bucket `leaders` as it was at one moment.
pub struct Backup {
    config: Value,
    state: Value,
    chunks: Vec<Vec<u8>>,
}

impl Backup {
    /// Takes a copy; the fleet may run meanwhile.
    pub async fn of(stranger: &Stranger) -> Self {
        let client = stranger.jetstream.client();
        let inbox = client.new_inbox();
        let mut feed = client.subscribe(inbox.clone()).await.expect("subscribed");
        let subject = format!("$JS.API.STREAM.SNAPSHOT.KV_{BUCKET}");
        let wanted = json!({"deliver_subject": inbox, "no_consumers": true});
        let told = ask(&client, subject, wanted.to_string()).await;
        let mut chunks = Vec::new();
        loop {
            let chunk = tokio::time::timeout(SOON, feed.next()).await;
            let chunk = chunk.expect("a chunk in time").expect("a chunk");
            if chunk.payload.is_empty() {
                break;
            }
            if let Some(reply) = chunk.reply {
                let sent = client.publish(reply, "".into()).await;
                sent.expect("sent");
            }
            chunks.push(chunk.payload.to_vec());
        }
        assert!(!chunks.is_empty());
        Self {
            config: told["config"].clone(),
            state: told["state"].clone(),
            chunks,
        }
    }

    /// Makes the bucket again from the copy; it must have been deleted.
    pub async fn restore(&self, stranger: &Stranger) {
        let client = stranger.jetstream.client();
        let subject = format!("$JS.API.STREAM.RESTORE.KV_{BUCKET}");
        let wanted = json!({"config": self.config, "state": self.state});
        let told = ask(&client, subject, wanted.to_string()).await;
        let to = told["deliver_subject"].as_str();
        let to = to.expect("where to send it").to_owned();
        for chunk in &self.chunks {
            let answer = client.request(to.clone(), chunk.clone().into()).await;
            answer.expect("taken");
        }
        ask(&client, to, String::new()).await;
    }
}

/// Asks `JetStream`, and takes no error for an answer.
async fn ask(client: &Client, subject: impl ToSubject, body: String) -> Value {
    let answer = client
        .request(subject, body.into())
        .await
        .expect("an answer");
    let answer: Value = serde_json::from_slice(&answer.payload).expect("JSON");
    assert!(answer["error"].is_null(), "{answer}");
    answer
}

/// What a server had on its disk at one moment.
pub struct DiskCopy {
    disk: PathBuf,
    copy: TempDir,
}

impl DiskCopy {
    /// Copies it while the server is down, and starts the server again.
    pub fn of(server: &mut NatsServer) -> Self {
        let disk = disk_of(server);
        let copy = TempDir::new().expect("a folder");
        server.terminate().expect("ended");
        copy_all(&disk, copy.path());
        server.restart().expect("started again");
        Self { disk, copy }
    }

    /// Puts it in place of what the server has by now, while it is down, and starts it again.
    pub fn put_back(&self, server: &mut NatsServer) {
        server.terminate().expect("ended");
        std::fs::remove_dir_all(&self.disk).expect("removed");
        std::fs::create_dir(&self.disk).expect("made");
        copy_all(self.copy.path(), &self.disk);
        server.restart().expect("started again");
    }
}

/// Where the server keeps its streams.
fn disk_of(server: &NatsServer) -> PathBuf {
    let monitor = server.monitor_url().replace("http://", "");
    let mut page = TcpStream::connect(monitor).expect("connect");
    page.write_all(b"GET /varz HTTP/1.0\r\n\r\n").expect("sent");
    let mut text = String::new();
    page.read_to_string(&mut text).expect("a page");
    let (_, body) = text.split_once("\r\n\r\n").expect("a body");
    let page: Value = serde_json::from_str(body).expect("JSON");
    let disk = page["jetstream"]["config"]["store_dir"].as_str();
    disk.expect("a folder").into()
}

fn copy_all(from: &Path, to: &Path) {
    let copied = Command::new("cp")
        .arg("-R")
        .arg(from.join("."))
        .arg(to)
        .status();
    assert!(copied.expect("cp runs").success());
}
