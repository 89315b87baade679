//! What stands in the bucket, and what each member knows of it.

use std::collections::BTreeSet;

use crate::rules::{Bounds, Broken, EPOCHS, LEASE, MEMBERS, UNITS};

/// A stream sequence. 0 means that there is none.
pub type Seq = u8;
/// An epoch, as an index of its member key.
pub type Epoch = u8;

/// The key of a member's or of a unit's record. Member keys come first.
pub type Key = usize;
pub const EPOCH_KEYS: std::ops::Range<Key> = 0..EPOCHS;
/// The group's own record.
pub const GROUP_KEY: Key = EPOCHS + UNITS;
pub const KEYS: usize = EPOCHS + UNITS + 1;

pub const fn unit_key(unit: usize) -> Key {
    EPOCHS + unit
}

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Body {
    /// A heartbeat. `left` is what is left of the lease that counts from its sending. No member
    /// reads that in another's record. A stranger's is not `own`.
    Beat { left: u8, own: bool },
    /// The epoch is deposed. Only the member itself knows the secret.
    Tombstone { secret: bool },
    /// The owner of a unit. `signed` is the epoch that signed it together with the record's `over`.
    Unit {
        owner: Option<Epoch>,
        signed: Option<Epoch>,
        closed: bool,
    },
    /// A new group, or one whose units may have owners.
    Group { made: bool },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Record {
    pub seq: Seq,
    /// The sequence that it was written over, as the condition stored with it shows.
    pub over: Seq,
    pub body: Body,
}

/// A write on its way, that nobody waits for any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ghost {
    pub key: Key,
    /// Without it the write is blind.
    pub expected: Option<Seq>,
    pub record: Record,
}

/// What a member knows of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    Never,
    Missing,
    Record(Record),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    pub alive: bool,
    pub epoch: Option<Epoch>,
    /// Whether the epoch's lease has begun.
    pub begun: bool,
    /// What is left of the lease.
    pub left: u8,
    /// The sequence of the last heartbeat that is known to be stored.
    pub held: Seq,
    /// The watch has shown everything up to here.
    pub shown: Seq,
    pub known: [Known; KEYS],
    /// How long each epoch's lease may yet last.
    pub wait: [u8; EPOCHS],
    /// How long an owner before the known one may yet act.
    pub quiet: [u8; UNITS],
    /// The record that began the group over nothing, if the view is complete from there on.
    pub making: Option<Seq>,
    /// Units that are known by their creation as nobody's alone.
    pub newborn: [bool; UNITS],
    /// Terms up to here have ended.
    pub ended: [Seq; UNITS],
    /// The term that runs, by its token.
    pub term: [Option<Seq>; UNITS],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub keys: [Option<Record>; KEYS],
    pub last: Seq,
    /// What is on its way to the watches.
    pub log: Vec<(Key, Record)>,
    pub ghosts: Vec<Ghost>,
    pub members: Vec<Member>,
    /// The member that claimed each epoch.
    pub claimant: Vec<u8>,
    pub last_token: [Seq; UNITS],
    pub left: Left,
    pub broken: Option<&'static str>,
}

/// What may yet happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    pub gives: u8,
    pub claims: u8,
    pub deaths: u8,
    pub unanswered: u8,
    pub ghosts: u8,
    pub purges: u8,
    pub forgeries: u8,
}

impl Member {
    pub fn record(&self, key: Key) -> Option<Record> {
        match self.known[key] {
            Known::Record(record) => Some(record),
            Known::Never | Known::Missing => None,
        }
    }

    pub const fn is_valid(&self) -> bool {
        self.alive && self.begun && self.left > 0
    }

    /// The member's lease is over: nothing of its epoch acts any more.
    pub fn lose(&mut self) {
        self.left = 0;
        for unit in 0..UNITS {
            self.end(unit);
        }
    }

    pub fn end(&mut self, unit: usize) {
        if let Some(seq) = self.term[unit].take() {
            self.ended[unit] = self.ended[unit].max(seq);
        }
    }
}

impl State {
    /// All members have a lease, and the first one leads unit 0.
    pub fn start(bounds: &Bounds) -> Self {
        let mut keys = [None; KEYS];
        let mut last = 0;
        let mut put = |key: Key, body| {
            last += 1;
            keys[key] = Some(Record {
                seq: last,
                over: 0,
                body,
            });
        };
        for epoch in 0..bounds.members {
            put(
                epoch,
                Body::Beat {
                    left: LEASE,
                    own: true,
                },
            );
        }
        if bounds.making {
            put(GROUP_KEY, Body::Group { made: false });
        }
        for unit in 0..if bounds.making { 0 } else { bounds.units() } {
            let body = Body::Unit {
                owner: (unit == 0).then_some(0),
                signed: None,
                closed: false,
            };
            put(unit_key(unit), body);
        }
        let mut known = keys.map(|record| record.map_or(Known::Never, Known::Record));
        if bounds.making {
            known[unit_key(0)] = Known::Missing;
        }
        let token = keys[unit_key(0)].map_or(0, |record| record.seq);
        let member = |slot: usize| Member {
            alive: true,
            epoch: u8::try_from(slot).ok(),
            begun: true,
            left: LEASE,
            held: keys[slot].map_or(0, |record| record.seq),
            shown: last,
            known,
            wait: [LEASE; EPOCHS],
            quiet: [0; UNITS],
            ended: [0; UNITS],
            term: [(slot == 0 && !bounds.making).then_some(token), None],
            making: keys[GROUP_KEY].map(|record| record.seq),
            newborn: [false; UNITS],
        };
        assert!(bounds.members <= MEMBERS);
        Self {
            members: (0..bounds.members).map(member).collect(),
            claimant: (0..bounds.members)
                .filter_map(|slot| u8::try_from(slot).ok())
                .collect(),
            keys,
            last,
            log: Vec::new(),
            ghosts: Vec::new(),
            last_token: [token, 0],
            left: Left {
                gives: bounds.gives,
                claims: bounds.claims,
                deaths: bounds.deaths,
                unanswered: bounds.unanswered,
                ghosts: bounds.ghosts,
                purges: bounds.purges,
                forgeries: bounds.forgeries,
            },
            broken: None,
        }
    }

    pub fn seq(&self, key: Key) -> Seq {
        self.keys[key].map_or(0, |record| record.seq)
    }

    /// Stores a write, if the key stands at the expected sequence.
    pub fn store(
        &mut self,
        key: Key,
        expected: Option<Seq>,
        over: Seq,
        body: Body,
    ) -> Option<Record> {
        if expected.is_some_and(|expected| expected != self.seq(key)) {
            return None;
        }
        self.last += 1;
        let record = Record {
            seq: self.last,
            over,
            body,
        };
        self.keys[key] = Some(record);
        self.log.push((key, record));
        Some(record)
    }

    pub fn tick(&mut self, broken: Option<Broken>) {
        let age = |record: &mut Record| {
            if let Body::Beat { left, .. } = &mut record.body {
                *left = left.saturating_sub(1);
            }
        };
        self.keys.iter_mut().flatten().for_each(age);
        self.log.iter_mut().for_each(|(_, record)| age(record));
        self.ghosts
            .iter_mut()
            .for_each(|ghost| age(&mut ghost.record));
        for member in &mut self.members {
            for left in member.wait.iter_mut().chain(&mut member.quiet) {
                *left = left.saturating_sub(1);
            }
            member.left = member.left.saturating_sub(1);
            if member.begun && member.left == 0 && broken != Some(Broken::ReviveLease) {
                member.lose();
            }
        }
    }

    /// Makes states equal that differ only in numbers: sequences become ranks.
    pub fn normalise(&mut self) {
        let seen = self
            .members
            .iter()
            .filter(|it| it.alive)
            .map(|it| it.shown)
            .min();
        let keys = self.keys;
        // The server keeps one message of each key. One more may be under way.
        let stands = |key: Key, record: &Record| keys[key].is_some_and(|it| it.seq == record.seq);
        let mut spare: [Option<Seq>; KEYS] = [None; KEYS];
        for (key, record) in self
            .log
            .iter()
            .filter(|(key, record)| !stands(*key, record))
        {
            spare[*key] = Some(record.seq);
        }
        self.log.retain(|(key, record)| {
            let beat = matches!(record.body, Body::Beat { .. });
            Some(record.seq) > seen
                && (stands(*key, record) || !beat && spare[*key] == Some(record.seq))
        });
        self.ghosts.sort_unstable();
        for member in &mut self.members {
            for (key, known) in member.known.iter_mut().enumerate() {
                if let Known::Record(record) = known {
                    record.over = 0;
                    match &mut record.body {
                        Body::Beat { left, .. } => *left = 0,
                        Body::Unit { signed, .. } => *signed = None,
                        Body::Group { .. } => {}
                        Body::Tombstone { .. } => {
                            record.seq = if key < EPOCHS { 0 } else { record.seq }
                        }
                    }
                }
            }
        }
        let mut seqs = BTreeSet::from([0]);
        self.each_seq(&mut |seq| {
            seqs.insert(*seq);
        });
        let ranks: Vec<Seq> = seqs.into_iter().collect();
        self.each_seq(&mut |seq| {
            let rank = ranks.binary_search(seq).expect("it was collected");
            *seq = Seq::try_from(rank).expect("few sequences matter");
        });
        self.last = Seq::try_from(ranks.len() - 1).expect("few sequences matter");
    }

    fn each_seq(&mut self, visit: &mut impl FnMut(&mut Seq)) {
        for record in self.keys.iter_mut().flatten() {
            visit(&mut record.seq);
            visit(&mut record.over);
        }
        for (_, record) in &mut self.log {
            visit(&mut record.seq);
            visit(&mut record.over);
        }
        for ghost in &mut self.ghosts {
            ghost.expected.iter_mut().for_each(&mut *visit);
            visit(&mut ghost.record.over);
        }
        for member in &mut self.members {
            visit(&mut member.held);
            visit(&mut member.shown);
            for known in &mut member.known {
                if let Known::Record(record) = known {
                    visit(&mut record.seq);
                }
            }
            member.making.iter_mut().for_each(&mut *visit);
            member.ended.iter_mut().for_each(&mut *visit);
            member.term.iter_mut().flatten().for_each(&mut *visit);
        }
        self.last_token.iter_mut().for_each(&mut *visit);
    }
}
