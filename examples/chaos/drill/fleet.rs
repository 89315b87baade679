//! The instances' processes, and the network between them and NATS.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use nats_elect_testing::{Direction, NatsCluster, TcpProxy};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::Problem;
use super::board::Board;
use super::clock::Moment;
use super::fault::Kind;
use super::instance::{Membership, ORDERS, Orders, STOP_TIMEOUT};
use super::plan::{BUCKET, NODES, Plan};
use super::shards::journal_of;

/// All instances. Dropping it kills them.
pub struct Fleet {
    pub names: Vec<String>,
    pub board: Board,
    plan: Plan,
    nodes: Vec<Node>,
    /// Processes that ended on their own, or not as they should.
    pub bad_ends: Vec<String>,
}

/// One instance: its ways to NATS, and its process while it lives.
struct Node {
    /// One for each server.
    proxies: Vec<TcpProxy>,
    processes: u32,
    child: Option<Child>,
    /// It was asked to end.
    leaving: bool,
}

impl Fleet {
    /// The ways to NATS. No instance runs yet.
    pub fn prepare(plan: &Plan, cluster: &NatsCluster) -> Result<Self, Problem> {
        let proxies = || {
            cluster
                .nodes()
                .iter()
                .map(|node| TcpProxy::start(node.url()))
        };
        let node = || -> Result<Node, Problem> {
            Ok(Node {
                proxies: proxies().collect::<Result<_, _>>()?,
                processes: 0,
                child: None,
                leaving: false,
            })
        };
        Ok(Self {
            names: plan.instance_names(),
            board: Board::new(plan),
            plan: plan.clone(),
            nodes: (0..plan.instances)
                .map(|_| node())
                .collect::<Result<_, _>>()?,
            bad_ends: Vec::new(),
        })
    }

    /// Starts a process of an instance, if it has none.
    pub fn start(&mut self, index: usize) -> Result<(), Problem> {
        let (plan, node) = (&self.plan, &mut self.nodes[index]);
        if node.child.is_some() {
            return Ok(());
        }
        node.processes += 1;
        let name = &self.names[index];
        let history = format!("{name}.{:03}.jsonl", node.processes);
        let folders = plan.folders();
        let process = node.processes;
        let shards = plan.shards.as_ref().map(|shards| Membership {
            shards: shards.count,
            ttl: shards.ttls[index],
            journal: journal_of(&folders.journals, name, process),
        });
        let orders = Orders {
            instance: name.clone(),
            process: node.processes,
            servers: node.proxies.iter().map(TcpProxy::url).collect(),
            bucket: BUCKET.to_owned(),
            replicas: NODES,
            roles: plan.roles.clone(),
            shards: shards.clone(),
            history: folders.histories.join(history),
            ledgers: folders.ledgers,
            sabotage: plan.sabotage,
            last_will: plan.last_wills,
            publish: plan.serve.is_some(),
        };
        let log = File::options()
            .create(true)
            .append(true)
            .open(plan.log_of(name))?;
        let child = Command::new(&plan.launch.program)
            .args(&plan.launch.arguments)
            .env(ORDERS, serde_json::to_string(&orders)?)
            // Ctrl-C is for this process. And a group whose parent is gone is woken by the system
            // if it stands still.
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(log)
            // For commands. Its end tells that nobody is left to live for.
            .stdin(Stdio::piped())
            .spawn()?;
        node.child = Some(child);
        node.leaving = false;
        self.board.follow(index, orders.history);
        if let Some(shards) = shards {
            let live = &mut self.board.shards;
            live.follow(index, process, shards.journal)?;
        }
        Ok(())
    }

    /// Whether the instance has a process.
    pub fn runs(&self, index: usize) -> bool {
        self.nodes[index].child.is_some()
    }

    /// Kills an instance as a power cut would, and returns when it is gone.
    pub fn kill(&mut self, index: usize) -> Result<ExitStatus, Problem> {
        let child = self.nodes[index].child.take();
        let mut child = child.ok_or("it does not run")?;
        child.kill()?;
        Ok(child.wait()?)
    }

    /// Lets an instance stand still, and returns when it does.
    pub fn pause(&self, index: usize) -> Result<(), Problem> {
        let pid = self.pid(index)?;
        kill_process(pid, Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options)?;
        Ok(())
    }

    /// Lets it go on.
    pub fn resume(&self, index: usize) -> Result<(), Problem> {
        Ok(kill_process(self.pid(index)?, Signal::CONT)?)
    }

    /// Asks an instance to stop.
    pub fn terminate(&mut self, index: usize) -> Result<(), Problem> {
        kill_process(self.pid(index)?, Signal::TERM)?;
        self.nodes[index].leaving = true;
        Ok(())
    }

    /// Asks an instance to step down from a role.
    pub fn step_down(&mut self, index: usize, role: &str) -> Result<(), Problem> {
        let child = self.nodes[index].child.as_mut();
        let stdin = child.and_then(|child| child.stdin.as_mut());
        Ok(writeln!(stdin.ok_or("it does not run")?, "{role}")?)
    }

    /// Does that to the network of an instance.
    pub fn disturb(&self, index: usize, kind: Kind, lasts: Duration) {
        for proxy in &self.nodes[index].proxies {
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

    /// Lets everything through again, also what was sent meanwhile.
    pub fn restore(&self, index: usize) {
        self.nodes[index].proxies.iter().for_each(TcpProxy::restore);
    }

    /// Reads the histories, and notes whose process has ended.
    pub fn look(&mut self) -> Result<(), Problem> {
        self.board.read();
        self.board.shards.read()?;
        for (node, name) in self.nodes.iter_mut().zip(&self.names) {
            let ended = node.child.as_mut().map(Child::try_wait);
            let Some(Ok(Some(status))) = ended else {
                continue;
            };
            node.child = None;
            if !(node.leaving && status.success()) {
                let log = fs::read_to_string(self.plan.log_of(name)).unwrap_or_default();
                let words = log.trim_end().lines().last().unwrap_or_default();
                let process = node.processes;
                let bad =
                    format!("{name}, process {process}: ended with {status}, last words: {words}");
                self.bad_ends.push(bad);
            }
        }
        Ok(())
    }

    /// Waits for the ends of those that were asked to stop, and kills those that do not.
    pub fn wait_for_ends(&mut self, asked: Moment) -> Result<(), Problem> {
        let leaves = |node: &Node| node.child.is_some() && node.leaving;
        while Moment::now().since(asked) < STOP_TIMEOUT && self.nodes.iter().any(leaves) {
            self.look()?;
            thread::sleep(Duration::from_millis(10));
        }
        for index in 0..self.nodes.len() {
            if leaves(&self.nodes[index]) {
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
        let _ = self.kill(index);
    }

    fn pid(&self, index: usize) -> io::Result<Pid> {
        let child = self.nodes[index].child.as_ref();
        child
            .map(Pid::from_child)
            .ok_or_else(|| io::Error::other("it does not run"))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
