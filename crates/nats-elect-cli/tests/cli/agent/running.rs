//! An agent as a process.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use nats_elect_testing::{NatsServer, eventually};

use crate::agent::client::Client;
use crate::fleet::{SOON, comes_true};
use crate::nats_elect;
use crate::running::Process;

pub struct Agent {
    pub socket: PathBuf,
    pub process: Process,
    command: Command,
    folder: tempfile::TempDir,
}

/// The command line of an agent, without a place to listen.
pub fn agent(url: &str) -> Command {
    let mut agent = nats_elect(&["agent", "--create-bucket", "--server", url]);
    agent.stdout(Stdio::null());
    agent
}

impl Agent {
    /// Starts an agent whose applications may stand for `worker`, with this ttl.
    pub async fn start(server: &NatsServer, id: &str, ttl: &str) -> Self {
        Self::start_with(server, id, &format!("[roles.worker]\nttl = {ttl:?}\n"), &[]).await
    }

    pub async fn start_with(server: &NatsServer, id: &str, config: &str, more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("agent.sock");
        let file = folder.path().join("agent.toml");
        std::fs::write(&file, config).expect("a file");
        let mut command = agent(&server.url());
        command
            .arg("--listen")
            .arg(format!("unix:{}", socket.display()));
        if !config.is_empty() {
            command.arg("--config").arg(file);
        }
        command.args(["--id", id]).args(more);
        let agent = Self {
            socket,
            process: Process(command.spawn().expect("an agent")),
            command,
            folder,
        };
        agent.answers().await;
        agent
    }

    /// Waits until its application stands by for `worker`.
    pub async fn follows(&self) {
        let follows = |it: serde_json::Value| it["state"] == "follower";
        comes_true("a follower", async || self.status().is_some_and(follows)).await;
    }

    /// Its status of `worker`. `None` until its application stands for it.
    pub fn status(&self) -> Option<serde_json::Value> {
        let status = self
            .client()
            .try_ask("GET", "/v1/roles/worker", &[], b"")
            .ok()?;
        (status.status == 200).then(|| status.json())
    }

    async fn answers(&self) {
        eventually(SOON, "an agent that answers", async || {
            let answer = Client::connect(&self.socket)
                .ok()?
                .try_ask("GET", "/v1", &[], b"")
                .ok()?;
            (answer.status == 200).then_some(())
        })
        .await;
    }

    /// Kills it, and starts it again, as a supervisor does.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = Process(self.command.spawn().expect("an agent"));
        self.answers().await;
    }

    pub fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket).expect("a connection")
    }
}
