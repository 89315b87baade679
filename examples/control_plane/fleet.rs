//! The processes of a story, and the network between them.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use async_nats::ConnectOptions;
use nats_elect_testing::{NatsServer, TcpProxy};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::Problem;
use crate::args::{Args, Sabotage, nats_url};
use crate::board::Board;
use crate::clock::Moment;
use crate::history::Tail;

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

/// What every instance is started with.
struct Settings {
    program: PathBuf,
    /// User and password before the server's address, if it wants some.
    credentials: String,
    bucket: String,
    ttl: Duration,
    replicas: usize,
    sabotage: Option<Sabotage>,
}

/// One instance, its way to NATS, and its process while it lives.
struct Node {
    name: &'static str,
    proxy: TcpProxy,
    metrics_port: u16,
    history: PathBuf,
    tail: Tail,
    log: PathBuf,
    child: Option<Child>,
}

impl Fleet {
    /// Starts NATS, unless there is one, and the ways to it. No instance runs yet.
    pub fn prepare(args: &Args) -> Result<Self, Problem> {
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
            let history = folder.path().join(format!("{name}.jsonl"));
            nodes.push(Node {
                name,
                proxy: TcpProxy::start(address.as_str())?,
                metrics_port: free_port()?,
                tail: Tail::new(history.clone()),
                history,
                log: folder.path().join(format!("{name}.log")),
                child: None,
            });
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

    /// Where NATS is, for people.
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

    /// Where the histories are.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Leaves the histories in place when this ends.
    pub fn keep_folder(&mut self) {
        self.folder.disable_cleanup(true);
    }

    /// Where each instance's metrics are.
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
        let settings = &self.settings;
        let node = node(&mut self.nodes, name);
        let url = format!(
            "nats://{}127.0.0.1:{}",
            settings.credentials,
            node.proxy.port()
        );
        let log = File::options().create(true).append(true).open(&node.log)?;
        let mut command = Command::new(&settings.program);
        command
            .args(["--instance", node.name])
            .args(["--bucket", &settings.bucket])
            .args([
                "--ttl",
                &humantime::format_duration(settings.ttl).to_string(),
            ])
            .args(["--replicas", &settings.replicas.to_string()])
            .args(["--metrics-port", &node.metrics_port.to_string()])
            .arg("--history")
            .arg(&node.history);
        if let Some(how) = settings.sabotage {
            command.args(["--sabotage", &how.name()]);
        }
        let child = command
            // Not on the command line: it may hold a password.
            .env("NATS_URL", url)
            // Held open by this process alone: its end tells the child that nobody is left to live for.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for this process, which decides in which order things end.
            .process_group(0)
            .spawn()?;
        node.child = Some(child);
        Ok(())
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

    /// Lets nothing through between an instance and NATS, and closes nothing: each side only hears silence.
    pub fn cut(&mut self, name: &str) {
        node(&mut self.nodes, name).proxy.black_hole();
    }

    /// Lets everything through again, also what was sent meanwhile.
    pub fn restore(&mut self, name: &str) {
        node(&mut self.nodes, name).proxy.restore();
    }

    /// Reads what the instances wrote, and returns those whose process has ended.
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

impl Node {
    fn lives(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
    }
}

fn node<'a>(nodes: &'a mut [Node], name: &str) -> &'a mut Node {
    nodes
        .iter_mut()
        .find(|node| node.name == name)
        .expect("an instance of this fleet")
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Splits `nats://user:password@host:port` into what stands before the host, and host and port.
fn split_url(url: &str) -> Result<(String, String), Problem> {
    let first = url.split(',').next().unwrap_or_default().trim();
    let (scheme, rest) = first.split_once("://").unwrap_or(("nats", first));
    if scheme != "nats" {
        return Err("the story cuts instances off by a proxy that speaks plain NATS only: give it a nats:// server, or run single instances with --instance".into());
    }
    let rest = rest.trim_end_matches('/');
    let (credentials, address) = match rest.rsplit_once('@') {
        Some((credentials, address)) => (format!("{credentials}@"), address),
        None => (String::new(), rest),
    };
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port {
        address.to_owned()
    } else {
        format!("{address}:4222")
    };
    Ok((credentials, address))
}
