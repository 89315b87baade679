//! A private server of a system, alone, with its storage on the disk of this build.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nats_elect_testing::NatsServer;
use tempfile::TempDir;

use crate::packages;
use crate::system::System;
use drill::Problem;
use drill::usage::{exchange, page};

/// Runs a program until the input ends, which it also does when this process is killed.
const GUARD: &str = r#"
trap '' HUP INT TERM
folder=$1; shift
"$@" >"$folder/log" 2>&1 </dev/null &
echo $!
while read -r _; do :; done
kill -9 $! 2>/dev/null
wait $!
rm -rf -- "$folder"
"#;
const POLL: Duration = Duration::from_millis(20);
const POLLS: usize = 1500;

/// A server. Dropping it ends it.
pub struct Server {
    kind: Kind,
    address: String,
    version: String,
}

enum Kind {
    Nats(NatsServer),
    Etcd(Guarded),
    ZooKeeper(Guarded),
}

struct Guarded {
    guard: Child,
    pid: u32,
    port: u16,
    folder: TempDir,
}

impl Server {
    /// Starts the one that a system needs.
    pub fn start(system: System) -> Result<Self, Problem> {
        match system {
            System::Ours | System::OursWithWill | System::Nats => nats(""),
            System::OursSynced => nats("jetstream { sync_interval: always }"),
            System::Etcd => etcd(),
            System::ZooKeeper => zookeeper(),
        }
    }

    /// Where its candidates connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its name and version.
    pub fn version(&self) -> &str {
        &self.version
    }

    pub fn pid(&self) -> u32 {
        match &self.kind {
            Kind::Nats(server) => server.pid().expect("it runs"),
            Kind::Etcd(guarded) | Kind::ZooKeeper(guarded) => guarded.pid,
        }
    }

    /// How many messages of clients it has received so far, of whatever kind.
    pub fn requests(&self) -> Result<u64, Problem> {
        match &self.kind {
            Kind::Nats(server) => {
                let port = server.monitor_url();
                let port = port.rsplit(':').next().ok_or("no port")?.parse()?;
                let page: serde_json::Value = serde_json::from_str(&page(port, "/varz")?)?;
                Ok(page["in_msgs"].as_u64().ok_or("no count")?)
            }
            Kind::Etcd(guarded) => {
                let page = page(guarded.port, "/metrics")?;
                let counts = page
                    .lines()
                    .filter(|line| line.starts_with("grpc_server_msg_received_total"));
                let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "counts, which the page prints as it likes"
                )]
                let sum = counts.sum::<f64>() as u64;
                Ok(sum)
            }
            Kind::ZooKeeper(guarded) => {
                let told = exchange(guarded.port, "srvr")?;
                let count = told
                    .lines()
                    .find_map(|line| line.strip_prefix("Received: "));
                Ok(count.ok_or("no count")?.parse()?)
            }
        }
    }
}

fn nats(config: &str) -> Result<Server, Problem> {
    let server = NatsServer::builder().config(config).start()?;
    let (major, minor, patch) = server.version();
    Ok(Server {
        address: server.url(),
        version: format!("nats-server {major}.{minor}.{patch}"),
        kind: Kind::Nats(server),
    })
}

fn etcd() -> Result<Server, Problem> {
    let program = packages::etcd()?;
    let told = Command::new(&program.path).arg("--version").output()?;
    let told = String::from_utf8(told.stdout)?;
    let version = told
        .lines()
        .find_map(|line| line.strip_prefix("etcd Version: "));
    let version = format!("etcd {}", version.unwrap_or("of no known version"));
    let folder = tempfile::Builder::new().prefix("etcd-").tempdir()?;
    let (port, peers) = (free_port()?, free_port()?);
    let (client, peer) = (
        format!("http://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{peers}"),
    );
    let mut command = Command::new(&program.path);
    command
        .arg("--data-dir")
        .arg(folder.path().join("data"))
        .args(["--listen-client-urls", &client])
        .args(["--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer])
        .args(["--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        // It grants no lease below one and a half of its own elections.
        .args(["--heartbeat-interval=50", "--election-timeout=500"]);
    let guarded = Guarded::start(&command, folder, port)?;
    guarded.wait_for("\"health\":\"true\"", || page(port, "/health"))?;
    Ok(Server {
        kind: Kind::Etcd(guarded),
        address: client,
        version,
    })
}

fn zookeeper() -> Result<Server, Problem> {
    let java = packages::java()?;
    let classes = packages::zookeeper()?;
    let folder = tempfile::Builder::new().prefix("zookeeper-").tempdir()?;
    let port = free_port()?;
    let data = folder.path().join("data");
    let config = format!(
        "dataDir={}\nclientPortAddress=127.0.0.1\nclientPort={port}\nadmin.enableServer=false\n\
         # Sessions end at ticks: short ones, so that they end when they should.\n\
         tickTime=20\nminSessionTimeout=100\nmaxSessionTimeout=60000\nmaxClientCnxns=0\n",
        data.display()
    );
    let file = folder.path().join("zoo.cfg");
    fs::write(&file, config)?;
    let mut command = Command::new("env");
    if !java.libraries.is_empty() {
        let libraries = std::env::join_paths(&java.libraries)?;
        let mut assignment = std::ffi::OsString::from("LD_LIBRARY_PATH=");
        assignment.push(libraries);
        command.arg(assignment);
    }
    command
        .arg(&java.path)
        .arg("-cp")
        .arg(classes)
        .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
        .arg(file);
    let guarded = Guarded::start(&command, folder, port)?;
    let told = guarded.wait_for("Mode: standalone", || exchange(port, "srvr"))?;
    let version = told
        .strip_prefix("Zookeeper version: ")
        .and_then(|rest| rest.split(['-', ',']).next())
        .unwrap_or("of no known version");
    Ok(Server {
        version: format!("ZooKeeper {version}"),
        address: format!("127.0.0.1:{port}"),
        kind: Kind::ZooKeeper(guarded),
    })
}

impl Guarded {
    fn start(program: &Command, folder: TempDir, port: u16) -> Result<Self, Problem> {
        let mut guard = Command::new("/bin/sh")
            .args(["-c", GUARD, "peer-guard"])
            .arg(folder.path())
            .arg(program.get_program())
            .args(program.get_args())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // It tells of the kill.
            .stderr(Stdio::null())
            // Ctrl-C ends the benchmark first.
            .process_group(0)
            .spawn()?;
        let mut pid = String::new();
        BufReader::new(guard.stdout.take().ok_or("no output")?).read_line(&mut pid)?;
        Ok(Self {
            guard,
            pid: pid.trim().parse()?,
            port,
            folder,
        })
    }

    /// Asks until the answer has this in it.
    fn wait_for(
        &self,
        text: &str,
        ask: impl Fn() -> Result<String, Problem>,
    ) -> Result<String, Problem> {
        for _ in 0..POLLS {
            if let Ok(answer) = ask()
                && answer.contains(text)
            {
                return Ok(answer);
            }
            if !Path::new("/proc").join(self.pid.to_string()).exists() {
                break;
            }
            thread::sleep(POLL);
        }
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        Err(format!("it does not start:\n{log}").into())
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

fn free_port() -> Result<u16, Problem> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?.port())
}
