//! What other hands write: forged and repeated records of units and groups, tombstones, records of members,
//! and epochs of their own.

use nats_elect_core::group::{
    Epoch, GroupKey, GroupRecord, MemberContent, SeenMember, UnitKey, UnitRecord,
};
use nats_elect_core::name::{GroupName, UnitName};
use nats_elect_core::record::Content;
use nats_elect_core::release::ReleaseSecret;

use super::node::Claimed;
use super::stream::{Body, Signature};
use super::world::World;
use crate::bucket::stranger;
use crate::chance::Chance;

/// Who is named in a forged record.
#[derive(Clone, Copy, Debug)]
pub enum Named {
    Nobody,
    /// An epoch that was claimed, living or not.
    Claimed,
    /// The present epoch of a process.
    Living,
    /// An epoch that never was.
    Never,
    /// A stranger's own epoch.
    Own,
    /// A later version, rubbish, or a delete marker.
    Garbage,
    /// No one ever again.
    Closed,
}

#[derive(Clone, Copy, Debug)]
pub enum Stranger {
    /// A unit's record. `knows`: with the condition that holds.
    Unit {
        named: Named,
        knows: bool,
        signs: bool,
    },
    /// A message of a unit or a group of before, again, with its signature.
    Replay {
        knows: bool,
    },
    Tombstone {
        knows: bool,
        guesses: bool,
    },
    /// A value under a member's key.
    Member {
        garbage: bool,
    },
    /// A member that is none: its record is true, and it has no process.
    OwnEpoch,
    /// A unit is purged and created again, and its group's record follows as if it were new.
    LooksNew,
    /// A group's record says that the group is only being made.
    Making {
        knows: bool,
    },
}

impl Stranger {
    /// The record of a unit that names a living member.
    pub const FORGED: Self = Self::Unit {
        named: Named::Living,
        knows: true,
        signs: false,
    };

    pub fn draw(chance: &mut Chance) -> Self {
        let knows = chance.permille(600);
        match chance.below(12) {
            0..5 => Self::Unit {
                named: chance.pick(&[
                    Named::Nobody,
                    Named::Claimed,
                    Named::Living,
                    Named::Living,
                    Named::Never,
                    Named::Own,
                    Named::Garbage,
                    Named::Closed,
                ]),
                knows,
                signs: chance.permille(500),
            },
            5 | 6 => Self::Replay { knows },
            7 => Self::Tombstone {
                knows,
                guesses: chance.permille(300),
            },
            8 => Self::Member {
                garbage: chance.permille(500),
            },
            9 => Self::OwnEpoch,
            10 => Self::Making { knows },
            _ => Self::LooksNew,
        }
    }

    pub fn strike(self, world: &mut World) {
        match self {
            Self::Unit {
                named,
                knows,
                signs,
            } => world.forge_unit(named, knows, signs),
            Self::Replay { knows } => world.replay(knows),
            Self::Tombstone { knows, guesses } => {
                let Some(epoch) = world.any_epoch() else {
                    return;
                };
                let secret = guesses.then(|| ReleaseSecret::new(7));
                let tombstone = MemberContent::Tombstone {
                    secret,
                    identity: None,
                };
                let body = Body::Member(Content::ForeignMarker, tombstone);
                world.forge(GroupKey::Member(epoch), knows, body);
            }
            Self::Member { garbage } => world.forge_member(garbage),
            Self::OwnEpoch => {
                let claimed = world.draw_epoch(0);
                world.strangers.push(claimed);
                let body = world.stranger_record(claimed);
                world.forge(GroupKey::Member(claimed.epoch), true, body);
            }
            Self::LooksNew => world.recreate(),
            Self::Making { knows } => world.unmake(knows),
        }
    }
}

impl World {
    /// An epoch that somebody claims or claimed.
    pub fn any_epoch(&mut self) -> Option<Epoch> {
        let all: Vec<Epoch> = self.claimed.iter().map(|it| it.epoch).collect();
        (!all.is_empty()).then(|| self.chance.pick(&all))
    }

    fn forge(&mut self, key: GroupKey, knows: bool, body: Body) {
        self.tally.forged += 1;
        let over = knows.then(|| self.stream.sequence(&key));
        let _ = self.store(key, over, body);
    }

    fn any_unit(&mut self) -> Option<UnitKey> {
        let keys = self.stream.keys();
        let units: Vec<UnitKey> = keys
            .filter_map(|key| match key {
                GroupKey::Unit(unit) => Some(unit.clone()),
                GroupKey::Member(_) | GroupKey::Group(_) => None,
            })
            .collect();
        if units.is_empty() {
            return None;
        }
        let at = usize::try_from(self.chance.below(units.len() as u64)).expect("a few");
        Some(units[at].clone())
    }

    /// A unit that has a key, or one that nobody made: of a generation to come or of one that is over,
    /// a shard too many, or a name that is no shard's.
    fn a_unit(&mut self) -> Option<UnitKey> {
        let mut unit = self.any_unit()?;
        if self.chance.permille(750) {
            return Some(unit);
        }
        if self.chance.permille(500) {
            self.seems_grown(&unit.group);
            unit.generation += 1;
        }
        let names = ["0", "1", "2", "9", "01", "a", "x"];
        unit.unit = UnitName::new(self.chance.pick(&names)).expect("a name");
        Some(unit)
    }

    /// From now on nobody makes the group anew who was not told how many shards it has.
    fn seems_grown(&mut self, name: &GroupName) {
        let written = self.stream.log.iter().rev();
        let mut record = written.filter(|it| it.key == GroupKey::Group(name.clone()));
        let record = record.find_map(|it| match &it.body {
            Body::Group(Some(record)) => Some(*record),
            _ => None,
        });
        if let Some(record) = record {
            let made = GroupRecord {
                making: false,
                ..record
            };
            self.grown.entry(name.clone()).or_insert(made);
        }
    }

    fn recreate(&mut self) {
        let Some(unit) = self.any_unit() else {
            return;
        };
        let group = GroupKey::Group(unit.group.clone());
        let key = GroupKey::Unit(unit);
        self.purge(&key);
        self.forge(key, true, Body::Unit(Some(UnitRecord::Nobody), None));
        if let Some(made) = self.stream.get(&group).map(|it| it.body.clone()) {
            self.forge(group, true, made);
        }
    }

    fn unmake(&mut self, knows: bool) {
        let Some(record) = self.any_record() else {
            return;
        };
        let (name, mut record) = record;
        record.making = true;
        self.forge(GroupKey::Group(name), knows, Body::Group(Some(record)));
    }

    /// The record of a group that was written before.
    fn any_record(&mut self) -> Option<(GroupName, GroupRecord)> {
        let written = self.stream.log.iter();
        let all: Vec<_> = written
            .filter_map(|it| match (&it.key, &it.body) {
                (GroupKey::Group(name), Body::Group(Some(record))) => Some((name.clone(), *record)),
                _ => None,
            })
            .collect();
        let at = self.chance.below(all.len().max(1) as u64);
        all.get(usize::try_from(at).expect("a few")).cloned()
    }

    fn forge_unit(&mut self, named: Named, knows: bool, signs: bool) {
        let Some(unit) = self.a_unit() else {
            return;
        };
        let own = self.strangers.last().copied();
        let record = match named {
            Named::Nobody => Some(UnitRecord::Nobody),
            Named::Garbage => None,
            Named::Closed => Some(UnitRecord::Closed),
            Named::Claimed => self.any_epoch().map(UnitRecord::Owned),
            Named::Living => {
                let at = self.chance.below(self.nodes.len() as u64);
                let node = usize::try_from(at).expect("a few");
                self.nodes[node].present_epoch().map(UnitRecord::Owned)
            }
            Named::Never => Some(UnitRecord::Owned(self.draw_epoch(0).epoch)),
            Named::Own => own.map(|it| UnitRecord::Owned(it.epoch)),
        };
        let key = GroupKey::Unit(unit.clone());
        let over = self.stream.sequence(&key);
        // It has no key but its own.
        let signature = record
            .zip(own)
            .filter(|_| signs)
            .map(|(record, own)| Signature {
                by: own.epoch,
                key: unit,
                over,
                record,
            });
        self.forge(key, knows, Body::Unit(record, signature));
    }

    fn replay(&mut self, knows: bool) {
        let written = self.stream.log.iter();
        let all = written.filter(|it| matches!(it.key, GroupKey::Unit(_) | GroupKey::Group(_)));
        let all: Vec<_> = all.cloned().collect();
        if all.is_empty() {
            return;
        }
        let at = usize::try_from(self.chance.below(all.len() as u64)).expect("few");
        let stored = all[at].clone();
        self.forge(stored.key.clone(), knows, stored.body.clone());
    }

    fn forge_member(&mut self, garbage: bool) {
        let Some(epoch) = self.any_epoch() else {
            return;
        };
        let key = GroupKey::Member(epoch);
        let body = if garbage {
            let unknown = SeenMember {
                id: String::new(),
                nonce: None,
                identity: None,
                info: None,
            };
            Body::Member(stranger(None), MemberContent::Record(Box::new(unknown)))
        } else {
            // An earlier heartbeat.
            let mut earlier = self.stream.log.iter().filter(|it| it.key == key);
            let Some(stored) = earlier.next() else {
                return;
            };
            stored.body.clone()
        };
        self.forge(key, false, body);
    }

    fn stranger_record(&self, claimed: Claimed) -> Body {
        let seen = SeenMember {
            id: "stranger".to_owned(),
            nonce: None,
            identity: Some(claimed.identity),
            info: Some(self.info(0, claimed.identity.key)),
        };
        Body::Member(stranger(None), MemberContent::Record(Box::new(seen)))
    }
}
