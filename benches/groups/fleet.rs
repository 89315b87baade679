//! The members and their servers, as the driver sees them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use drill::Moment;
use drill::driven::Driven;
use nats_elect_testing::{NatsCluster, NatsServer};

use crate::member::{Event, Order, Orders};
use crate::readings::{self, Client, float};
use drill::Sample;

pub use drill::Problem;

/// How long to wait for anything.
const PATIENCE: Duration = Duration::from_secs(300);
/// Nothing moves any more if nothing moved for so long: two plans are a heartbeat apart, or a little more.
const CALM: Duration = Duration::from_secs(12);

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
    pub members: Driven<Event>,
    /// The member that acts on each shard, and since when.
    owners: BTreeMap<u32, (usize, Moment)>,
    /// When the handler of each shard ended, if none runs.
    ended: BTreeMap<u32, Moment>,
    joined: BTreeSet<usize>,
    coordinator: Option<String>,
    heap: Option<usize>,
    first: Option<Moment>,
    watched: Watched,
}

/// What changed hands since the last look.
#[derive(Default)]
pub struct Watched {
    /// How often each shard got another owner.
    pub moves: BTreeMap<u32, usize>,
    /// From the end of a handler to the start of the next one.
    pub gaps: Sample,
}

/// The traffic of each server's clients, and when it was read.
pub struct Traffic {
    pub at: Moment,
    clients: Vec<BTreeMap<u64, Client>>,
}

impl Traffic {
    /// Of those that are connected still.
    pub fn since(&self, before: &Self) -> Client {
        self.sum_since(before, |_| true)
    }

    /// Of those that have come since.
    pub fn of_new_since(&self, before: &Self) -> Client {
        self.sum_since(before, |was| was.is_none())
    }

    fn sum_since(&self, before: &Self, counts: impl Fn(Option<&Client>) -> bool) -> Client {
        let mut sum = Client::default();
        for (now, before) in self.clients.iter().zip(&before.clients) {
            for (id, client) in now.iter().filter(|(id, _)| counts(before.get(id))) {
                let was = before.get(id).copied().unwrap_or_default();
                sum.messages += client.messages - was.messages;
                sum.bytes += client.bytes - was.bytes;
            }
        }
        sum
    }
}

impl Fleet {
    pub fn start(
        shards: u32,
        members: usize,
        ttl: Duration,
        replicas: usize,
    ) -> Result<Self, Problem> {
        let servers = if replicas == 1 {
            Servers::One(NatsServer::start()?)
        } else {
            Servers::Cluster(NatsCluster::start(replicas)?)
        };
        let mut fleet = Self {
            servers,
            shards,
            ttl,
            members: Driven::default(),
            owners: BTreeMap::new(),
            ended: BTreeMap::new(),
            joined: BTreeSet::new(),
            coordinator: None,
            heap: None,
            first: None,
            watched: Watched::default(),
        };
        for _ in 0..members {
            fleet.spawn(false)?;
        }
        Ok(fleet)
    }

    pub fn version(&self) -> String {
        let (major, minor, patch) = self.nodes()[0].version();
        format!("{major}.{minor}.{patch}")
    }

    pub fn nodes(&self) -> &[NatsServer] {
        self.servers.nodes()
    }

    /// Starts one more member, which may have a last will.
    pub fn spawn(&mut self, has_will: bool) -> Result<usize, Problem> {
        let orders = Orders {
            servers: self.servers.urls(),
            replicas: self.nodes().len(),
            name: name(self.members.born()),
            shards: self.shards,
            ttl: self.ttl,
            has_will,
        };
        self.members.start(&orders)
    }

    /// How many shards there are.
    pub const fn shards(&self) -> usize {
        self.shards as usize
    }

    /// The process ids of the servers.
    pub fn servers(&self) -> Vec<u32> {
        self.nodes().iter().filter_map(NatsServer::pid).collect()
    }

    fn take(&mut self, number: usize, event: Event) {
        match event {
            Event::Started { shard, at } => {
                self.first.get_or_insert(at);
                let from = self.owners.insert(shard, (number, at));
                if let Some(ended) = self.ended.remove(&shard) {
                    self.watched.gaps.add(at.since(ended));
                }
                let is_move = from.is_none_or(|(owner, _)| owner != number);
                *self.watched.moves.entry(shard).or_default() += usize::from(is_move);
            }
            Event::Ended { shard, at } => {
                let owner = self.owners.get(&shard);
                if owner.is_some_and(|(owner, _)| *owner == number) {
                    self.owners.remove(&shard);
                    self.ended.insert(shard, at);
                }
            }
            Event::Joined => drop(self.joined.insert(number)),
            Event::Coordinator(coordinator) => self.coordinator = coordinator,
            Event::Heap(bytes) => self.heap = Some(bytes),
        }
    }

    /// Takes what members tell until that is so.
    fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) -> Result<(), Problem> {
        let begun = Moment::now();
        while !so(self) {
            let left = PATIENCE.saturating_sub(Moment::now().since(begun));
            let told = self.members.next(left);
            let (number, event) = told.map_err(|_| format!("waited in vain: {what}"))?;
            self.take(number, event);
        }
        Ok(())
    }

    pub fn until_owned(&mut self) -> Result<(), Problem> {
        self.until("each shard has an owner", |it| {
            it.owners.len() == it.shards()
        })
    }

    pub fn until_joined(&mut self, number: usize) -> Result<(), Problem> {
        self.until("the member has joined", |it| it.joined.contains(&number))
    }

    /// Waits until others have all shards of that member.
    pub fn until_others_own_all(&mut self, number: usize) -> Result<(), Problem> {
        self.until("others own all shards", |it| {
            it.owners.len() == it.shards() && it.shards_of(number).is_empty()
        })
    }

    /// Waits until nothing moves any more.
    pub fn settle(&mut self) -> Result<(), Problem> {
        let begun = Moment::now();
        loop {
            match self.members.next(CALM) {
                Ok((number, event)) => self.take(number, event),
                Err(_) if self.owners.len() == self.shards() => return Ok(()),
                Err(_) if Moment::now().since(begun) > PATIENCE => {
                    return Err("shards without an owner".into());
                }
                Err(_) => {}
            }
        }
    }

    /// When the first handler of all started, and when the last one of those that run.
    pub fn starts(&self) -> Result<(Moment, Moment), Problem> {
        let last = self.owners.values().map(|(_, at)| *at).max();
        Ok(self.first.zip(last).ok_or("no shard")?)
    }

    pub fn shards_of(&self, number: usize) -> Vec<u32> {
        let owned = self.owners.iter();
        let owned = owned.filter(|(_, (owner, _))| *owner == number);
        owned.map(|(shard, _)| *shard).collect()
    }

    /// How many shards each member has.
    pub fn shares(&self) -> Vec<usize> {
        let members = self.members.numbers();
        members.map(|number| self.shards_of(number).len()).collect()
    }

    /// The member that has the most shards, with their number.
    pub fn fullest(&self) -> Result<(usize, usize), Problem> {
        let shares = self.members.numbers().zip(self.shares());
        let fullest = shares.max_by_key(|(_, share)| *share);
        Ok(fullest.ok_or("no member")?)
    }

    /// The member that plans, with the number of its shards.
    pub fn coordinator(&mut self) -> Result<(usize, usize), Problem> {
        let asked = self.members.numbers().next().ok_or("no member")?;
        self.coordinator = None;
        self.members.order(asked, &Order::TellCoordinator)?;
        self.until("a member tells who coordinates", |it| {
            it.coordinator.is_some()
        })?;
        let plans = |number: &usize| self.coordinator.as_deref() == Some(&name(*number));
        let number = self.members.numbers().find(plans).ok_or("no coordinator")?;
        Ok((number, self.shards_of(number).len()))
    }

    /// The KiB of a member's heap that are in use.
    pub fn heap(&mut self, number: usize) -> Result<f64, Problem> {
        self.heap = None;
        self.members.order(number, &Order::TellHeap)?;
        self.until("a member tells of its heap", |it| it.heap.is_some())?;
        Ok(float(self.heap.unwrap_or_default()) / 1024.0)
    }

    /// The same of each member.
    pub fn heaps(&mut self) -> Result<Vec<f64>, Problem> {
        let members: Vec<usize> = self.members.numbers().collect();
        let heaps = members.into_iter().map(|number| self.heap(number));
        heaps.collect()
    }

    /// Kills a member. What it had has no owner from now on.
    pub fn kill(&mut self, number: usize) -> Result<(), Problem> {
        let at = Moment::now();
        self.members.kill(number)?;
        for shard in self.shards_of(number) {
            self.take(number, Event::Ended { shard, at });
        }
        Ok(())
    }

    /// What changed hands since the last call.
    pub fn watched(&mut self) -> Watched {
        std::mem::take(&mut self.watched)
    }

    /// The traffic of all clients, without that between servers.
    pub fn traffic(&self) -> Result<Traffic, Problem> {
        let clients = self.nodes().iter().map(readings::clients);
        Ok(Traffic {
            at: Moment::now(),
            clients: clients.collect::<Result<_, _>>()?,
        })
    }
}

fn name(number: usize) -> String {
    format!("member-{number}")
}
