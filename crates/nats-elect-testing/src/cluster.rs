//! Several private servers as one `JetStream` cluster.

use std::thread;

use serde_json::Value;

use super::TestingError;
use super::monitor;
use super::ports::Port;
use super::server::{Config, NatsServer, POLL, READY_TIMEOUT};
use std::time::Instant;

const START_ATTEMPTS: usize = 5;

/// A `JetStream` cluster of private servers on loopback. It is stopped on drop like each
/// [`NatsServer`] of it.
///
/// Clients learn no address from the servers except those that they were given. So a client behind
/// a [`TcpProxy`](super::TcpProxy) stays behind it.
///
/// All methods block. See the [crate](crate) for the consequences in an async test.
#[derive(Debug)]
pub struct NatsCluster {
    nodes: Vec<NatsServer>,
}

/// The settings of a [`NatsCluster`]. [`NatsCluster::builder`] makes it.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `start`"]
pub struct NatsClusterBuilder {
    size: usize,
    config: String,
}

impl NatsClusterBuilder {
    /// Appends text to the configuration file of every node, as [`NatsServerBuilder::config`] does
    /// for one.
    ///
    /// [`NatsServerBuilder::config`]: super::NatsServerBuilder::config
    pub fn config(mut self, text: &str) -> Self {
        self.config.push_str(text);
        self.config.push('\n');
        self
    }

    /// Starts the nodes and waits until streams with as many replicas as there are nodes can be
    /// made.
    ///
    /// # Errors
    ///
    /// The same as [`NatsServerBuilder::start`](super::NatsServerBuilder::start).
    pub fn start(self) -> Result<NatsCluster, TestingError> {
        let mut attempt = 1;
        loop {
            let mut cluster = self.prepare()?;
            match cluster.launch() {
                // Another process took a port first that was free during the check.
                Err(_) if attempt < START_ATTEMPTS && cluster.lost_a_port() => attempt += 1,
                outcome => return outcome.map(|()| cluster),
            }
        }
    }

    fn prepare(&self) -> Result<NatsCluster, TestingError> {
        let route_ports = (0..self.size)
            .map(|_| Port::free())
            .collect::<Result<Vec<_>, _>>()?;
        let routes: Vec<_> = route_ports
            .iter()
            .map(|port| format!("nats://127.0.0.1:{}", port.number()))
            .collect();
        // Each cluster has its own name: a foreign server on a reused port must not be let in.
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
                NatsServer::prepare(Port::free()?, Some(route_port), config)
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
    /// The same as [`NatsClusterBuilder::start`].
    ///
    /// # Panics
    ///
    /// Panics if `size` is below 2. Use a [`NatsServer`] for one node.
    pub fn start(size: usize) -> Result<Self, TestingError> {
        Self::builder(size).start()
    }

    /// Returns a builder for a cluster of `size` nodes with other settings.
    ///
    /// # Panics
    ///
    /// Panics if `size` is below 2. Use a [`NatsServer`] for one node.
    pub fn builder(size: usize) -> NatsClusterBuilder {
        assert!(size >= 2, "a cluster has at least two nodes, not {size}");
        NatsClusterBuilder {
            size,
            config: String::new(),
        }
    }

    /// Returns the client addresses of all nodes, separated by commas.
    ///
    /// `async_nats::connect` takes a list. Split the text there.
    pub fn urls(&self) -> String {
        let urls: Vec<_> = self.nodes.iter().map(NatsServer::url).collect();
        urls.join(",")
    }

    /// Returns all nodes, running or not, in the order of their indices.
    pub fn nodes(&self) -> &[NatsServer] {
        &self.nodes
    }

    /// Returns the node `index`, to look at, pause or resume.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn node(&self, index: usize) -> &NatsServer {
        &self.nodes[index]
    }

    /// Returns the node `index`, to kill or restart.
    ///
    /// # Panics
    ///
    /// Panics if there is no such node.
    pub fn node_mut(&mut self, index: usize) -> &mut NatsServer {
        &mut self.nodes[index]
    }

    /// Returns the index of the node that leads the stream, according to the node itself. Returns
    /// `None` while there is none.
    ///
    /// Dead and paused nodes are not asked. The bucket `x` is the stream `KV_x`. In the moments
    /// after a change a replaced leader may still report itself as the leader.
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
    /// Returns an error if there is no leader until then. The stream may not exist, or too few
    /// nodes run.
    pub fn wait_for_stream_leader(&self, stream: &str) -> Result<usize, TestingError> {
        self.poll(&format!("a leader of stream {stream}"), || {
            self.stream_leader(stream)
        })
    }

    /// Waits up to 30 seconds until every node that runs is healthy and the `JetStream` meta leader
    /// sees all of them.
    ///
    /// Call it after a restart. Only then can the cluster lose another node. Nodes that are down or
    /// paused are left out, but a majority must run.
    ///
    /// # Errors
    ///
    /// Returns an error if the cluster is not ready in time.
    pub fn wait_until_ready(&self) -> Result<(), TestingError> {
        self.poll("readiness of the cluster", || self.is_ready().then_some(()))
    }

    /// Returns whether, at this moment, every node that runs is healthy, the `JetStream` meta
    /// leader sees all of them, and all of them know the meta leader. A node that knows of no meta
    /// leader answers nothing.
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
        // Wait for one node after the other. Each wait notices if its server ends, and the waits
        // overlap.
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

/// Returns whether the page of the node `name` says that it leads `stream`, in any account.
fn leads(page: &Value, stream: &str, name: &str) -> bool {
    let accounts = page["account_details"].as_array();
    accounts
        .into_iter()
        .flatten()
        .filter_map(|account| account["stream_detail"].as_array())
        .flatten()
        .any(|detail| detail["name"] == stream && detail["cluster"]["leader"] == name)
}

/// Returns whether the page of the node `name` shows it as meta leader with at least `peers` living
/// followers.
fn sees_peers(page: &Value, name: &str, peers: usize) -> bool {
    let meta = &page["meta_cluster"];
    let living = meta["replicas"].as_array().map_or(0, |replicas| {
        let lives = |replica: &&Value| replica["current"] == true && replica["offline"] != true;
        replicas.iter().filter(lives).count()
    });
    meta["leader"] == name && living >= peers
}
