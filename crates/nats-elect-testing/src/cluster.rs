//! Several private servers as one `JetStream` cluster.

use std::path::PathBuf;
use std::thread;

use serde_json::Value;

use super::TestingError;
use super::binary::Binary;
use super::monitor;
use super::ports::Port;
use super::server::{Config, NatsServer, POLL, READY_TIMEOUT};
use std::time::Instant;

const START_ATTEMPTS: usize = 5;

/// A `JetStream` cluster of private servers on loopback, stopped on drop like each [`NatsServer`] of it.
///
/// Clients learn no address from the servers but those that they were given, so a client behind a
/// [`TcpProxy`](super::TcpProxy) stays behind it.
///
/// All methods block; see the [crate](crate) for what that means in an async test.
#[derive(Debug)]
pub struct NatsCluster {
    nodes: Vec<NatsServer>,
}

/// How a [`NatsCluster`] is to run; made by [`NatsCluster::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `start`"]
pub struct NatsClusterBuilder {
    size: usize,
    binary: Option<PathBuf>,
    config: String,
}

impl NatsClusterBuilder {
    /// Appends text to the configuration file of every node, as [`NatsServerBuilder::config`] does for one.
    ///
    /// [`NatsServerBuilder::config`]: super::NatsServerBuilder::config
    pub fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self.config.push('\n');
        self
    }

    /// Runs this program instead of the one that is found: for tests against several versions.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Starts the nodes and waits until streams with as many replicas as there are nodes can be made.
    ///
    /// # Errors
    ///
    /// Those of [`NatsServerBuilder::start`](super::NatsServerBuilder::start).
    pub fn start(self) -> Result<NatsCluster, TestingError> {
        let binary = match &self.binary {
            Some(path) => Binary::at(path.clone())?,
            None => Binary::find()?,
        };
        let mut attempt = 1;
        loop {
            let mut cluster = self.prepare(&binary)?;
            match cluster.launch() {
                // Another process was faster to take a port that was free when we looked.
                Err(_) if attempt < START_ATTEMPTS && cluster.lost_a_port() => attempt += 1,
                outcome => return outcome.map(|()| cluster),
            }
        }
    }

    fn prepare(&self, binary: &Binary) -> Result<NatsCluster, TestingError> {
        let route_ports = (0..self.size)
            .map(|_| Port::free())
            .collect::<Result<Vec<_>, _>>()?;
        let routes: Vec<_> = route_ports
            .iter()
            .map(|port| format!("nats://127.0.0.1:{}", port.number()))
            .collect();
        // Its own name: a stranger on a reused port must not be let in.
        let name = format!("cluster-{:016x}", rand::random::<u64>());
        let nodes = route_ports
            .into_iter()
            .enumerate()
            .map(|(index, route_port)| {
                let cluster = format!(
                    "cluster {{\n  name: \"{name}\"\n  listen: \"127.0.0.1:{}\"\n  no_advertise: true\n  routes: [{}]\n}}",
                    route_port.number(),
                    routes.join(", ")
                );
                let config = Config {
                    name: format!("node-{index}"),
                    jetstream: true,
                    cluster: Some(cluster),
                    extra: self.config.clone(),
                };
                NatsServer::prepare(binary.clone(), Port::free()?, Some(route_port), config)
            })
            .collect::<Result<Vec<_>, _>>()?;
        Ok(NatsCluster { nodes })
    }
}

impl NatsCluster {
    /// Starts a cluster of `size` nodes and waits until it is ready.
    ///
    /// # Errors
    ///
    /// Those of [`NatsClusterBuilder::start`].
    ///
    /// # Panics
    ///
    /// If `size` is below 2: that is a [`NatsServer`].
    pub fn start(size: usize) -> Result<Self, TestingError> {
        Self::builder(size).start()
    }

    /// A cluster of `size` nodes with other settings.
    ///
    /// # Panics
    ///
    /// If `size` is below 2: that is a [`NatsServer`].
    pub fn builder(size: usize) -> NatsClusterBuilder {
        assert!(size >= 2, "a cluster has at least two nodes, not {size}");
        NatsClusterBuilder {
            size,
            binary: None,
            config: String::new(),
        }
    }

    /// The client addresses of all nodes, separated by commas.
    ///
    /// `async_nats::connect` wants a list: split it there.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(NatsServer::url).collect();
        urls.join(",")
    }

    /// All nodes, running or not, in the order of their indices.
    pub fn nodes(&self) -> &[NatsServer] {
        &self.nodes
    }

    /// The node `index`, to look at, pause or resume.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn node(&self, index: usize) -> &NatsServer {
        &self.nodes[index]
    }

    /// The node `index`, to kill or restart.
    ///
    /// # Panics
    ///
    /// If there is no such node.
    pub fn node_mut(&mut self, index: usize) -> &mut NatsServer {
        &mut self.nodes[index]
    }

    /// Index of the node that leads the stream, in its own judgement; `None` while there is none.
    ///
    /// Dead and paused nodes are not asked. The bucket `x` is the stream `KV_x`. In the moments after a change a deposed
    /// leader may still take itself for one.
    pub fn stream_leader(&self, stream: &str) -> Option<usize> {
        self.nodes.iter().position(|node| {
            node.answers()
                && monitor::json(node.monitor_port(), "/jsz?accounts=true&streams=true")
                    .is_ok_and(|page| leads(&page, stream, node.name()))
        })
    }

    /// Waits up to 30 seconds for [`NatsCluster::stream_leader`] to be known and returns it.
    ///
    /// # Errors
    ///
    /// If there is none until then: the stream may not exist, or too few nodes run.
    pub fn wait_for_stream_leader(&self, stream: &str) -> Result<usize, TestingError> {
        self.poll(&format!("a leader of stream {stream}"), || {
            self.stream_leader(stream)
        })
    }

    /// Waits up to 30 seconds until every node that runs is healthy and the `JetStream` meta leader sees all of them.
    ///
    /// Call it after a restart: only then does the cluster bear the loss of another node. Nodes that are down or paused are
    /// left out, but a majority must run.
    ///
    /// # Errors
    ///
    /// If that is not so in time.
    pub fn wait_until_ready(&self) -> Result<(), TestingError> {
        self.poll("readiness of the cluster", || self.is_ready().then_some(()))
    }

    /// Whether every node that runs is healthy, the `JetStream` meta leader sees all of them, and all of them know it, at this moment: a
    /// node that knows of no meta leader answers nothing.
    pub fn is_ready(&self) -> bool {
        let running: Vec<_> = self.nodes.iter().filter(|node| node.answers()).collect();
        let healthy = running
            .iter()
            .all(|node| monitor::is_healthy(node.monitor_port()) && monitor::accepts(node.port()));
        let meta = |node: &&NatsServer| monitor::json(node.monitor_port(), "/jsz").ok();
        let Some(pages) = running.iter().map(meta).collect::<Option<Vec<_>>>() else {
            return false;
        };
        let leads = |(page, node): (&Value, &&NatsServer)| {
            sees_peers(page, node.name(), running.len() - 1).then(|| node.name().to_owned())
        };
        let leader = pages.iter().zip(&running).find_map(leads);
        healthy
            && leader.is_some_and(|leader| {
                let knows = |page: &Value| page["meta_cluster"]["leader"] == leader;
                pages.iter().all(knows)
            })
    }

    fn launch(&mut self) -> Result<(), TestingError> {
        for node in &mut self.nodes {
            node.launch()?;
        }
        // One after the other: each wait notices if its server ends, and the waits overlap.
        for node in &mut self.nodes {
            node.wait_until_healthy()?;
        }
        self.wait_until_ready()
    }

    fn lost_a_port(&self) -> bool {
        self.nodes.iter().any(NatsServer::lost_a_port)
    }

    fn poll<T>(&self, what: &str, condition: impl Fn() -> Option<T>) -> Result<T, TestingError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        loop {
            if let Some(value) = condition() {
                return Ok(value);
            }
            if Instant::now() >= deadline {
                let witness = self.nodes.iter().find(|node| node.answers());
                return Err(witness
                    .unwrap_or(&self.nodes[0])
                    .timed_out(what, READY_TIMEOUT));
            }
            thread::sleep(POLL);
        }
    }
}

/// Whether the page of the node `name` says that it leads `stream`, in whatever account that is.
fn leads(page: &Value, stream: &str, name: &str) -> bool {
    let accounts = page["account_details"].as_array();
    accounts
        .into_iter()
        .flatten()
        .filter_map(|account| account["stream_detail"].as_array())
        .flatten()
        .any(|detail| detail["name"] == stream && detail["cluster"]["leader"] == name)
}

/// Whether the page of the node `name` shows it as meta leader with at least `peers` living followers.
fn sees_peers(page: &Value, name: &str, peers: usize) -> bool {
    let meta = &page["meta_cluster"];
    let living = meta["replicas"].as_array().map_or(0, |replicas| {
        let lives = |replica: &&Value| replica["current"] == true && replica["offline"] != true;
        replicas.iter().filter(lives).count()
    });
    meta["leader"] == name && living >= peers
}
