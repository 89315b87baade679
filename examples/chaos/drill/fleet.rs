//! The instances' processes, and the network between them and NATS.

use std::process::Command;
use std::thread;
use std::time::Duration;

use ::drill::{Moment, Node};
use nats_elect_testing::{Direction, NatsCluster, NatsServer};
use rustix::process::Signal;

use super::Problem;
use super::board::{Board, journal_of};
use super::fault::Kind;
use super::instance::{Membership, ORDERS, Orders, STOP_TIMEOUT};
use super::plan::{BUCKET, NODES, Plan};

/// All instances. Dropping it kills them.
pub struct Fleet {
    pub names: Vec<String>,
    pub board: Board,
    plan: Plan,
    instances: Vec<Instance>,
    /// Processes that ended on their own, or not as they should.
    pub bad_ends: Vec<String>,
}

struct Instance {
    node: Node,
    /// It was asked to end.
    leaving: bool,
    /// How long the log was when its process was started.
    log: usize,
}

impl Fleet {
    /// The ways to NATS. No instance runs yet.
    pub fn prepare(plan: &Plan, cluster: &NatsCluster) -> Result<Self, Problem> {
        let names = plan.instance_names();
        let servers: Vec<_> = cluster.nodes().iter().map(NatsServer::url).collect();
        let servers = || servers.iter().map(String::as_str);
        let instance = |name: &String| {
            let node = Node::new(name, servers(), plan.log_of(name))?;
            let (leaving, log) = (false, 0);
            Ok(Instance { node, leaving, log })
        };
        Ok(Self {
            instances: names.iter().map(instance).collect::<Result<_, Problem>>()?,
            names,
            board: Board::new(plan),
            plan: plan.clone(),
            bad_ends: Vec::new(),
        })
    }

    /// Starts a process of an instance, if it has none.
    pub fn start(&mut self, index: usize) -> Result<(), Problem> {
        let (plan, instance) = (&self.plan, &mut self.instances[index]);
        let node = &mut instance.node;
        if node.runs() {
            return Ok(());
        }
        let (name, process) = (&node.name, node.process + 1);
        let folders = plan.folders();
        let shards = plan.shards.as_ref().map(|shards| Membership {
            shards: shards.count,
            ttl: shards.ttls[index],
            journal: journal_of(&folders.shards, name, process),
        });
        let orders = Orders {
            instance: name.clone(),
            process,
            servers: node.urls(),
            bucket: BUCKET.to_owned(),
            replicas: NODES,
            roles: plan.roles.clone(),
            shards: shards.clone(),
            journal: journal_of(&folders.roles, name, process),
            sabotage: plan.sabotage,
            last_will: plan.last_wills,
            publish: plan.serve.is_some(),
        };
        let mut command = Command::new(&plan.launch.program);
        command
            .args(&plan.launch.arguments)
            .env(ORDERS, serde_json::to_string(&orders)?);
        let log = std::fs::read(plan.log_of(&node.name)).map_or(0, |log| log.len());
        node.start(&mut command)?;
        (instance.leaving, instance.log) = (false, log);
        let board = &mut self.board;
        board.roles.follow(index, process, orders.journal)?;
        if let Some(shards) = shards {
            board.shards.follow(index, process, shards.journal)?;
        }
        Ok(())
    }

    /// The process of an instance, and its network.
    pub fn node(&mut self, index: usize) -> &mut Node {
        &mut self.instances[index].node
    }

    /// Whether the instance has a process.
    pub fn runs(&self, index: usize) -> bool {
        self.instances[index].node.runs()
    }

    /// Whether each process has said that it has opened the bucket.
    pub fn all_know_the_bucket(&self) -> bool {
        let mut running = self.instances.iter().filter(|it| it.node.runs());
        running.all(|it| {
            let log = std::fs::read(self.plan.log_of(&it.node.name)).unwrap_or_default();
            let log = log.get(it.log..).unwrap_or_default();
            String::from_utf8_lossy(log).contains("connected to NATS: started")
        })
    }

    /// Asks an instance to stop.
    pub fn terminate(&mut self, index: usize) -> Result<(), Problem> {
        self.instances[index].node.signal(Signal::TERM)?;
        self.instances[index].leaving = true;
        Ok(())
    }

    /// Does that to the network of an instance.
    pub fn disturb(&self, index: usize, kind: Kind, lasts: Duration) {
        for proxy in &self.instances[index].node.proxies {
            match kind {
                Kind::BlackHole => proxy.black_hole(),
                Kind::Deaf => proxy.black_hole_direction(Direction::ToClient),
                Kind::Mute => proxy.black_hole_direction(Direction::ToServer),
                Kind::Reset => proxy.cut(),
                Kind::AcksLost => proxy.drop_acks(),
                _ => {
                    // Anything from far away to almost too slow, out of what was drawn already.
                    let delay = Duration::from_millis(10 + u64::from(lasts.subsec_micros() % 150));
                    proxy.delay(Direction::ToServer, delay);
                    proxy.delay(Direction::ToClient, delay / 2);
                }
            }
        }
    }

    /// Reads the journals, and notes whose process has ended.
    pub fn look(&mut self) -> Result<(), Problem> {
        self.board.roles.read()?;
        self.board.shards.read()?;
        for Instance { node, leaving, .. } in &mut self.instances {
            if let Ok(Some(status)) = node.exited()
                && !(*leaving && status.success())
            {
                let (name, process, words) = (&node.name, node.process, node.last_words());
                self.bad_ends.push(format!(
                    "{name}, process {process}: ended with {status}, last words: {words}"
                ));
            }
        }
        Ok(())
    }

    /// Waits for the ends of those that were asked to stop, and kills those that do not.
    pub fn wait_for_ends(&mut self, asked: Moment) -> Result<(), Problem> {
        let leaves = |instance: &Instance| instance.node.runs() && instance.leaving;
        while Moment::now().since(asked) < STOP_TIMEOUT && self.instances.iter().any(leaves) {
            self.look()?;
            thread::sleep(Duration::from_millis(10));
        }
        for index in 0..self.instances.len() {
            if leaves(&self.instances[index]) {
                self.overdue(index);
            }
        }
        Ok(())
    }

    /// Kills an instance that did not stop in time.
    pub fn overdue(&mut self, index: usize) {
        let name = &self.names[index];
        let limit = STOP_TIMEOUT.as_secs();
        self.bad_ends
            .push(format!("{name}: did not stop within {limit} s"));
        let _ = self.node(index).kill();
    }
}
