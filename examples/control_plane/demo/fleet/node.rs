//! One instance of a story's fleet.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nats_elect::BoxError;
use nats_elect::duration::exact;
use nats_elect_testing::TcpProxy;

use super::Settings;
use crate::demo::history::Tail;

/// One instance, its way to NATS, and its process while it lives.
pub struct Node {
    pub name: &'static str,
    pub proxy: TcpProxy,
    pub metrics_port: u16,
    history: PathBuf,
    pub tail: Tail,
    pub log: PathBuf,
    pub child: Option<Child>,
}

impl Node {
    /// Opens its way to the NATS server at `address`. Its files will be in `folder`.
    pub fn prepare(name: &'static str, address: &str, folder: &Path) -> Result<Self, BoxError> {
        let history = folder.join(format!("{name}.jsonl"));
        Ok(Self {
            name,
            proxy: TcpProxy::start(address)?,
            metrics_port: free_port()?,
            tail: Tail::new(history.clone()),
            history,
            log: folder.join(format!("{name}.log")),
            child: None,
        })
    }

    /// Starts its process.
    pub fn launch(&mut self, settings: &Settings) -> io::Result<()> {
        let url = format!(
            "nats://{}127.0.0.1:{}",
            settings.credentials,
            self.proxy.port()
        );
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(&settings.program);
        command
            .args(["--instance", self.name])
            .args(["--bucket", &settings.bucket])
            .args(["--ttl", &exact(settings.ttl).to_string()])
            .args(["--replicas", &settings.replicas.to_string()])
            .args(["--metrics-port", &self.metrics_port.to_string()])
            .arg("--history")
            .arg(&self.history);
        if settings.spread {
            command.arg("--spread");
        }
        if let Some(how) = settings.sabotage {
            command.args(["--sabotage", &how.name()]);
        }
        let child = command
            // Not on the command line: it may hold a password.
            .env("NATS_URL", url)
            // Only this process holds it open. Its end tells the child to end, too.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for this process, which decides in which order things end.
            .process_group(0)
            .spawn()?;
        self.child = Some(child);
        Ok(())
    }

    pub fn lives(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    pub fn kill(&mut self) {
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

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
        .local_addr()?
        .port())
}

/// Splits `nats://user:password@host:port` into `user:password@` and `host:port`.
pub fn split_url(url: &str) -> Result<(String, String), BoxError> {
    let first = url.split(',').next().unwrap_or_default().trim();
    let (scheme, rest) = first.split_once("://").unwrap_or(("nats", first));
    if scheme != "nats" {
        return Err(
            "the story cuts instances off by a proxy that speaks plain NATS only: \
             give it a nats:// server, or run single instances with --instance"
                .into(),
        );
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
