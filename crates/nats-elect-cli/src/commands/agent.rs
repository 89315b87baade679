//! `agent`: elections for applications in any language.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use nats_elect::{ManagerConfig, RoleConfig, RoleManager, StopOptions};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::agent::listen::{self, Address, Listener};
use crate::agent::{self, Attached};
use crate::exec::listener::Listener as Health;
use crate::exit::{Failure, Outcome};
use crate::instance_options::InstanceOptions;
use crate::options::Shared;
use crate::secret::Secret;

/// How long the agent waits for its roles to be freed, beyond their stop budgets.
const RELEASE_TIME: Duration = Duration::from_secs(5);

/// Hold elections for applications in any language, over HTTP
///
/// An application opens one stream for each role: `POST /v1/roles/ROLE`. While the stream is open the
/// agent takes part in the role's election. The stream tells when a term begins, is to be wound down
/// and has ended. In a term the application asks for a new promise before the last one is over, and
/// stops by the end of its last promise. When the application dies, the kernel closes its stream, and
/// the agent frees the role at once.
///
/// If the file of --config has roles, applications may stand for these alone. Otherwise an application
/// may stand for any role, and sends its settings.
///
/// Run the agent on the application's machine, or in its pod. docs/agent.md has the protocol, and
/// clients in Python, Go and TypeScript.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Agent {
    /// Where applications connect: unix:PATH, or an address on loopback such as 127.0.0.1:8500
    #[arg(long, value_name = "ADDRESS", env = "NATS_ELECT_AGENT_LISTEN")]
    listen: Address,

    /// The permissions of the Unix socket, in octal digits
    #[arg(long, value_name = "MODE", default_value = "600", value_parser = mode)]
    socket_mode: u32,

    /// A file with the secret that each request has to show. Required on loopback, which every user
    /// of the machine can reach
    #[arg(long, value_name = "FILE", env = "NATS_ELECT_AGENT_TOKEN_FILE")]
    token_file: Option<PathBuf>,

    /// Serve health and metrics over HTTP at this address, such as 127.0.0.1:9464: /livez, /readyz,
    /// /leaderz/ROLE and /metrics. There is no TLS and no authentication
    #[arg(long, value_name = "IP:PORT", env = "NATS_ELECT_AGENT_HEALTH")]
    health: Option<SocketAddr>,

    #[command(flatten)]
    instance: InstanceOptions,
}

const EXAMPLES: &str = "\
Examples:
  nats-elect agent --listen unix:/run/scheduler/elect.sock
  curl -N --unix-socket /run/scheduler/elect.sock -X POST http://agent/v1/roles/scheduler";

impl Agent {
    pub async fn run(self, shared: &Shared) -> Outcome {
        let secret = self.secret()?;
        let (manager, roles) = self.configuration(shared)?;
        // A companion would free the roles too early.
        if manager.last_will.enabled {
            let what =
                "`last_will` is on: the application goes on for a moment when this process dies";
            return Err(
                Failure::usage(what).advice("leave it out of the configuration for `agent`")
            );
        }
        let bucket = manager.bucket.as_str().into();
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        // Before anything else: an address in use is a mistake that is told at once.
        let listener = Listener::bind(&self.listen, self.socket_mode).await;
        let listener = listener.map_err(|error| {
            let what = format!("can't listen on {}: {error}", self.listen);
            Failure::failed(what).advice("is another agent running there?")
        })?;
        let health = self.health.map(|it| Health::bind(it, "--health"));
        let health = health.transpose()?;
        let starting = RoleManager::builder().config(manager).start();
        let manager = tokio::select! {
            started = starting => Arc::new(started?),
            _ = terminated.recv() => return Ok(128 + 15),
            _ = interrupted.recv() => return Ok(128 + 2),
        };
        if let Some(health) = health {
            health.answer(manager.probe())?;
        }
        tracing::info!(
            instance_id = manager.instance_id(),
            "listening on {}",
            listener.address()?
        );
        let attached = Arc::new(Attached::new(Arc::clone(&manager)));
        let stopping = CancellationToken::new();
        let router = agent::router(agent::Agent {
            attached: Arc::clone(&attached),
            stopping: stopping.clone(),
            roles: Arc::new(roles),
            bucket,
            secret,
        });
        let end = CancellationToken::new();
        let mut serving = tokio::spawn(listen::serve(listener, router, end.clone()));
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
            ended = &mut serving => tracing::error!(?ended, "the listener ended"),
        }
        // Applications are told to wind down, and go on to be answered.
        stopping.cancel();
        let timeout = attached.stop_budget() + RELEASE_TIME;
        let stop = StopOptions::default().timeout(timeout);
        let stopped = manager.stop(stop).await;
        end.cancel();
        stopped?;
        Ok(0)
    }

    fn secret(&self) -> Result<Option<Secret>, Failure> {
        match (&self.token_file, &self.listen) {
            (Some(path), _) => Secret::read(path).map(Some),
            (None, Address::Unix(_)) => Ok(None),
            (None, Address::Loopback(_)) => Err(Failure::usage(
                "every user of this machine can reach an address on loopback: add --token-file, or listen on unix:PATH",
            )),
        }
    }

    /// What to connect by, and the roles that applications may stand for.
    fn configuration(
        &self,
        shared: &Shared,
    ) -> Result<(ManagerConfig, BTreeMap<String, RoleConfig>), Failure> {
        let (manager, file) = self.instance.read(shared)?;
        let roles = match file {
            Some(file) => file.with_env()?.roles,
            None => BTreeMap::new(),
        };
        for (role, config) in &roles {
            let settings = config.settings();
            settings.map_err(|error| Failure::usage(format!("role `{role}`: {error}")))?;
        }
        Ok((manager, roles))
    }
}

fn mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok();
    mode.filter(|mode| *mode <= 0o777)
        .ok_or_else(|| "it must be octal digits, such as 600 or 660".to_owned())
}
