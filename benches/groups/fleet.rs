//! The members and their server, as the driver sees them.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nats_elect_testing::{NatsCluster, NatsServer};

use crate::clock::Moment;
use crate::member::{Event, Orders};

pub type Problem = Box<dyn std::error::Error>;

/// How long to wait for anything.
const PATIENCE: Duration = Duration::from_secs(120);
/// Nothing moves any more if nothing moved for a lease and so long: a member that joins waits for a
/// lease before it takes anything, and the planner pauses between two rounds.
const CALM: Duration = Duration::from_secs(11);
/// Ticks of CPU time a second.
const TICKS: f64 = 100.0;

/// One server, or a cluster with a copy of the bucket on each node.
enum Servers {
    One(NatsServer),
    Cluster(NatsCluster),
}

impl Servers {
    fn nodes(&self) -> &[NatsServer] {
        match self {
            Self::One(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => cluster.nodes(),
        }
    }

    fn urls(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => cluster.urls(),
        }
    }
}

pub struct Fleet {
    servers: Servers,
    shards: u32,
    ttl: Duration,
    members: BTreeMap<usize, Child>,
    born: usize,
    tell: mpsc::Sender<(usize, Event)>,
    told: mpsc::Receiver<(usize, Event)>,
    /// The member that acts on each shard, and since when.
    owners: BTreeMap<u32, (usize, Moment)>,
    /// When the handler of each shard ended, if none runs.
    ended: BTreeMap<u32, Moment>,
    first: Option<Moment>,
    /// From the end of a handler to the start of the next one, of the moves since the last look.
    gaps: Vec<Duration>,
}

pub struct Idle {
    pub messages: f64,
    pub mean_cpu: f64,
    pub most_cpu: f64,
    pub server_cpu: f64,
    pub memory: f64,
}

pub struct Joined {
    pub bytes: f64,
    pub moves: usize,
}

/// How shards changed hands.
pub struct Moves {
    /// From the order until all shards had an owner again.
    whole: Duration,
    gaps: Vec<Duration>,
    bytes: f64,
}

impl Fleet {
    pub fn start(
        shards: u32,
        members: usize,
        ttl: Duration,
        replicas: usize,
    ) -> Result<Self, Problem> {
        let (tell, told) = mpsc::channel();
        let servers = if replicas == 1 {
            Servers::One(NatsServer::start()?)
        } else {
            Servers::Cluster(NatsCluster::start(replicas)?)
        };
        let mut fleet = Self {
            servers,
            shards,
            ttl,
            members: BTreeMap::new(),
            born: 0,
            tell,
            told,
            owners: BTreeMap::new(),
            ended: BTreeMap::new(),
            first: None,
            gaps: Vec::new(),
        };
        for _ in 0..members {
            fleet.spawn()?;
        }
        Ok(fleet)
    }

    pub fn version(&self) -> String {
        let nodes = self.servers.nodes();
        let (major, minor, patch) = nodes[0].version();
        format!(
            "nats-server {major}.{minor}.{patch}, {} replicas",
            nodes.len()
        )
    }

    fn spawn(&mut self) -> Result<usize, Problem> {
        let number = self.born;
        self.born += 1;
        let orders = Orders {
            servers: self.servers.urls(),
            replicas: self.servers.nodes().len(),
            name: format!("member-{number}"),
            shards: self.shards,
            ttl: self.ttl,
        };
        let (name, value) = orders.variable();
        let mut child = Command::new(std::env::current_exe()?)
            .env(name, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let tell = self.tell.clone();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Ok(event) = serde_json::from_str(&line) {
                    let _ = tell.send((number, event));
                }
            }
        });
        self.members.insert(number, child);
        Ok(number)
    }

    fn take(&mut self, number: usize, event: Event) {
        match event {
            Event::Started { shard, at } => {
                self.first.get_or_insert(at);
                if let Some(ended) = self.ended.remove(&shard) {
                    self.gaps.push(at.since(ended));
                }
                self.owners.insert(shard, (number, at));
            }
            Event::Ended { shard, at } => {
                if self
                    .owners
                    .get(&shard)
                    .is_some_and(|(owner, _)| *owner == number)
                {
                    self.owners.remove(&shard);
                    self.ended.insert(shard, at);
                }
            }
        }
    }

    /// Waits until each shard has an owner. Returns the time since the first start of a handler.
    pub fn wait_until_owned(&mut self) -> Result<Duration, Problem> {
        let begun = Moment::now();
        while self.owners.len() < self.shards as usize {
            let (number, event) = self.told.recv_timeout(left(begun)).map_err(|_| {
                format!(
                    "{} of {} shards have an owner",
                    self.owners.len(),
                    self.shards
                )
            })?;
            self.take(number, event);
        }
        let last = self.owners.values().map(|(_, at)| *at).max();
        let (first, last) = self.first.zip(last).ok_or("no shard")?;
        Ok(last.since(first))
    }

    /// Waits until nothing moves any more.
    pub fn settle(&mut self) -> Result<usize, Problem> {
        let mut moves = 0;
        let begun = Moment::now();
        loop {
            match self.told.recv_timeout(self.ttl + CALM) {
                Ok((number, event)) => {
                    moves += usize::from(matches!(event, Event::Started { .. }));
                    self.take(number, event);
                }
                Err(_) if self.owners.len() == self.shards as usize => return Ok(moves),
                Err(_) if left(begun).is_zero() => return Err("shards without an owner".into()),
                Err(_) => {}
            }
        }
    }

    pub fn shares(&self) -> Vec<usize> {
        let of = |number: &usize| {
            let owners = self.owners.values();
            owners.filter(|(owner, _)| owner == number).count()
        };
        self.members.keys().map(of).collect()
    }

    pub fn idle(&mut self, time: Duration) -> Result<Idle, Problem> {
        let (before, messages, begun) = (self.cpu()?, self.varz("in_msgs")?, Moment::now());
        thread::sleep(time);
        let (after, seconds) = (self.cpu()?, Moment::now().since(begun).as_secs_f64());
        let used: Vec<f64> = before
            .iter()
            .zip(&after)
            .map(|(before, after)| (after - before) / TICKS / seconds * 100.0)
            .collect();
        let (servers, members) = used.split_at(self.servers.nodes().len());
        let memory: Result<Vec<f64>, Problem> = self
            .members
            .values()
            .map(|member| memory(member.id()))
            .collect();
        let count = float(members.len());
        Ok(Idle {
            messages: (self.varz("in_msgs")? - messages) / seconds,
            mean_cpu: members.iter().sum::<f64>() / count,
            most_cpu: members.iter().copied().fold(0.0, f64::max),
            server_cpu: servers.iter().sum(),
            memory: memory?.iter().sum::<f64>() / count,
        })
    }

    pub fn join(&mut self) -> Result<Joined, Problem> {
        let bytes = self.varz("out_bytes")?;
        self.spawn()?;
        let moves = self.settle()?;
        Ok(Joined {
            bytes: self.varz("out_bytes")? - bytes,
            moves,
        })
    }

    pub fn leave(&mut self) -> Result<Moves, Problem> {
        self.lose(|child| {
            drop(child.stdin.take());
            Ok(())
        })
    }

    pub fn kill(&mut self) -> Result<Moves, Problem> {
        self.lose(|child| Ok(child.kill()?))
    }

    /// Ends the member that has the most shards.
    fn lose(
        &mut self,
        end: impl FnOnce(&mut Child) -> Result<(), Problem>,
    ) -> Result<Moves, Problem> {
        let mut count = BTreeMap::new();
        for (owner, _) in self.owners.values() {
            *count.entry(*owner).or_insert(0_usize) += 1;
        }
        let (number, _) = count
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .ok_or("no owner")?;
        let bytes = self.varz("out_bytes")?;
        self.gaps.clear();
        let mut child = self.members.remove(&number).ok_or("no member")?;
        let begun = Moment::now();
        end(&mut child)?;
        // What a dead process had has no owner, and what one that stops has will have none.
        let mut without: Vec<u32> = self
            .owners
            .iter()
            .filter(|(_, (owner, _))| *owner == number)
            .map(|(shard, _)| *shard)
            .collect();
        while !without.is_empty() {
            let told = self.told.recv_timeout(left(begun));
            let (from, event) =
                told.map_err(|_| format!("{} shards have no owner", without.len()))?;
            if let Event::Started { shard, at } = event
                && from != number
            {
                without.retain(|it| *it != shard);
                if !self.ended.contains_key(&shard) {
                    self.gaps.push(at.since(begun));
                }
            }
            self.take(from, event);
        }
        let last = self.owners.values().map(|(_, at)| *at).max();
        let whole = last.ok_or("no shard")?.since(begun);
        child.wait()?;
        let bytes = self.varz("out_bytes")? - bytes;
        self.settle()?;
        let mut gaps = std::mem::take(&mut self.gaps);
        gaps.sort_unstable();
        Ok(Moves { whole, gaps, bytes })
    }

    /// The CPU time in ticks of the servers, and of each member.
    fn cpu(&self) -> Result<Vec<f64>, Problem> {
        let servers = self.servers.nodes().iter().filter_map(NatsServer::pid);
        let members = self.members.values().map(Child::id);
        servers.chain(members).map(cpu).collect()
    }

    /// The sum of a count over all servers. In a cluster it has what they send each other.
    fn varz(&self, field: &str) -> Result<f64, Problem> {
        let nodes = self.servers.nodes().iter();
        nodes.map(|node| varz(node, field)).sum()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.members.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn varz(node: &NatsServer, field: &str) -> Result<f64, Problem> {
    let address = node.monitor_url().replace("http://", "");
    let mut stream = TcpStream::connect(&address)?;
    write!(stream, "GET /varz HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    let (_, body) = page.split_once("\r\n\r\n").ok_or("no page")?;
    let page: serde_json::Value = serde_json::from_str(body)?;
    Ok(page[field].as_f64().ok_or("no count")?)
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The time that is left of [`PATIENCE`].
fn left(begun: Moment) -> Duration {
    PATIENCE.saturating_sub(Moment::now().since(begun))
}

fn cpu(pid: u32) -> Result<f64, Problem> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no stat")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Ok(fields[11].parse::<f64>()? + fields[12].parse::<f64>()?)
}

/// The resident memory of a process, in MiB.
fn memory(pid: u32) -> Result<f64, Problem> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    Ok(kib.ok_or("no memory")?.parse::<f64>()? / 1024.0)
}

impl fmt::Display for Moves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let most = self.gaps.len().saturating_sub(1);
        let at = |percent: usize| {
            let gap = self.gaps.get(most * percent / 100);
            gap.copied().map_or(f64::NAN, ms)
        };
        write!(
            f,
            "{} moves, all owned after {:.0} ms; without an owner: median {:.1} ms, p99 {:.1} ms, most {:.1} ms; {:.1} KiB delivered for each",
            self.gaps.len(),
            ms(self.whole),
            at(50),
            at(99),
            at(100),
            self.bytes / 1024.0 / float(self.gaps.len().max(1))
        )
    }
}
