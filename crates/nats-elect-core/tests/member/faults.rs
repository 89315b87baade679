//! What goes wrong.

use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::assignment::{Key, Profile, Units};
use nats_elect_core::member::{Input, Order};
use nats_elect_core::name::UnitName;

use crate::chance::Chance;
use crate::event::Event;
use crate::stream::brief;
use crate::world::World;

/// How often things go wrong, in a thousand, until a time.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    pub until: Moment,
    pub lost: usize,
    pub slow: usize,
    pub lag: usize,
    /// Handlers that end by themselves.
    pub returns: usize,
    /// Handlers that end late, or later than their lease.
    pub late: usize,
    /// Processes that are paused when they send a map, which waits in its socket.
    pub amid: usize,
    /// Processes whose watch is one of a server that is behind.
    pub stale: usize,
    /// Processes that die and have a companion, which ends their epochs.
    pub wills: usize,
    /// The leases of those that start, in seconds, and how many heartbeats each has. Empty: three.
    pub leases: &'static [(u64, u32)],
}

/// A fault at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Crash,
    Leave,
    Start,
    /// The process stands still. Its handlers go on.
    Pause,
    /// The watch shows nothing.
    Deaf,
    /// Nothing that is sent arrives.
    Cut,
    Rewatch,
    /// The watch begins anew at a server that is behind.
    Stale,
    /// Somebody writes the map's key.
    Map(Hand),
    /// Somebody writes a member's key.
    Member(Hand),
    Resize,
    Move,
    /// A member takes no more units, or takes them again.
    Cordon,
    /// The handler of a unit is told to be ill.
    Unhealthy,
    /// Who starts from now on knows one more name.
    Name,
    /// The bucket is made anew.
    Bucket,
    /// Confirmed writes are lost.
    Lose,
    /// A backup is put in the place of the stream.
    Restore,
    /// A member of a later version joins, and dies or leaves.
    LaterMember,
    /// A member of a later version writes a map. Somebody goes back some seconds later.
    LaterMap,
    GoBack,
}

/// What somebody does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hand {
    Delete,
    Purge,
    Rubbish,
    /// A former value of the same key, or of another one.
    PutBack,
}

impl Fault {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Crash,
        Self::Leave,
        Self::Start,
        Self::Pause,
        Self::Deaf,
        Self::Cut,
        Self::Rewatch,
        Self::Stale,
        Self::Map(Hand::Delete),
        Self::Map(Hand::Purge),
        Self::Map(Hand::Rubbish),
        Self::Map(Hand::PutBack),
        Self::Member(Hand::Delete),
        Self::Member(Hand::Purge),
        Self::Member(Hand::Rubbish),
        Self::Member(Hand::PutBack),
        Self::Resize,
        Self::Move,
        Self::Cordon,
        Self::Unhealthy,
        Self::Name,
        Self::Bucket,
        Self::Lose,
        Self::Restore,
        Self::LaterMember,
        Self::LaterMap,
        Self::GoBack,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Crash => "Crash",
            Self::Leave => "Leave",
            Self::Start => "Start",
            Self::Pause => "Pause",
            Self::Deaf => "Deaf",
            Self::Cut => "Cut",
            Self::Rewatch => "Rewatch",
            Self::Stale => "Stale",
            Self::Map(Hand::Delete) => "Map(Delete)",
            Self::Map(Hand::Purge) => "Map(Purge)",
            Self::Map(Hand::Rubbish) => "Map(Rubbish)",
            Self::Map(Hand::PutBack) => "Map(PutBack)",
            Self::Member(Hand::Delete) => "Member(Delete)",
            Self::Member(Hand::Purge) => "Member(Purge)",
            Self::Member(Hand::Rubbish) => "Member(Rubbish)",
            Self::Member(Hand::PutBack) => "Member(PutBack)",
            Self::Resize => "Resize",
            Self::Move => "Move",
            Self::Cordon => "Cordon",
            Self::Unhealthy => "Unhealthy",
            Self::Name => "Name",
            Self::Bucket => "Bucket",
            Self::Lose => "Lose",
            Self::Restore => "Restore",
            Self::LaterMember => "LaterMember",
            Self::LaterMap => "LaterMap",
            Self::GoBack => "GoBack",
        }
    }
}

const HANDS: [Hand; 4] = [Hand::Delete, Hand::Purge, Hand::Rubbish, Hand::PutBack];

impl Faults {
    pub fn is_on(&self, now: Moment) -> bool {
        now < self.until
    }

    /// A lease, and the time between its heartbeats.
    pub fn lease(&self, chance: &mut Chance) -> (Duration, Duration) {
        let choices = if self.leases.is_empty() {
            &[(3, 3)]
        } else {
            self.leases
        };
        let (secs, beats) = choices[chance.below(choices.len())];
        let ttl = Duration::from_secs(secs);
        (ttl, ttl / beats)
    }

    /// How long a handler takes to end.
    pub fn ending(&self, now: Moment, chance: &mut Chance) -> Duration {
        let is_late = self.is_on(now) && chance.permille(self.late);
        chance.millis(1, if is_late { 12_000 } else { 30 })
    }
}

impl World {
    /// Plans the faults of a seed, until a time.
    pub fn plan_faults(&mut self, time: Duration) {
        let often = [0, 0, 10, 50, 200];
        let mut of = || often[self.chance.below(often.len())];
        self.faults = Faults {
            until: self.now + time,
            lost: of(),
            slow: of(),
            lag: of(),
            returns: of(),
            late: 2 * of(),
            amid: 2 * of(),
            stale: 2 * of(),
            wills: 4 * of(),
            leases: match of() {
                0 => &[(3, 3)],
                10 => &[(1, 3), (16, 10)],
                _ => &[(1, 3), (3, 3), (3, 4), (8, 3), (30, 10)],
            },
        };
        let crash = [Fault::Crash, Fault::Start, Fault::Start];
        let mut kinds = Vec::new();
        for some in [
            &crash[..],
            &[Fault::Leave, Fault::Start, Fault::Start],
            &[Fault::Pause],
            &[Fault::Deaf],
            &[Fault::Cut],
            &[Fault::Rewatch, Fault::Stale],
            &[Fault::Resize],
            &[Fault::Move],
            &[Fault::Cordon, Fault::Unhealthy],
            &[Fault::Name, Fault::Crash, Fault::Start],
        ] {
            if self.chance.permille(400) {
                kinds.extend(some);
            }
        }
        if self.chance.permille(120) {
            kinds.push(Fault::LaterMap);
        }
        let touches_map = self.chance.permille(500);
        if touches_map {
            kinds.extend(HANDS.map(Fault::Map));
        }
        if self.chance.permille(400) {
            // It is documented as unsafe to empty a key while the map is touched, too. The way back to
            // an earlier version touches it.
            let touches_map = touches_map || kinds.contains(&Fault::LaterMap);
            let all = HANDS.into_iter();
            let hands = all.filter(|it| !touches_map || !matches!(it, Hand::Purge));
            kinds.extend(hands.map(Fault::Member));
        }
        kinds.extend(crash);
        if self.chance.permille(100) {
            kinds.push(Fault::Bucket);
        }
        if self.chance.permille(200) {
            kinds.extend([Fault::Lose, Fault::Lose, Fault::Restore]);
        }
        if self.chance.permille(150) {
            kinds.push(Fault::LaterMember);
        }
        let count = self.chance.below(40);
        for _ in 0..count {
            let fault = kinds[self.chance.below(kinds.len())];
            let at = self
                .chance
                .below(usize::try_from(time.as_millis()).expect("small"));
            let at = Duration::from_millis(at as u64);
            self.after(at, Event::Fault(fault));
        }
    }

    pub fn fault(&mut self, fault: Fault) {
        let number = self.chance.below(self.nodes.len());
        let until = self.now + self.chance.millis(10, 8000);
        self.log(|| format!("FAULT {fault:?} n{number} {until:?}"));
        self.saw(fault.name());
        match fault {
            Fault::Crash => {
                self.will(number);
                self.crash(number);
            }
            Fault::Leave => self.leave(number),
            Fault::Start => self.start(number),
            Fault::Pause => self.nodes[number].paused_until = until,
            Fault::Deaf => self.nodes[number].deaf_until = until,
            Fault::Cut => self.nodes[number].cut_until = until,
            Fault::Rewatch => self.rewatch(number),
            Fault::Stale => self.watch_stale(number),
            Fault::Lose => {
                let count = self.chance.below(40);
                self.lose_writes(count);
            }
            Fault::Restore => {
                let count = self.stream.log.len() / (2 + self.chance.below(4));
                self.lose_writes(count);
            }
            Fault::LaterMember => self.join_later(),
            Fault::LaterMap => self.write_later_map(),
            Fault::GoBack => self.go_back(),
            Fault::Name => {
                if let Units::Names(names) = &mut self.units {
                    let name = format!("u{}", names.len());
                    names.push(UnitName::new(&name).expect("a name"));
                }
            }
            Fault::Cordon => {
                let profile = Profile {
                    cordoned: self.chance.permille(500),
                    ..Profile::default()
                };
                self.step(number, Input::Tell(profile.into()));
            }
            Fault::Unhealthy => {
                if let Some(unit) = self.nodes[number].handlers.keys().next().cloned() {
                    self.step(number, Input::Unhealthy(unit));
                }
            }
            Fault::Bucket => self.make_bucket_anew(5000),
            Fault::Map(hand) => self.touch(&Self::map_key(), hand),
            Fault::Member(hand) => {
                let keys = self.stream.keys();
                let is_member = |it: &Key| matches!(it, Key::Member(..));
                let keys: Vec<_> = keys.into_iter().filter(is_member).collect();
                if !keys.is_empty() {
                    let key = keys[self.chance.below(keys.len())].clone();
                    self.touch(&key, hand);
                }
            }
            Fault::Resize => {
                let count = 2 + u32::try_from(self.chance.below(6)).expect("small");
                if matches!(self.units, Units::Names(_)) {
                    return;
                }
                self.order(number, 0, Order::Resize(Units::Shards(count)));
            }
            Fault::Move => {
                let to = self.chance.below(self.nodes.len());
                let unit = u32::try_from(self.chance.below(4)).expect("small");
                if let Some(epoch) = self.nodes[to].epoch() {
                    let name = self.units.get(unit).map(|unit| unit.name());
                    let name = name.unwrap_or_else(|| UnitName::shard(unit));
                    self.order(number, 0, Order::Move(name, epoch));
                }
            }
        }
    }

    /// Somebody does something to a key.
    pub fn touch(&mut self, key: &Key, hand: Hand) {
        let bytes = match hand {
            Hand::Delete => Vec::new(),
            Hand::Rubbish => b"rubbish".to_vec(),
            Hand::PutBack => {
                let is_same = self.chance.permille(700);
                let log = self.stream.log.iter();
                let former: Vec<_> = log.filter(|it| !is_same || it.key == *key).collect();
                if former.is_empty() {
                    return;
                }
                former[self.chance.below(former.len())].bytes.clone()
            }
            Hand::Purge => {
                self.log(|| format!("HAND purges {key}"));
                return self.stream.purge(key);
            }
        };
        let entry = self.stream.store(key, &bytes, None);
        let (sequence, text) = (entry.sequence, brief(key, &entry.value));
        self.show_all();
        self.log(|| format!("#{sequence} HAND {text}"));
    }
}
