//! Who makes things go wrong.

use std::time::Duration;

use nats_elect_testing::{NatsCluster, TcpProxy};
use rustix::process::Signal;

use super::admin::{Admin, Deed, stream};
use super::disk;
use super::fault::{Fault, Kind, Outcome, Subject};
use super::fleet::Fleet;
use super::instance::STOP_TIMEOUT;
use super::plan::{NODES, Plan};
use super::schedule::{Aim, Planned};
use super::shards::GROUP;
use super::{Problem, say, seconds};
use ::drill::Moment;

/// When to try again what could not be done.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// Carries out a schedule, and keeps a record of it.
pub struct Nemesis<'a> {
    plan: &'a Plan,
    cluster: &'a mut NatsCluster,
    fleet: &'a mut Fleet,
    admin: Admin,
    begun: Moment,
    /// Faults that are to be undone.
    active: Vec<Active>,
    past: Vec<Fault>,
}

struct Active {
    fault: Fault,
    victim: Victim,
    /// Since the begin.
    until: Duration,
}

/// What a fault hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Instance(usize),
    Role(usize),
    Shard(u32),
    Group,
    Node(usize),
    AllNodes,
    Stream,
}

impl<'a> Nemesis<'a> {
    pub fn new(
        plan: &'a Plan,
        cluster: &'a mut NatsCluster,
        fleet: &'a mut Fleet,
        begun: Moment,
    ) -> Result<Self, Problem> {
        Ok(Self {
            plan,
            cluster,
            fleet,
            admin: Admin::new()?,
            begun,
            active: Vec::new(),
            past: Vec::new(),
        })
    }

    /// Goes through the schedule until the plan's end, or until `enough` says so; then undoes
    /// everything and waits until NATS is well. Returns what was done.
    pub fn run(
        mut self,
        schedule: Vec<Planned>,
        enough: impl Fn() -> bool,
    ) -> Result<Vec<Fault>, Problem> {
        let (mut servers, mut others): (Vec<_>, Vec<_>) = schedule
            .into_iter()
            .rev()
            .partition(|planned| planned.kind.subject() == Subject::Server);
        // What could not be done in time is tried on. Not so for nodes of NATS, which may have
        // queued up.
        while (self.elapsed() < self.plan.length || !others.is_empty()) && !enough() {
            self.fleet.look()?;
            self.undo_due(self.elapsed())?;
            let due = |planned: &mut Planned, elapsed| planned.at <= elapsed;
            let elapsed = self.elapsed();
            if let Some(planned) = others.pop_if(|planned| due(planned, elapsed))
                && !self.inject(&planned)
            {
                let again = planned.again(self.elapsed() + TRY_AGAIN);
                let place = others.partition_point(|other| other.at > again.at);
                others.insert(place, again);
            }
            // Not before the cluster bears it: the schedule waits.
            let calm = || self.has_whole_cluster();
            if elapsed >= self.plan.length {
                servers.clear();
            }
            if let Some(planned) = servers.pop_if(|planned| due(planned, elapsed) && calm())
                && !self.inject(&planned)
            {
                servers.push(planned.again(self.elapsed() + TRY_AGAIN));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        self.heal()?;
        Ok(self.past)
    }

    fn elapsed(&self) -> Duration {
        Moment::now().since(self.begun)
    }

    fn has_whole_cluster(&self) -> bool {
        let hurt = |active: &Active| active.fault.kind.subject() == Subject::Server;
        !self.active.iter().any(hurt)
            && self.cluster.is_ready()
            && self.cluster.stream_leader(&stream()).is_some()
    }

    /// Does it, unless it can't be done now and is to be tried again.
    fn inject(&mut self, planned: &Planned) -> bool {
        let from = Moment::now();
        let (victim, outcome) = match self.choose(planned.kind, planned.aim) {
            Ok(victim) => (Some(victim), self.hit(planned, victim)),
            Err(reason) => (None, Err(reason.into())),
        };
        let outcome = match outcome {
            Ok(()) => Outcome::Done,
            Err(_) if planned.tries > 1 => return false,
            Err(problem) => Outcome::Missed(problem.to_string()),
        };
        let fault = Fault {
            kind: planned.kind,
            target: victim.map(|victim| self.name(victim)).unwrap_or_default(),
            from,
            until: from,
            outcome,
        };
        self.tell(&fault, planned.lasts);
        match victim {
            Some(victim) if fault.is_done() && planned.lasts > Duration::ZERO => {
                self.active.push(Active {
                    fault,
                    victim,
                    until: self.elapsed() + planned.lasts,
                });
            }
            // As long as it takes to be noticed.
            _ => self.past.push(Fault {
                until: Moment::now(),
                ..fault
            }),
        }
        true
    }

    fn tell(&self, fault: &Fault, lasts: Duration) {
        let what = match (&fault.outcome, lasts) {
            (Outcome::Missed(why), _) => format!("missed: {why}"),
            (Outcome::Done, Duration::ZERO) => String::new(),
            (Outcome::Done, lasts) => format!("for {}", seconds(lasts)),
        };
        let elapsed = seconds(fault.from.since(self.begun));
        let leaders = self.fleet.board.describe(&self.fleet.names);
        let (kind, target) = (fault.kind, &fault.target);
        say(&format!(
            "{elapsed:>8}  {kind:<18} {target:<10} {what:<12} | {leaders}"
        ));
    }

    fn name(&self, victim: Victim) -> String {
        match victim {
            Victim::Instance(index) => self.fleet.names[index].clone(),
            Victim::Role(index) => self.plan.roles[index].name.clone(),
            Victim::Shard(shard) => format!("shard {shard}"),
            Victim::Group => GROUP.to_owned(),
            Victim::Node(index) => format!("nats-{}", index + 1),
            Victim::AllNodes => "all".to_owned(),
            Victim::Stream => "stream".to_owned(),
        }
    }

    fn choose(&self, kind: Kind, aim: Aim) -> Result<Victim, &'static str> {
        match kind.subject() {
            Subject::Role => Ok(Victim::Role(aim.role)),
            Subject::Group if kind == Kind::PurgeGroup => Ok(Victim::Group),
            Subject::Group => Ok(Victim::Shard(aim.shard)),
            Subject::Stream => Ok(Victim::Stream),
            Subject::Process | Subject::Network => self.choose_instance(kind, aim),
            Subject::Server if matches!(kind, Kind::RestartAll | Kind::FullDisk) => {
                Ok(Victim::AllNodes)
            }
            Subject::Server if kind == Kind::FullAccount => Ok(Victim::Stream),
            // Who opens the new one alone waits for no lease of the former one: docs/guarantees.md.
            Subject::Server if kind == Kind::RecreateBucket => {
                let all = self.fleet.all_know_the_bucket().then_some(Victim::Stream);
                all.ok_or("an instance has not opened the bucket yet")
            }
            Subject::Server => {
                let leader = || self.cluster.stream_leader(&stream());
                let node = match kind {
                    Kind::KillStreamLeader => leader().ok_or("the stream has no leader")?,
                    _ if aim.at_leader => leader().unwrap_or(aim.node),
                    _ => aim.node,
                };
                Ok(Victim::Node(node))
            }
        }
    }

    /// The one aimed at, or the next one that nothing of that sort is done to. Two are always left
    /// alone, or one of three, so that there is somebody who can lead.
    fn choose_instance(&self, kind: Kind, aim: Aim) -> Result<Victim, &'static str> {
        let count = self.plan.instances;
        let suffers = |index: usize| {
            let victim = Victim::Instance(index);
            self.active.iter().any(|active| active.victim == victim)
        };
        let suffering = (0..count).filter(|index| suffers(*index)).count();
        let has_room = suffering + count.div_ceil(3).min(2) < count;
        let same = |index: usize| {
            let victim = Victim::Instance(index);
            let mut same = self.active.iter().filter(|active| active.victim == victim);
            same.any(|active| active.fault.kind.subject() == kind.subject())
        };
        let leader = self.fleet.board.last_leader(aim.role);
        let first = leader.filter(|_| aim.at_leader).unwrap_or(aim.instance);
        (first..first + count)
            .map(|index| index % count)
            .find(|index| self.fleet.runs(*index) && !same(*index) && (suffers(*index) || has_room))
            .map(Victim::Instance)
            .ok_or("too many instances suffer already")
    }

    fn hit(&mut self, planned: &Planned, victim: Victim) -> Result<(), Problem> {
        match (planned.kind, victim) {
            (Kind::Kill, Victim::Instance(index)) => {
                self.fleet.node(index).kill()?;
            }
            (Kind::PauseShort | Kind::PauseLong, Victim::Instance(index)) => {
                self.fleet.node(index).pause()?;
            }
            (Kind::Restart, Victim::Instance(index)) => self.fleet.terminate(index)?,
            (kind, Victim::Instance(index)) => self.fleet.disturb(index, kind, planned.lasts),
            (Kind::StepDown, Victim::Role(index)) => {
                let leader = self.fleet.board.leader(index).ok_or("nobody leads it")?;
                let role = &self.plan.roles[index].name;
                self.fleet.node(leader).order(role)?;
            }
            (kind, Victim::Role(index)) => {
                let role = self.plan.roles[index].name.as_str();
                self.admin.act(
                    &self.living_node()?,
                    match kind {
                        Kind::DeleteKey => Deed::DeleteKey(role),
                        Kind::PurgeKey => Deed::PurgeKey(role),
                        _ => Deed::ForeignRecord(role),
                    },
                )?;
            }
            (kind, Victim::Shard(shard)) => self.hit_shard(kind, shard)?,
            (_, Victim::Group) => {
                self.admin
                    .act(&self.living_node()?, Deed::PurgeKey(&map_key()))?;
            }
            (kind, Victim::Stream) => {
                let deed = match kind {
                    Kind::FullAccount => Deed::FillAccount,
                    Kind::RecreateBucket => Deed::DeleteBucket,
                    _ => Deed::MoveStream,
                };
                self.admin.act(&self.living_node()?, deed)?;
            }
            (kind, Victim::Node(index)) => {
                let node = self.cluster.node_mut(index);
                match kind {
                    Kind::PauseServer => node.pause()?,
                    Kind::RestartServer => node.terminate()?,
                    Kind::LameDuck => node.lame_duck()?,
                    _ => node.kill(),
                }
            }
            (Kind::FullDisk, Victim::AllNodes) => disk::fill()?,
            (_, Victim::AllNodes) => self.terminate_all()?,
        }
        Ok(())
    }

    fn terminate_all(&mut self) -> Result<(), Problem> {
        for index in 0..NODES {
            self.cluster.node_mut(index).terminate()?;
        }
        Ok(())
    }

    fn hit_shard(&self, kind: Kind, shard: u32) -> Result<(), Problem> {
        let (node, key) = (self.living_node()?, map_key());
        let member = || -> Result<String, Problem> {
            let map = self.admin.read(&node, &key)?;
            let members = map["members"].as_array().ok_or("there is no map")?;
            let members: Vec<_> = members.iter().filter_map(|it| it.as_str()).collect();
            let some = members.get(shard as usize % members.len().max(1));
            let epoch = some.ok_or("the map has no members")?;
            Ok(format!("_groups.{GROUP}.member.{epoch}"))
        };
        match kind {
            Kind::DeleteUnit => self.admin.act(&node, Deed::DeleteKey(&key)),
            Kind::PurgeUnit => self.admin.act(&node, Deed::PurgeKey(&key)),
            Kind::PurgeMember => self.admin.act(&node, Deed::PurgeKey(&member()?)),
            Kind::ForeignMember => self.admin.act(&node, Deed::ForeignRecord(&member()?)),
            _ => self.admin.act(&node, Deed::Copy(&key, &key)),
        }
    }

    /// The address of a node that no fault has hit.
    fn living_node(&self) -> Result<String, Problem> {
        let hit = |index| {
            let mut victims = self.active.iter().map(|active| active.victim);
            victims.any(|victim| victim == Victim::Node(index) || victim == Victim::AllNodes)
        };
        let living = (0..NODES).find(|index| !hit(*index));
        let living = living.ok_or("all NATS nodes are down")?;
        Ok(self.cluster.node(living).url())
    }

    /// Undoes what has lasted until then.
    fn undo_due(&mut self, elapsed: Duration) -> Result<(), Problem> {
        let is_due = |active: &mut Active| active.until <= elapsed;
        let due: Vec<_> = self.active.extract_if(.., is_due).collect();
        for active in due {
            if self.undo(&active)? {
                let until = Moment::now();
                self.past.push(Fault {
                    until,
                    ..active.fault
                });
            } else {
                self.active.push(active);
            }
        }
        Ok(())
    }

    /// Undoes a fault, unless it is too early for that.
    fn undo(&mut self, active: &Active) -> Result<bool, Problem> {
        match (active.fault.kind, active.victim) {
            (Kind::Restart | Kind::Kill, _) if self.bucket_is_young() => return Ok(false),
            (Kind::PauseShort | Kind::PauseLong, Victim::Instance(index)) => {
                // If it has ended meanwhile, the fleet notes that.
                let _ = self.fleet.node(index).signal(Signal::CONT);
            }
            (Kind::Restart, Victim::Instance(index)) => {
                if self.fleet.runs(index) {
                    if Moment::now().since(active.fault.from) < STOP_TIMEOUT {
                        return Ok(false);
                    }
                    self.fleet.overdue(index);
                }
                self.fleet.start(index)?;
            }
            (Kind::Kill, Victim::Instance(index)) => self.fleet.start(index)?,
            (_, Victim::Instance(index)) => {
                let proxies = &self.fleet.node(index).proxies;
                proxies.iter().for_each(TcpProxy::restore);
            }
            (Kind::PauseServer, Victim::Node(index)) => self.cluster.node(index).resume()?,
            (_, Victim::Node(index)) => self.cluster.node_mut(index).restart()?,
            (kind, Victim::AllNodes) => {
                if kind == Kind::FullDisk {
                    disk::free()?;
                    self.terminate_all()?;
                }
                for index in 0..NODES {
                    self.cluster.node_mut(index).restart()?;
                }
            }
            (Kind::FullAccount, _) => {
                let node = self.living_node()?;
                return Ok(self.admin.act(&node, Deed::FreeAccount).is_ok());
            }
            (_, Victim::Role(_) | Victim::Shard(_) | Victim::Group | Victim::Stream) => {}
        }
        Ok(true)
    }

    /// Whether a lease on the former bucket may last. A process that never saw that bucket does not
    /// wait for it: docs/guarantees.md promises nothing then.
    fn bucket_is_young(&self) -> bool {
        let shards = self.plan.shards.iter().flat_map(|shards| &shards.ttls);
        let ttls = shards.chain(self.plan.roles.iter().map(|role| &role.ttl));
        let longest = ttls.max().copied().unwrap_or_default();
        let mut past = self.past.iter();
        let last = past.rfind(|it| it.kind == Kind::RecreateBucket && it.is_done());
        last.is_some_and(|it| Moment::now().since(it.until) < longest)
    }

    fn heal(&mut self) -> Result<(), Problem> {
        while !self.active.is_empty() {
            self.undo_due(Duration::MAX)?;
            self.fleet.look()?;
            std::thread::sleep(Duration::from_millis(10));
        }
        for index in 0..self.plan.instances {
            // Those that ended on their own: the verdict speaks of them, and the rest goes on.
            self.fleet.start(index)?;
        }
        self.cluster.wait_until_ready()?;
        Ok(())
    }
}

/// The key of the group's map.
fn map_key() -> String {
    format!("_groups.{GROUP}.map")
}
