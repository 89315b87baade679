//! A bucket in memory and a few members, with all that may go wrong in a test's hands.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::super::policy::{Balanced, PolicySettings, first};
use super::super::*;
use crate::HandlerEnd;
use crate::lease::{OpId, WriteOutcome};
use crate::moment::Moment;
use crate::name::{GroupName, UnitName};
use crate::release::ReleaseSecret;

pub const TTL: Duration = Duration::from_secs(15);
pub const HEARTBEAT: Duration = Duration::from_secs(1);
pub const STOP: Duration = Duration::from_secs(3);
const TICK: Duration = Duration::from_millis(100);

/// A message in the bucket.
#[derive(Clone, Debug)]
pub struct Stored {
    pub key: GroupKey,
    pub message: Message,
}

/// A handler that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub sequence: u64,
    pub revoked: bool,
    pub runs: bool,
}

#[allow(clippy::struct_excessive_bools, reason = "one switch for each fault")]
#[derive(Debug)]
pub struct Node {
    pub group: Group,
    pub alive: bool,
    /// The watch shows nothing, and no new one begins.
    pub silent: bool,
    /// Answers to its writes of units do not come.
    pub unanswered: bool,
    /// Its writes of units take effect late, or never.
    pub delayed: bool,
    /// It cannot write its own record.
    pub mute: bool,
    /// Its handlers ignore that they are told to end.
    pub stubborn: bool,
    /// Hints of others do not reach it.
    pub deaf: bool,
    /// Its record says that it takes no more units.
    pub cordoned: bool,
    /// It says so as it has not joined yet.
    is_joining: bool,
    /// The load that its record tells for each unit that it acts on.
    pub unit_loads: BTreeMap<u32, u32>,
    /// Its record tells these loads one by one, too.
    pub names_loads: bool,
    pub labels: BTreeSet<String>,
    pub most_units: Option<u32>,
    pub epoch: u8,
    held: u64,
    beat_at: Moment,
    pub until: Moment,
    position: u64,
    pub terms: BTreeMap<UnitKey, Term>,
    /// All writes but heartbeats.
    pub written: Vec<GroupWrite>,
    pub rewatched: usize,
    /// It asked for a new watch while none began.
    needs_watch: bool,
    /// How many hints it sent.
    pub hinted: usize,
    inbox: VecDeque<GroupInput>,
}

pub struct World {
    pub now: Moment,
    pub last: u64,
    pub keys: BTreeMap<GroupKey, Stored>,
    /// All that is on its way to watches, also what was overwritten.
    pub log: Vec<Stored>,
    /// Writes that nobody waits for any more.
    pub ghosts: Vec<(GroupKey, u64, GroupContent)>,
    /// Whether watches leave out what was overwritten.
    pub compacts: bool,
    pub nodes: Vec<Node>,
    pub epochs: u8,
    /// Whether somebody may act since the last check that did not before.
    changed: bool,
    tokens: BTreeMap<UnitKey, u64>,
}

pub fn group() -> GroupName {
    GroupName::new("partitions").unwrap()
}

pub fn unit(number: u32) -> UnitKey {
    UnitKey {
        group: group(),
        generation: 1,
        unit: UnitName::shard(number),
    }
}

pub fn identity(number: u8) -> Identity {
    Identity {
        key: EpochKey::new([number; 32]),
        ttl: TTL,
        release: secret(number).hash(),
    }
}

pub fn secret(number: u8) -> ReleaseSecret {
    ReleaseSecret::new(u128::from(number))
}

pub fn epoch(number: u8) -> Epoch {
    identity(number).epoch()
}

pub fn settings() -> PolicySettings {
    PolicySettings::new(HEARTBEAT)
}

pub fn placement(settings: PolicySettings) -> Placement {
    Placement {
        policy: Arc::new(Balanced::new(settings)),
        units: BTreeMap::new(),
    }
}

pub fn heartbeat(number: u8, cordoned: bool) -> GroupContent {
    let support = Support {
        format: 1,
        ..Support::default()
    };
    let info = MemberInfo {
        groups: BTreeMap::from([(group(), support)]),
        cordoned,
        ..MemberInfo::new(identity(number).key)
    };
    record_with(number, info)
}

fn record_with(number: u8, info: MemberInfo) -> GroupContent {
    let record = SeenMember {
        id: format!("node-{number}"),
        nonce: None,
        identity: Some(identity(number)),
        info: Some(info),
    };
    GroupContent::Member(epoch(number), MemberContent::Record(Box::new(record)))
}

/// Members of which the last one to join ranks before all others, when so many more have joined.
pub fn before_a_planner(members: u8, more: u8, shards: u32) -> World {
    let mut world = World::new(0, shards);
    let ranks_first = |before: &u8| {
        let last = before + members + more;
        first(&group(), "", (before + 1..=last).map(epoch)) == Some(epoch(last))
    };
    world.epochs = (0..40).find(ranks_first).unwrap();
    for _ in 0..members {
        world.join(shards);
    }
    world
}

impl World {
    /// This many members, and a group of this many shards.
    pub fn new(members: u8, shards: u32) -> Self {
        let mut world = Self {
            now: Moment::from_nanos(0) + Duration::from_secs(1000),
            last: 0,
            keys: BTreeMap::new(),
            log: Vec::new(),
            ghosts: Vec::new(),
            compacts: true,
            nodes: Vec::new(),
            epochs: 0,
            changed: false,
            tokens: BTreeMap::new(),
        };
        for _ in 0..members {
            world.join(shards);
        }
        world
    }

    /// Members with units that have owners.
    pub fn settled(members: u8, shards: u32) -> Self {
        let mut world = Self::new(members, shards);
        world.run(LONGEST_LEASE * 2 + TTL);
        for number in 0..shards {
            world.owner(number);
        }
        world
    }

    /// The same with this policy.
    pub fn settled_with(members: u8, shards: u32, settings: PolicySettings) -> Self {
        let mut world = Self::new(0, shards);
        let placement = placement(settings);
        for _ in 0..members {
            world.join_with(shards, Some(placement.clone()));
        }
        world.run(LONGEST_LEASE * 2 + TTL);
        for number in 0..shards {
            world.owner(number);
        }
        world
    }

    pub fn join(&mut self, shards: u32) -> usize {
        self.join_with(shards, None)
    }

    pub fn join_with(&mut self, shards: u32, placement: Option<Placement>) -> usize {
        self.join_as(Units::Shards(shards), placement)
    }

    pub fn join_as(&mut self, units: Units, placement: Option<Placement>) -> usize {
        let index = self.add(units, placement);
        self.watch(index);
        index
    }

    /// A member whose first watch has not begun.
    pub fn add(&mut self, units: Units, placement: Option<Placement>) -> usize {
        let settings = GroupSettings {
            ttl: TTL,
            heartbeat: HEARTBEAT,
            stop_budget: STOP,
            groups: BTreeMap::from([(group(), units)]),
            placements: placement.into_iter().map(|it| (group(), it)).collect(),
        };
        let mut node = Node {
            group: Group::new(settings, self.now),
            alive: true,
            silent: false,
            unanswered: false,
            delayed: false,
            mute: false,
            stubborn: false,
            deaf: false,
            cordoned: false,
            is_joining: true,
            unit_loads: BTreeMap::new(),
            names_loads: false,
            labels: BTreeSet::new(),
            most_units: None,
            epoch: 0,
            held: 0,
            beat_at: self.now,
            until: self.now,
            position: 0,
            terms: BTreeMap::new(),
            written: Vec::new(),
            rewatched: 0,
            needs_watch: false,
            hinted: 0,
            inbox: VecDeque::new(),
        };
        self.epochs += 1;
        node.epoch = self.epochs;
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The one member that acts on the unit.
    pub fn owner(&self, number: u32) -> usize {
        let owners = self.owners(&unit(number));
        assert_eq!(owners.len(), 1, "owners of {number}");
        owners[0]
    }

    pub fn owners(&self, unit: &UnitKey) -> Vec<usize> {
        let acts = |node: &Node| {
            let term = node.terms.get(unit);
            node.alive && self.now < node.until && term.is_some_and(|it| it.runs && !it.revoked)
        };
        (0..self.nodes.len())
            .filter(|index| acts(&self.nodes[*index]))
            .collect()
    }

    /// Stores a message if the key stands at this sequence. Without one it is a stranger's.
    pub fn store(
        &mut self,
        key: GroupKey,
        over: Option<u64>,
        content: GroupContent,
    ) -> Option<u64> {
        let stands = self.keys.get(&key).map_or(0, |it| it.message.sequence);
        if over.is_some_and(|over| over != stands) {
            return None;
        }
        self.last += 1;
        let message = Message {
            sequence: self.last,
            over,
            content,
        };
        let stored = Stored {
            key: key.clone(),
            message,
        };
        self.keys.insert(key, stored.clone());
        self.log.push(stored);
        Some(self.last)
    }

    pub fn sequence(&self, key: &GroupKey) -> u64 {
        self.keys.get(key).map_or(0, |it| it.message.sequence)
    }

    pub fn purge(&mut self, key: &GroupKey) {
        self.keys.remove(key);
    }

    /// A stranger writes a unit's record, over what stands there.
    pub fn forge(&mut self, number: u32, record: Option<UnitRecord>, signed: Option<Epoch>) {
        let key = GroupKey::Unit(unit(number));
        let content = GroupContent::Unit {
            key: unit(number),
            record,
            signed,
        };
        let over = self.sequence(&key);
        self.store(key, Some(over), content);
    }

    pub fn stands(&self, number: u32) -> Option<UnitRecord> {
        match &self
            .keys
            .get(&GroupKey::Unit(unit(number)))?
            .message
            .content
        {
            GroupContent::Unit { record, .. } => *record,
            _ => None,
        }
    }

    /// A hint about the record that stands there.
    pub fn hint(&self, number: u32, to: Epoch) -> GroupInput {
        let sequence = self.sequence(&GroupKey::Unit(unit(number)));
        GroupInput::Hint {
            hints: vec![Hint {
                unit: unit(number),
                sequence,
                to,
            }],
        }
    }

    /// The member leaves: its record says so, and it gives its units away.
    pub fn leave(&mut self, index: usize) {
        self.nodes[index].cordoned = true;
        self.tell(index, GroupInput::Drain);
    }

    /// How many units each member that is alive acts on.
    pub fn owned(&self) -> Vec<usize> {
        let alive = self.nodes.iter().filter(|it| it.alive);
        alive
            .map(|node| {
                let terms = node.terms.values();
                let acts = |it: &&Term| it.runs && !it.revoked;
                terms.filter(acts).count() * usize::from(self.now < node.until)
            })
            .collect()
    }

    pub fn tell(&mut self, index: usize, input: GroupInput) {
        self.nodes[index].inbox.push_back(input);
        self.drain(index);
    }

    /// A new watch shows the last message of each key.
    pub fn watch(&mut self, index: usize) {
        self.watch_since(index, self.last);
    }

    /// The same, of a watch that began when this was the stream's last sequence. It lacks what was
    /// written over since then.
    pub fn watch_since(&mut self, index: usize, last: u64) {
        let standing = self.keys.values().map(|it| it.message.clone());
        let mut all: Vec<Message> = standing.filter(|it| it.sequence <= last).collect();
        all.sort_by_key(|it| it.sequence);
        let members = Some(self.members());
        let node = &mut self.nodes[index];
        node.position = last;
        node.inbox.push_back(GroupInput::WatchBegan);
        node.inbox.extend(all.into_iter().map(GroupInput::Shown));
        node.inbox.push_back(GroupInput::CaughtUp { last, members });
        self.drain(index);
    }

    /// The epochs that stand there.
    pub fn members(&self) -> Vec<Epoch> {
        self.keys.keys().filter_map(GroupKey::member).collect()
    }

    pub fn run(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.now = self.now + TICK;
            for index in 0..self.nodes.len() {
                if self.nodes[index].alive {
                    self.turn(index);
                    if std::mem::take(&mut self.changed) {
                        self.check();
                    }
                }
            }
        }
    }

    pub fn run_short_of(&mut self, time: Duration, by: Duration) {
        self.run(time.checked_sub(by).expect("a time"));
    }

    /// Runs until it is so, and fails if that takes longer.
    pub fn until(&mut self, most: Duration, what: impl Fn(&Self) -> bool) {
        let end = self.now + most;
        while !what(self) {
            assert!(self.now < end, "not within {most:?}");
            self.run(TICK);
        }
    }

    fn turn(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if !node.silent && std::mem::take(&mut node.needs_watch) {
            self.watch(index);
        }
        let node = &self.nodes[index];
        if !node.silent {
            let from = node.position;
            let stands = |it: &&Stored| self.sequence(&it.key) == it.message.sequence;
            // The log begins with sequence 1.
            let from = usize::try_from(from).expect("few messages");
            let new = self.log[from..].iter();
            let shown: Vec<Message> = new
                .filter(|it| !self.compacts || stands(it))
                .map(|it| it.message.clone())
                .collect();
            let last = self.last;
            let node = &mut self.nodes[index];
            node.position = last;
            node.inbox.extend(shown.into_iter().map(GroupInput::Shown));
        }
        if self.nodes[index].beat_at <= self.now {
            self.beat(index);
        }
        let node = &mut self.nodes[index];
        node.inbox.push_back(GroupInput::Tick);
        self.drain(index);
        // It says at once that it takes units now.
        let node = &self.nodes[index];
        if node.is_joining && node.group.has_joined() {
            self.beat(index);
            self.drain(index);
        }
    }

    /// The election of the member writes its record.
    pub fn beat(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.beat_at = self.now + HEARTBEAT;
        if node.mute {
            return;
        }
        let (number, held) = (node.epoch, node.held);
        let runs = node.terms.iter().filter(|(_, term)| term.runs);
        let units = runs.filter_map(|(key, _)| key.unit.as_shard());
        let loads = units.filter_map(|it| Some((it, *node.unit_loads.get(&it)?)));
        let loads: BTreeMap<u32, u32> = loads.collect();
        node.is_joining = !node.group.has_joined();
        let heavy = loads.iter().filter(|_| node.names_loads);
        let support = Support {
            format: 1,
            generation: node.group.generation(&group()),
            load: loads.values().map(|it| u64::from(*it)).sum(),
            heavy: heavy
                .map(|(it, load)| (UnitName::shard(*it), *load))
                .collect(),
            failing: node.group.failing(&group()),
            units: BTreeSet::new(),
            waits: node.group.waits(&group()),
        };
        let takes_part = node.group.misfit(&group()).is_none();
        let groups = takes_part.then(|| (group(), support));
        let info = MemberInfo {
            groups: groups.into_iter().collect(),
            labels: node.labels.clone(),
            most_units: node.most_units,
            cordoned: node.cordoned || node.is_joining,
            ..MemberInfo::new(identity(number).key)
        };
        let record = record_with(number, info);
        let key = GroupKey::Member(epoch(number));
        match self.store(key, Some(held), record) {
            Some(sequence) => {
                let node = &mut self.nodes[index];
                node.held = sequence;
                node.inbox.push_back(GroupInput::Granted {
                    epoch: epoch(number),
                    sequence,
                    until: self.now + TTL * 9 / 10,
                });
            }
            None => self.nodes[index].inbox.push_back(GroupInput::LeaseLost {
                epoch: epoch(number),
            }),
        }
    }

    fn drain(&mut self, index: usize) {
        let node = &self.nodes[index];
        let wakeup = node.group.next_wakeup();
        assert!(wakeup.is_none_or(|at| at > Moment::from_nanos(0)));
        while let Some(mut input) = self.nodes[index].inbox.pop_front() {
            // A driver checks signatures of the one alone whom the machine knows as the giver.
            if let GroupInput::Shown(message) = &mut input
                && let GroupContent::Unit { key, signed, .. } = &mut message.content
            {
                let over = message.over.unwrap_or(0);
                let giver = self.nodes[index].group.giver(key, over);
                *signed = signed.filter(|by| giver.is_some_and(|(giver, _)| giver == *by));
            }
            let effects = self.nodes[index].group.step(self.now, input);
            for effect in effects {
                self.obey(index, effect);
            }
        }
    }

    fn obey(&mut self, index: usize, effect: GroupEffect) {
        let now = self.now;
        match effect {
            GroupEffect::Write { op, write } => self.write(index, op, write),
            GroupEffect::HeartbeatNow => self.nodes[index].beat_at = now,
            GroupEffect::Rewatch => {
                let node = &mut self.nodes[index];
                node.rewatched += 1;
                node.needs_watch = node.silent;
                if !node.silent {
                    self.watch(index);
                }
            }
            GroupEffect::NewEpoch => {
                self.epochs += 1;
                let node = &mut self.nodes[index];
                (node.epoch, node.held, node.beat_at) = (self.epochs, 0, now);
                node.until = now;
            }
            GroupEffect::Retire { epoch: old } => self.retire(old),
            GroupEffect::Hint { to, hints } => {
                self.nodes[index].hinted += hints.len();
                let mut nodes = self.nodes.iter_mut();
                let receiver = nodes.find(|it| epoch(it.epoch) == to && it.alive && !it.deaf);
                if let Some(receiver) = receiver {
                    receiver.inbox.push_back(GroupInput::Hint { hints });
                }
            }
            GroupEffect::Extend { until } => {
                self.nodes[index].until = until;
                self.changed = true;
            }
            GroupEffect::Start {
                unit,
                sequence,
                until,
            } => {
                assert!(until > now);
                self.changed = true;
                let token = self.tokens.entry(unit.clone()).or_insert(0);
                assert!(*token < sequence, "tokens of {unit} grow");
                *token = sequence;
                let term = Term {
                    sequence,
                    revoked: false,
                    runs: true,
                };
                let before = self.nodes[index].terms.insert(unit, term);
                assert!(before.is_none_or(|it| !it.runs), "one handler of a unit");
            }
            GroupEffect::Cancel { unit, sequence } => self.end_handler(index, &unit, sequence),
            GroupEffect::Revoke { unit, sequence } => {
                let term = self.nodes[index].terms.get_mut(&unit).expect("a term");
                assert_eq!(term.sequence, sequence);
                term.revoked = true;
                self.end_handler(index, &unit, sequence);
            }
        }
    }

    /// The one handler that runs of a unit fails.
    pub fn fail(&mut self, number: u32) {
        let (index, unit) = (self.owner(number), unit(number));
        let term = self.nodes[index].terms.get_mut(&unit).expect("a term");
        let sequence = term.sequence;
        term.runs = false;
        let end = HandlerEnd::Failed;
        let ended = GroupInput::HandlerEnded {
            unit,
            sequence,
            end,
        };
        self.tell(index, ended);
    }

    /// The one handler that runs of a unit fails its health checks.
    pub fn sicken(&mut self, number: u32) {
        let (index, unit) = (self.owner(number), unit(number));
        let sequence = self.nodes[index].terms[&unit].sequence;
        self.tell(index, GroupInput::Unhealthy { unit, sequence });
    }

    /// The handler ends, unless it ignores that it should.
    pub fn end_handler(&mut self, index: usize, unit: &UnitKey, sequence: u64) {
        let node = &mut self.nodes[index];
        let term = node.terms.get_mut(unit).expect("a term");
        if node.stubborn || !term.runs {
            return;
        }
        term.runs = false;
        let ended = GroupInput::HandlerEnded {
            unit: unit.clone(),
            sequence,
            end: HandlerEnd::Returned,
        };
        node.inbox.push_back(ended);
    }

    /// The tombstone of an epoch, with its secret: its own at the end of its lease, or that of its
    /// last will.
    pub fn retire(&mut self, old: Epoch) {
        let number = (1..=self.epochs).find(|number| epoch(*number) == old);
        let secret = number.map(secret);
        let identity = number.map(identity);
        let key = GroupKey::Member(old);
        let over = self.sequence(&key);
        if over > 0 {
            let tombstone =
                GroupContent::Member(old, MemberContent::Tombstone { secret, identity });
            self.store(key, Some(over), tombstone);
        }
    }

    fn write(&mut self, index: usize, op: OpId, write: GroupWrite) {
        self.nodes[index].written.push(write.clone());
        let (key, over, content) = match write {
            GroupWrite::Unit {
                key,
                over,
                record,
                sign,
            } => {
                let content = GroupContent::Unit {
                    key: key.clone(),
                    record: Some(record),
                    signed: sign,
                };
                (GroupKey::Unit(key), over, content)
            }
            GroupWrite::Depose {
                epoch,
                over,
                identity,
            } => {
                let tombstone = MemberContent::Tombstone {
                    secret: None,
                    identity,
                };
                let content = GroupContent::Member(epoch, tombstone);
                (GroupKey::Member(epoch), over, content)
            }
            GroupWrite::Group {
                group,
                over,
                record,
            } => {
                let content = GroupContent::Group(group.clone(), Some(record));
                (GroupKey::Group(group), over, content)
            }
        };
        let stored = if self.nodes[index].delayed {
            self.ghosts.push((key, over, content));
            None
        } else {
            self.store(key, Some(over), content)
        };
        let outcome = stored.map_or(WriteOutcome::Conflict { current: None }, |revision| {
            WriteOutcome::Acked { revision }
        });
        let outcome = if self.nodes[index].unanswered || self.nodes[index].delayed {
            WriteOutcome::Failed(crate::lease::Failure {
                kind: crate::event::FailureKind::Timeout,
                detail: String::new(),
            })
        } else {
            outcome
        };
        let answer = GroupInput::WriteEnded { op, outcome };
        self.nodes[index].inbox.push_back(answer);
    }

    fn check(&self) {
        for unit in self.tokens.keys() {
            let owners = self.owners(unit);
            assert!(owners.len() <= 1, "{unit} is owned by {owners:?}");
        }
    }
}
