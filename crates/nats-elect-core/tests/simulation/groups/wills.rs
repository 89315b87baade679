//! Companions that release the leases of processes that died, as `last_will` has them.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::group::{GroupKey, Identity, MemberContent};
use nats_elect_core::record::{Content, Release, Snapshot};
use nats_elect_core::{Bequest, Failure, LastWill, WillStep, WriteOutcome};

use super::requests::entry;
use super::stream::Body;
use super::world::{Happening, World};
use crate::chance::Chance;
use crate::clock::Clock;
use crate::network::Fate;
use crate::world::ms;

/// How long a companion waits for an answer.
const PATIENCE: Duration = ms(80);

/// The companions of a world.
#[derive(Debug)]
pub struct Companions {
    /// Whether processes have companions here.
    exist: bool,
    chance: Chance,
    at_work: BTreeMap<u64, AtWork>,
    last: u64,
}

/// A companion that carries the will of one epoch out.
#[derive(Debug)]
struct AtWork {
    will: LastWill,
    identity: Identity,
    clock: Clock,
    /// What it asked last. Other answers are late.
    request: u64,
    /// The sequence that it read last.
    read: Option<u64>,
    cut_until: Duration,
}

/// What happens to a companion.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "dozens at a time")]
pub enum Stage {
    /// It knows that its parent is dead.
    Died,
    /// Its release arrives.
    Arrives {
        over: u64,
        release: Release,
        identity: Identity,
        answered: Option<(u64, Duration)>,
    },
    Written {
        request: u64,
        outcome: WriteOutcome,
    },
    Read {
        request: u64,
        outcome: Box<Result<Snapshot, Failure>>,
    },
    Rested,
}

impl Companions {
    /// In half of the fleets processes have companions. Drawn apart from all else, so that seeds
    /// stay what they were.
    pub const fn of_seed(seed: u64) -> Self {
        let mut chance = Chance::new(seed ^ 0x3177_6e0d_0000_0000);
        Self {
            exist: chance.permille(500),
            chance,
            at_work: BTreeMap::new(),
            last: 0,
        }
    }
}

impl World {
    /// A companion is told of the lease of an epoch. It may not have heard of the last heartbeats
    /// yet, nor of the end of the lease.
    pub fn bequeath(&mut self, node: usize, identity: Identity, bequest: Option<Bequest>) {
        if !self.companions.exist || self.companions.chance.permille(100) {
            return;
        }
        let told = &mut self.nodes[node].told;
        match bequest {
            Some(bequest) => drop(told.insert(identity, bequest)),
            None => drop(told.remove(&identity)),
        }
    }

    /// The process is dead: its companion, if it lives, sees that sooner or later.
    pub fn mourn(&mut self, node: usize) {
        let told = std::mem::take(&mut self.nodes[node].told);
        let companions = &mut self.companions;
        if told.is_empty() || companions.chance.permille(100) {
            return;
        }
        let ttl = self.nodes[node].settings.ttl;
        let late = match companions.chance.below(10) {
            0 => ttl,
            1 | 2 => ms(200),
            _ => ms(2),
        };
        let after = companions.chance.upto(late);
        let cut = if companions.chance.permille(150) {
            companions.chance.upto(ttl)
        } else {
            Duration::ZERO
        };
        let at = self.now + after;
        self.tally.mourned += 1;
        for (identity, bequest) in told {
            let companion = self.companion_of(node, identity, bequest, at + cut);
            let stage = Stage::Died;
            self.schedule(at, Happening::Will { companion, stage });
        }
    }

    /// The process is silent. Its companion must not take that for its death.
    pub fn fall_silent(&mut self, node: usize) {
        for (identity, bequest) in self.nodes[node].told.clone() {
            let companion = self.companion_of(node, identity, bequest, self.now);
            self.will(companion, Stage::Rested);
        }
    }

    fn companion_of(
        &mut self,
        node: usize,
        identity: Identity,
        bequest: Bequest,
        cut_until: Duration,
    ) -> u64 {
        self.companions.last += 1;
        let companion = self.companions.last;
        let at_work = AtWork {
            will: LastWill::new(bequest),
            identity,
            clock: self.nodes[node].clock,
            request: 0,
            read: None,
            cut_until,
        };
        self.companions.at_work.insert(companion, at_work);
        companion
    }

    pub fn will(&mut self, companion: u64, stage: Stage) {
        if let Stage::Arrives {
            over,
            release,
            identity,
            answered,
        } = stage
        {
            self.will_arrives(companion, over, release, identity, answered);
            return;
        }
        // It is not always sure of the bucket.
        let sure = self.stream.made.unique_sequences && self.companions.chance.permille(700);
        let bucket = sure.then_some(self.stream.made.epoch);
        let Some(at_work) = self.companions.at_work.get_mut(&companion) else {
            return;
        };
        let now = at_work.clock.at(self.now);
        let step = match stage {
            Stage::Died => at_work.will.died(now, bucket),
            Stage::Rested => at_work.will.rested(now, bucket),
            Stage::Written { request, outcome } if request == at_work.request => {
                at_work.request += 1;
                at_work.will.written(now, &outcome)
            }
            Stage::Read { request, outcome } if request == at_work.request => {
                at_work.request += 1;
                if let Ok(snapshot) = &*outcome {
                    at_work.read = snapshot.role.as_ref().map(|entry| entry.revision);
                }
                at_work.will.read(now, &outcome)
            }
            Stage::Written { .. } | Stage::Read { .. } | Stage::Arrives { .. } => return,
        };
        self.will_steps(companion, &step);
    }

    fn will_steps(&mut self, companion: u64, step: &WillStep) {
        if self.trace {
            eprintln!("{:>13.6?} companion {companion} {step:?}", self.now);
        }
        let Some(at_work) = self.companions.at_work.get(&companion) else {
            return;
        };
        let (request, identity) = (at_work.request, at_work.identity);
        let chance = &mut self.companions.chance;
        let fate = if self.now < at_work.cut_until {
            Fate::Lost
        } else {
            self.weather.fate(chance)
        };
        let latency = self.weather.latency.clone();
        let (there, back) = (chance.within(&latency), chance.within(&latency));
        let unanswered = Failure {
            kind: FailureKind::Timeout,
            detail: FailureKind::Timeout.as_str().to_owned(),
        };
        match *step {
            WillStep::Ended(_) => drop(self.companions.at_work.remove(&companion)),
            WillStep::Pause(pause) => self.will_in(pause, companion, Stage::Rested),
            WillStep::Read => {
                let is_lost = matches!(fate, Fate::Lost | Fate::AckLost);
                let (took, outcome) = if is_lost || self.now < self.outage_until {
                    (PATIENCE, Err(unanswered))
                } else {
                    (there + back, Ok(self.read_by_will(&identity)))
                };
                let outcome = Box::new(outcome);
                self.will_in(took, companion, Stage::Read { request, outcome });
            }
            WillStep::Release { over, release } => {
                let answered = Some((request, back));
                let arrivals = match fate {
                    Fate::Delivered => vec![(there, answered)],
                    Fate::Slow(after) => vec![(after, answered)],
                    Fate::AckLost | Fate::Doubted => vec![(there, None)],
                    Fate::Ghost(after) => vec![(PATIENCE + after, None)],
                    Fate::Twice(after) => vec![(there, answered), (there + after, None)],
                    Fate::Lost | Fate::Denied | Fate::Contended => vec![],
                };
                for (after, answered) in arrivals {
                    let stage = Stage::Arrives {
                        over,
                        release,
                        identity,
                        answered,
                    };
                    self.will_in(after, companion, stage);
                }
                let outcome = WriteOutcome::Failed(unanswered);
                self.will_in(PATIENCE, companion, Stage::Written { request, outcome });
            }
        }
    }

    fn will_in(&mut self, time: Duration, companion: u64, stage: Stage) {
        self.schedule(self.now + time, Happening::Will { companion, stage });
    }

    fn read_by_will(&mut self, identity: &Identity) -> Snapshot {
        let key = GroupKey::Member(identity.epoch());
        let stands = if self.companions.chance.permille(self.weather.stale_read) {
            let ago = self.companions.chance.upto(self.weather.staleness);
            self.stream.read(&key, self.now.saturating_sub(ago))
        } else {
            self.stream.get(&key).cloned()
        };
        Snapshot {
            role: stands.as_deref().and_then(entry),
            fence: None,
            epoch: Some(self.stream.made.epoch),
            last_sequence: Some(self.stream.last),
        }
    }

    fn will_arrives(
        &mut self,
        companion: u64,
        over: u64,
        release: Release,
        identity: Identity,
        answered: Option<(u64, Duration)>,
    ) {
        if self.now < self.outage_until {
            return;
        }
        let key = GroupKey::Member(identity.epoch());
        let stood = self.stream.get(&key).cloned();
        let tombstone = MemberContent::Tombstone {
            secret: release.secret,
            identity: Some(identity),
        };
        let body = Body::Member(Content::Release(release), tombstone);
        let stored = self.store(key, Some(over), body);
        if stored.is_ok() {
            self.tally.willed += 1;
            let at_work = self.companions.at_work.get(&companion);
            let was_read = at_work.is_some_and(|it| it.read == Some(over));
            let incarnation = release.nonce.map(|nonce| nonce.incarnation);
            let stood = stood.as_deref().and_then(entry);
            let is_own = stood.is_some_and(|entry| match entry.content {
                Content::Record(record) => record.incarnation == incarnation,
                _ => false,
            });
            let mut processes = self.nodes.iter().filter_map(|it| it.process.as_ref());
            let broken = if processes.any(|it| it.own.contains(&identity.epoch())) {
                Some("a companion released the lease of a living process")
            } else if was_read && !is_own && !self.history_lost {
                Some("a companion released over a record of another incarnation")
            } else {
                None
            };
            if let Some(detail) = broken {
                self.judge(Err(self.broken_conduct(detail.to_owned())));
            }
        }
        if let Some((request, back)) = answered {
            let outcome = match stored {
                Ok(revision) => WriteOutcome::Acked { revision },
                Err(stands) => WriteOutcome::Conflict {
                    current: Some(stands),
                },
            };
            self.will_in(back, companion, Stage::Written { request, outcome });
        }
    }
}
