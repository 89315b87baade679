//! What happens to a fleet, and what is measured of it.

use std::thread;
use std::time::Duration;

use crate::Args;
use crate::fleet::{Fleet, Problem, Traffic, Watched};
use crate::member::Order;
use crate::readings::float;
use drill::Moment;
use drill::Sample;
use drill::usage::{cpu, memory};

/// What one fleet with one number of shards showed.
pub struct Figures {
    pub shards: u32,
    pub replicas: usize,
    pub version: String,
    pub start: Start,
    pub idle: Idle,
    pub join: Join,
    pub leave: Moves,
    pub drain: Moves,
    pub kill: Moves,
    pub kill_coordinator: Moves,
    pub kill_with_will: Moves,
}

pub struct Start {
    /// From the last member's start to the last handler's.
    pub whole: Duration,
    /// From the first handler's start to the last one's.
    pub spread: Duration,
    pub shares: Vec<usize>,
}

pub struct Idle {
    /// Messages that clients send, a second.
    pub messages: f64,
    /// Shares of a core.
    pub mean_cpu: f64,
    pub most_cpu: f64,
    pub server_cpu: f64,
    /// Resident, of a member, in KiB.
    pub memory: f64,
    /// In use of its heap, in KiB.
    pub heap: f64,
    /// Bytes that clients are sent, a second,
    bytes: f64,
    /// by so many members.
    members: usize,
}

impl Idle {
    /// The same for another number of members: each is sent the heartbeats of all.
    fn bytes_with(&self, members: usize) -> f64 {
        self.bytes * (float(members) / float(self.members)).powi(2)
    }
}

pub struct Join {
    /// KiB sent to the member that joins until it had joined, but for heartbeats.
    pub snapshot: f64,
    /// The KiB in use of its heap when it knows all shards, and owns none.
    pub heap: f64,
    pub moves: Moves,
}

/// How shards changed hands.
pub struct Moves {
    /// From the order until all shards had an owner again.
    pub whole: Duration,
    /// How many shards had to move at least.
    pub least: usize,
    pub count: usize,
    /// How often the shard moved that moved most.
    pub of_one: usize,
    pub gaps: Sample,
    /// KiB delivered for each move, but for heartbeats.
    pub delivered: f64,
    pub shares: Vec<usize>,
}

/// Runs all scenes with a new fleet.
pub fn run(args: &Args, shards: u32, replicas: usize) -> Result<Figures, Problem> {
    let ttl = Duration::from_secs(args.ttl);
    let say = |what: &str| eprintln!("{shards} shards, {replicas} replicas: {what}");
    say("a fleet starts");
    let mut fleet = Fleet::start(shards, args.members, ttl, replicas)?;
    let spawned = Moment::now();
    fleet.until_owned()?;
    let (first, last) = fleet.starts()?;
    fleet.settle()?;
    let start = Start {
        whole: last.since(spawned),
        spread: last.since(first),
        shares: fleet.shares(),
    };
    say("idle");
    let idle = idle(&mut fleet, Duration::from_secs(args.idle))?;
    say("a member joins");
    let join = join(&mut fleet, &idle)?;
    say("a member stops");
    let (number, share) = fleet.fullest()?;
    let leave = moves(&mut fleet, &idle, share, |fleet| {
        let mut member = fleet.members.stop(number)?;
        fleet.until_others_own_all(number)?;
        member.wait()?;
        Ok(())
    })?;
    say("a member is drained, and comes back");
    let (number, share) = fleet.fullest()?;
    let drain = moves(&mut fleet, &idle, share, |fleet| {
        fleet.members.order(number, &Order::Cordon)?;
        fleet.until_others_own_all(number)
    })?;
    fleet.members.order(number, &Order::Resume)?;
    fleet.settle()?;
    say("a member is killed");
    let (number, share) = fleet.fullest()?;
    let kill = moves(&mut fleet, &idle, share, |fleet| {
        fleet.kill(number)?;
        fleet.until_owned()
    })?;
    say("the coordinator is killed");
    let (number, share) = fleet.coordinator()?;
    let kill_coordinator = moves(&mut fleet, &idle, share, |fleet| {
        fleet.kill(number)?;
        fleet.until_owned()
    })?;
    say("a member with a last will joins, and is killed");
    let number = fleet.spawn(true)?;
    fleet.until_joined(number)?;
    fleet.settle()?;
    let share = fleet.shards_of(number).len();
    let kill_with_will = moves(&mut fleet, &idle, share, |fleet| {
        fleet.kill(number)?;
        fleet.until_owned()
    })?;
    Ok(Figures {
        shards,
        replicas,
        version: fleet.version(),
        start,
        idle,
        join,
        leave,
        drain,
        kill,
        kill_coordinator,
        kill_with_will,
    })
}

fn idle(fleet: &mut Fleet, time: Duration) -> Result<Idle, Problem> {
    let read =
        |pids: Vec<u32>| -> Result<Vec<f64>, Problem> { pids.into_iter().map(cpu).collect() };
    let before = (
        read(fleet.members.pids())?,
        read(fleet.servers())?,
        fleet.traffic()?,
    );
    thread::sleep(time);
    let after = (
        read(fleet.members.pids())?,
        read(fleet.servers())?,
        fleet.traffic()?,
    );
    let seconds = after.2.at.since(before.2.at).as_secs_f64();
    let traffic = after.2.since(&before.2);
    let shares = |before: &[f64], after: &[f64]| -> Vec<f64> {
        let both = before.iter().zip(after);
        both.map(|(before, after)| (after - before) / seconds)
            .collect()
    };
    let members = shares(&before.0, &after.0);
    let memories = fleet.members.pids().into_iter().map(memory);
    let memories: Vec<u32> = memories.collect::<Result<_, _>>()?;
    let memories: Vec<f64> = memories.into_iter().map(f64::from).collect();
    Ok(Idle {
        messages: traffic.messages / seconds,
        mean_cpu: mean(&members),
        most_cpu: members.iter().copied().fold(0.0, f64::max),
        server_cpu: shares(&before.1, &after.1).iter().sum(),
        memory: mean(&memories),
        heap: mean(&fleet.heaps()?),
        bytes: traffic.bytes / seconds,
        members: members.len(),
    })
}

fn join(fleet: &mut Fleet, idle: &Idle) -> Result<Join, Problem> {
    let before = fleet.traffic()?;
    let members = fleet.members.pids().len();
    let (mut snapshot, mut heap) = (0.0, 0.0);
    let least = fleet.shards() / (members + 1);
    let mut moves = moves(fleet, idle, least, |fleet| {
        let number = fleet.spawn(false)?;
        fleet.until_joined(number)?;
        let now = fleet.traffic()?;
        let seconds = now.at.since(before.at).as_secs_f64();
        let beats = idle.bytes_with(members + 1) / float(members + 1) * seconds;
        heap = fleet.heap(number)?;
        snapshot = (now.of_new_since(&before).bytes - beats).max(0.0) / 1024.0;
        fleet.until_owned()
    })?;
    // It is sent for the sake of the member, not of a move.
    let count = float(moves.count.max(1));
    moves.delivered = (moves.delivered - snapshot / count).max(0.0);
    Ok(Join {
        snapshot,
        heap,
        moves,
    })
}

fn moves(
    fleet: &mut Fleet,
    idle: &Idle,
    least: usize,
    happens: impl FnOnce(&mut Fleet) -> Result<(), Problem>,
) -> Result<Moves, Problem> {
    fleet.watched();
    let before = fleet.traffic()?;
    happens(fleet)?;
    let (_, latest) = fleet.starts()?;
    fleet.settle()?;
    let after = fleet.traffic()?;
    let Watched { moves, gaps } = fleet.watched();
    let count: usize = moves.values().sum();
    Ok(Moves {
        whole: latest.since(before.at),
        least,
        count,
        of_one: moves.values().copied().max().unwrap_or(0),
        gaps,
        delivered: delivered(&before, &after, fleet, idle) / float(count.max(1)),
        shares: fleet.shares(),
    })
}

/// The KiB that clients were sent between two readings, beside what they are sent while nothing
/// happens.
fn delivered(before: &Traffic, after: &Traffic, fleet: &Fleet, idle: &Idle) -> f64 {
    let seconds = after.at.since(before.at).as_secs_f64();
    let beats = idle.bytes_with(fleet.members.pids().len()) * seconds;
    (after.since(before).bytes - beats).max(0.0) / 1024.0
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / float(values.len().max(1))
}
