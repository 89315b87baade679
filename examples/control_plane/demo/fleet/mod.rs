//! The processes of a story, and the network between them.

mod node;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use async_nats::ConnectOptions;
use nats_elect::BoxError;
use nats_elect_testing::NatsServer;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use self::node::{Node, split_url};
use super::args::{Args, Sabotage, nats_url};
use super::board::Board;
use crate::clock::Moment;

/// The instances' names.
pub const NAMES: [&str; 3] = ["node-1", "node-2", "node-3"];
/// Longer than an instance gives itself to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(6);

/// Everything that runs for a story. Dropping it ends all of it.
pub struct Fleet {
    // In the order in which they end.
    nodes: Vec<Node>,
    server: Option<NatsServer>,
    folder: TempDir,
    settings: Settings,
}

/// The settings of every instance.
struct Settings {
    program: PathBuf,
    /// User and password before the server's address, if it wants some.
    credentials: String,
    bucket: String,
    ttl: Duration,
    spread: bool,
    replicas: usize,
    sabotage: Option<Sabotage>,
}

impl Fleet {
    /// Starts NATS, unless there is one, and the ways to it. No instance runs yet.
    pub fn prepare(args: &Args) -> Result<Self, BoxError> {
        let given = nats_url();
        let server = match given {
            Some(_) => None,
            None => Some(NatsServer::start()?),
        };
        let url = given.unwrap_or_else(|| server.as_ref().map(NatsServer::url).unwrap_or_default());
        let (credentials, address) = split_url(&url)?;
        let folder = tempfile::Builder::new()
            .prefix("control-plane-")
            .tempdir()?;
        let mut nodes = Vec::new();
        for name in NAMES {
            nodes.push(Node::prepare(name, &address, folder.path())?);
        }
        // Other fleets may meet in the same server: this one keeps to itself.
        let bucket = match server {
            Some(_) => args.bucket.clone(),
            None => format!("{}-story-{}", args.bucket, std::process::id()),
        };
        let settings = Settings {
            program: std::env::current_exe()?,
            credentials,
            bucket,
            ttl: args.ttl,
            spread: args.spread,
            replicas: args.replicas,
            sabotage: args.sabotage.filter(|how| how.concerns_instances()),
        };
        Ok(Self {
            nodes,
            server,
            folder,
            settings,
        })
    }

    /// The address of NATS, for people.
    pub fn describe_nats(&self) -> String {
        match &self.server {
            Some(server) => {
                let (major, minor, patch) = server.version();
                format!(
                    "{} (a private nats-server {major}.{minor}.{patch})",
                    server.url()
                )
            }
            None => format!("the server of NATS_URL, bucket {}", self.settings.bucket),
        }
    }

    /// The folder of the histories.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the histories in place when this ends.
    pub fn keep_folder(&mut self) {
        self.folder.disable_cleanup(true);
    }

    /// The address of each instance's metrics.
    pub fn metrics_urls(&self) -> impl Iterator<Item = (&'static str, String)> {
        let url = |node: &Node| {
            (
                node.name,
                format!("http://127.0.0.1:{}/metrics", node.metrics_port),
            )
        };
        self.nodes.iter().map(url)
    }

    /// Starts the process of an instance.
    pub fn launch(&mut self, name: &str) -> io::Result<()> {
        node(&mut self.nodes, name).launch(&self.settings)
    }

    /// Kills an instance as a crash would, and returns when it is gone.
    pub fn kill(&mut self, name: &str) -> io::Result<Option<ExitStatus>> {
        let Some(mut child) = node(&mut self.nodes, name).child.take() else {
            return Ok(None);
        };
        child.kill()?;
        child.wait().map(Some)
    }

    /// Asks an instance to stop (`SIGTERM`).
    pub fn terminate(&mut self, name: &str) -> io::Result<()> {
        if let Some(child) = &node(&mut self.nodes, name).child {
            kill_process(Pid::from_child(child), Signal::TERM)?;
        }
        Ok(())
    }

    /// Lets nothing through between an instance and NATS, and closes nothing: each side only hears
    /// silence.
    pub fn cut(&mut self, name: &str) {
        node(&mut self.nodes, name).proxy.black_hole();
    }

    /// Lets everything through again, also what was sent meanwhile.
    pub fn restore(&mut self, name: &str) {
        node(&mut self.nodes, name).proxy.restore();
    }

    /// Reads the histories on, and returns the instances whose process has ended.
    pub fn look(&mut self, board: &mut Board) -> Vec<(&'static str, ExitStatus)> {
        let mut ended = Vec::new();
        for node in &mut self.nodes {
            let exit = node.child.as_mut().and_then(|child| {
                let status = child.try_wait().ok().flatten()?;
                Some((child.id(), status))
            });
            for record in node.tail.read() {
                board.add(record);
            }
            if let Some((pid, status)) = exit {
                node.child = None;
                board.died(pid);
                ended.push((node.name, status));
            }
        }
        ended
    }

    /// The last words of an instance's log.
    pub fn last_words(&self, name: &str) -> String {
        let node = self.nodes.iter().find(|node| node.name == name);
        let log = node
            .and_then(|node| std::fs::read_to_string(&node.log).ok())
            .unwrap_or_default();
        log.trim_end().lines().last().unwrap_or_default().to_owned()
    }

    /// Stops every instance gracefully, and kills those that do not end.
    pub async fn stop(&mut self) {
        for node in &mut self.nodes {
            node.proxy.restore();
            if let Some(child) = &mut node.child {
                drop(child.stdin.take());
            }
        }
        let asked = Moment::now();
        while Moment::now().since(asked) < STOP_TIMEOUT && self.nodes.iter_mut().any(Node::lives) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.nodes.iter_mut().for_each(Node::kill);
    }

    /// Removes the story's bucket from a server that stays.
    pub async fn clean_up(&self) {
        let Some(url) = nats_url().filter(|_| self.server.is_none()) else {
            return;
        };
        let login = self.settings.credentials.trim_end_matches('@');
        let options = match login.split_once(':') {
            Some((user, password)) => {
                ConnectOptions::with_user_and_password(user.to_owned(), password.to_owned())
            }
            None if login.is_empty() => ConnectOptions::new(),
            None => ConnectOptions::with_token(login.to_owned()),
        };
        if let Ok(client) = options.connect(url).await {
            let context = async_nats::jetstream::new(client);
            let _ = context.delete_key_value(&self.settings.bucket).await;
        }
    }
}

fn node<'a>(nodes: &'a mut [Node], name: &str) -> &'a mut Node {
    nodes
        .iter_mut()
        .find(|node| node.name == name)
        .expect("an instance of this fleet")
}
