//! What goes wrong.

use std::time::Duration;

use nats_elect_core::Moment;
use nats_elect_core::assignment::{Key, Units};
use nats_elect_core::member::Order;
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
    /// The leases of those that start, in seconds. Empty: three.
    pub leases: &'static [u64],
}

/// A fault at a time.
#[derive(Clone, Copy, Debug)]
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
    /// Somebody writes the map's key.
    Map(Hand),
    /// Somebody writes a member's key.
    Member(Hand),
    Resize,
    Move,
    /// The bucket is made anew.
    Bucket,
    /// Confirmed writes are lost.
    Lose,
}

/// What somebody does to a key.
#[derive(Clone, Copy, Debug)]
pub enum Hand {
    Delete,
    Purge,
    Rubbish,
    /// A former value of the same key, or of another one.
    PutBack,
}

const HANDS: [Hand; 4] = [Hand::Delete, Hand::Purge, Hand::Rubbish, Hand::PutBack];

impl Faults {
    pub fn is_on(&self, now: Moment) -> bool {
        now < self.until
    }

    pub fn ttl(&self, chance: &mut Chance) -> Duration {
        let choices = if self.leases.is_empty() {
            &[3]
        } else {
            self.leases
        };
        Duration::from_secs(choices[chance.below(choices.len())])
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
            leases: if of() > 0 { &[1, 3, 3, 8, 30] } else { &[3] },
        };
        let crash = [Fault::Crash, Fault::Start, Fault::Start];
        let mut kinds = Vec::new();
        for some in [
            &crash[..],
            &[Fault::Leave, Fault::Start, Fault::Start],
            &[Fault::Pause],
            &[Fault::Deaf],
            &[Fault::Cut],
            &[Fault::Rewatch],
            &[Fault::Resize],
            &[Fault::Move],
        ] {
            if self.chance.permille(400) {
                kinds.extend(some);
            }
        }
        let touches_map = self.chance.permille(500);
        if touches_map {
            kinds.extend(HANDS.map(Fault::Map));
        }
        if self.chance.permille(400) {
            // Emptying a key while the map is touched, too, is documented as unsafe.
            let all = HANDS.into_iter();
            let hands = all.filter(|it| !touches_map || !matches!(it, Hand::Purge));
            kinds.extend(hands.map(Fault::Member));
        }
        kinds.extend(crash);
        if self.chance.permille(100) {
            kinds.push(Fault::Bucket);
        }
        if self.chance.permille(200) {
            kinds.push(Fault::Lose);
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
        match fault {
            Fault::Crash => self.crash(number),
            Fault::Leave => self.leave(number),
            Fault::Start => self.start(number),
            Fault::Pause => self.nodes[number].paused_until = until,
            Fault::Deaf => self.nodes[number].deaf_until = until,
            Fault::Cut => self.nodes[number].cut_until = until,
            Fault::Rewatch => self.rewatch(number),
            Fault::Lose => {
                let count = self.chance.below(40);
                self.lose_writes(count);
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
                self.order(number, 0, Order::Resize(Units::Shards(count)));
            }
            Fault::Move => {
                let to = self.chance.below(self.nodes.len());
                let unit = u32::try_from(self.chance.below(4)).expect("small");
                if let Some(epoch) = self.nodes[to].epoch() {
                    self.order(number, 0, Order::Move(UnitName::shard(unit), epoch));
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
