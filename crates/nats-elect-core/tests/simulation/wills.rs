//! Companions that release the roles of processes that died, as `last_will` has them.

use std::collections::BTreeMap;
use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::record::{Content, Release, Snapshot};
use nats_elect_core::{
    Bequest, Failure, LastWill, OpId, TermId, WillStep, Write, WriteKind, WriteOutcome,
};

use crate::chance::Chance;
use crate::checkers::{Note, Promise, Violation};
use crate::clock::Clock;
use crate::happening::Happening;
use crate::network::{Fate, Kind};
use crate::world::{World, ms};

/// How long a companion waits for an answer.
const PATIENCE: Duration = ms(80);

/// The companions of a world.
#[derive(Debug)]
pub struct Companions {
    /// Whether processes have companions here.
    pub exist: bool,
    chance: Chance,
    at_work: BTreeMap<u64, AtWork>,
    last: u64,
    /// Writes that were confirmed are gone, and a sequence proves nothing.
    pub history_lost: bool,
}

/// A companion that carries a will out.
#[derive(Debug)]
struct AtWork {
    will: LastWill,
    clock: Clock,
    /// What it asked last. Other answers are late.
    request: u64,
    /// The sequence that it read last.
    read: Option<u64>,
    cut_until: Duration,
    /// The epoch of a bucket whose sequences are never used twice.
    certain: Option<u64>,
}

/// What happens to a companion.
#[derive(Clone, Debug)]
pub enum Stage {
    /// It knows that its parent is dead. The epoch is that of the bucket, as far as it is sure.
    Died {
        epoch: Option<u64>,
    },
    /// Its release arrives.
    Arrives {
        over: u64,
        release: Release,
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
    pub const fn new(seed: u64) -> Self {
        Self {
            exist: false,
            chance: Chance::new(seed ^ 0x3177_ac7e_0000_0000),
            at_work: BTreeMap::new(),
            last: 0,
            history_lost: false,
        }
    }

    /// In half of the fleets processes have companions. Drawn apart from all else, and so that the
    /// seeds in `found` stay what they were.
    pub const fn draw(&mut self, seed: u64) {
        self.exist = Chance::new(seed ^ 0x3111_005b_0000_0000).permille(500);
    }
}

impl World {
    /// A companion is told of the present term of its process. It may not have heard of the last
    /// heartbeats yet, nor of the end of the term before.
    pub fn bequeath(&mut self, node: usize) {
        if !self.companions.exist {
            return;
        }
        let election = self.nodes[node].election.as_ref();
        let bequest = election.and_then(nats_elect_core::Election::bequest);
        if !self.companions.chance.permille(100) {
            self.nodes[node].told = bequest;
        }
    }

    /// The process is dead: its companion, if it lives, sees that sooner or later.
    pub fn mourn(&mut self, node: usize, bequest: Bequest) {
        let known = self.nodes[node].known;
        let certain = known.filter(|known| known.unique_sequences);
        let companions = &mut self.companions;
        if companions.chance.permille(100) {
            return;
        }
        let late = match companions.chance.below(10) {
            0 => bequest.lease,
            1 | 2 => ms(200),
            _ => ms(2),
        };
        let after = companions.chance.upto(late);
        let cut = if companions.chance.permille(150) {
            companions.chance.upto(bequest.lease)
        } else {
            Duration::ZERO
        };
        let epoch = certain
            .filter(|_| companions.chance.permille(700))
            .map(|bucket| bucket.epoch);
        let companion = self.companion_of(node, bequest);
        let at = self.now + after;
        if let Some(at_work) = self.companions.at_work.get_mut(&companion) {
            at_work.cut_until = at + cut;
            at_work.certain = certain.map(|bucket| bucket.epoch);
        }
        self.tally.mourned += 1;
        let stage = Stage::Died { epoch };
        self.schedule(at, Happening::Will { companion, stage });
    }

    /// The process is silent. Its companion must not take that for its death.
    pub fn fall_silent(&mut self, node: usize) {
        let Some(bequest) = self.nodes[node].told else {
            return;
        };
        let companion = self.companion_of(node, bequest);
        let now = self.nodes[node].clock.at(self.now);
        let Some(at_work) = self.companions.at_work.get_mut(&companion) else {
            return;
        };
        match at_work.will.rested(now, None) {
            WillStep::Ended(_) => drop(self.companions.at_work.remove(&companion)),
            step => self.will_steps(companion, &step),
        }
    }

    fn companion_of(&mut self, node: usize, bequest: Bequest) -> u64 {
        self.companions.last += 1;
        let at_work = AtWork {
            will: LastWill::new(bequest),
            clock: self.nodes[node].clock,
            request: 0,
            read: None,
            cut_until: Duration::ZERO,
            certain: None,
        };
        let companion = self.companions.last;
        self.companions.at_work.insert(companion, at_work);
        companion
    }

    pub fn will(&mut self, companion: u64, stage: Stage) {
        if let Stage::Arrives {
            over,
            release,
            answered,
        } = stage
        {
            self.will_arrives(companion, over, release, answered);
            return;
        }
        let Some(at_work) = self.companions.at_work.get_mut(&companion) else {
            return;
        };
        let now = at_work.clock.at(self.now);
        let step = match stage {
            Stage::Died { epoch } => at_work.will.died(now, epoch),
            Stage::Rested => {
                let knows = self.companions.chance.permille(700);
                let epoch = at_work.certain.filter(|_| knows);
                at_work.will.rested(now, epoch)
            }
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
        let (request, cut) = (at_work.request, self.now < at_work.cut_until);
        let failed = |kind: FailureKind| Failure {
            kind,
            detail: kind.as_str().to_owned(),
        };
        let latency = self.weather.latency.clone();
        let there = self.companions.chance.within(&latency);
        let back = self.companions.chance.within(&latency);
        match *step {
            WillStep::Ended(_) => drop(self.companions.at_work.remove(&companion)),
            WillStep::Pause(pause) => {
                let at = self.now + pause;
                let stage = Stage::Rested;
                self.schedule(at, Happening::Will { companion, stage });
            }
            WillStep::Read => {
                let fate = self.weather.fate(&mut self.companions.chance);
                let lost = cut || matches!(fate, Fate::Lost | Fate::AckLost);
                let outcome = if lost || self.now < self.outage_until {
                    Err(failed(FailureKind::Timeout))
                } else if self.bucket.exists {
                    let stale = self.companions.chance.permille(self.weather.stale_read);
                    let longest = self.weather.staleness.max(ms(10));
                    let ago = if stale {
                        self.companions.chance.upto(longest)
                    } else {
                        Duration::ZERO
                    };
                    Ok(Snapshot {
                        role: self.bucket.role_of(ago, self.now),
                        fence: self.bucket.fence_of(ago, self.now),
                        epoch: Some(self.bucket.made.epoch),
                        last_sequence: Some(self.bucket.last()),
                    })
                } else {
                    Err(failed(FailureKind::BucketMissing))
                };
                let took = if lost { PATIENCE } else { there + back };
                let outcome = Box::new(outcome);
                let stage = Stage::Read { request, outcome };
                self.schedule(self.now + took, Happening::Will { companion, stage });
            }
            WillStep::Release { over, release } => {
                let fate = if cut {
                    Fate::Lost
                } else {
                    self.weather.fate(&mut self.companions.chance)
                };
                self.tally.met(Kind::Release, fate);
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
                        answered,
                    };
                    self.schedule(self.now + after, Happening::Will { companion, stage });
                }
                let outcome = WriteOutcome::Failed(failed(FailureKind::Timeout));
                let stage = Stage::Written { request, outcome };
                self.schedule(self.now + PATIENCE, Happening::Will { companion, stage });
            }
        }
    }

    fn will_arrives(
        &mut self,
        companion: u64,
        over: u64,
        release: Release,
        answered: Option<(u64, Duration)>,
    ) {
        let Some(nonce) = release.nonce else {
            return;
        };
        if self.now < self.outage_until || !self.bucket.exists {
            return;
        }
        let stood = self.bucket.role().cloned();
        let write = Write {
            op: OpId(0),
            term: TermId(0),
            nonce,
            within: PATIENCE,
            kind: WriteKind::Release { over, release },
        };
        let outcome = self.bucket.write(&write, self.now);
        if let WriteOutcome::Acked { revision } = outcome {
            self.tally.willed += 1;
            let at_work = self.companions.at_work.get(&companion);
            let was_read = at_work.is_some_and(|it| it.read == Some(over));
            let is_own = stood.is_some_and(|entry| match entry.content {
                Content::Record(record) => record.incarnation == Some(nonce.incarnation),
                _ => false,
            });
            let lives = |node: &crate::node::Node| {
                node.election.is_some() && node.candidate.incarnation == nonce.incarnation
            };
            let detail = if self.nodes.iter().any(lives) {
                Some("a companion released the role of a living process")
            } else if was_read && !is_own && !self.companions.history_lost {
                Some("a companion released over a record of another incarnation")
            } else {
                None
            };
            if let (Some(detail), None) = (detail, &self.violation) {
                self.violation = Some(Violation {
                    promise: Promise::GoodConduct,
                    at: self.now,
                    detail: detail.to_owned(),
                });
            }
            self.tell(&Note::Committed {
                write: &write,
                revision,
            });
            self.announce();
        }
        if let Some((request, back)) = answered {
            let stage = Stage::Written { request, outcome };
            self.schedule(self.now + back, Happening::Will { companion, stage });
        }
    }
}
