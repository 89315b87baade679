//! Requests to the server, what becomes of them on their way, and their answers.

use std::sync::Arc;
use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::group::{Epoch, GroupInput, GroupKey, MemberContent};
use nats_elect_core::record::{Entry, Snapshot};
use nats_elect_core::{Failure, Input, OpId, WriteOutcome};

use super::node::{Node, Sender};
use super::stream::{Body, Stored};
use super::world::{Happening, World};
use crate::network::{Fate, Wire};

/// Which request a fate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Heartbeat,
    Unit,
    Tombstone,
    Group,
    Read,
}

impl Kind {
    pub const WRITES: [Self; 4] = [Self::Heartbeat, Self::Unit, Self::Tombstone, Self::Group];
}

/// A request on its way.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "few at a time")]
pub enum Request {
    Read(Epoch),
    Store {
        key: GroupKey,
        over: u64,
        body: Body,
    },
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "few at a time")]
pub enum Answer {
    Write(WriteOutcome),
    Read(Result<Snapshot, Failure>),
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug)]
pub struct Asker {
    pub node: usize,
    pub life: u64,
    pub sender: Sender,
    pub op: OpId,
    pub reads: bool,
}

impl Asker {
    fn failed(&self, kind: FailureKind) -> Answer {
        let detail = kind.as_str().to_owned();
        let failure = Failure { kind, detail };
        if self.reads {
            Answer::Read(Err(failure))
        } else {
            Answer::Write(WriteOutcome::Failed(failure))
        }
    }
}

impl World {
    pub fn send(
        &mut self,
        node: usize,
        (sender, op): (Sender, OpId),
        timeout: Duration,
        kind: Kind,
        request: Request,
    ) {
        let now = self.now;
        let at = &mut self.nodes[node];
        let open = at.linked && at.wire.carries_requests();
        let planned = at.planned(kind);
        let asker = Asker {
            node,
            life: at.life,
            sender,
            op,
            reads: kind == Kind::Read,
        };
        if let Some(process) = &mut at.process {
            process.requests.insert((sender, op), false);
        }
        let fate = if open {
            planned.unwrap_or_else(|| self.weather.fate(&mut self.chance))
        } else {
            Fate::Lost
        };
        self.tally.met(kind, fate);
        let (there, back) = (self.latency(), self.latency());
        let request = Arc::new(request);
        let arrival = |back| Happening::Arrive {
            asker,
            request: request.clone(),
            back,
        };
        match fate {
            Fate::Delivered => self.schedule(now + there, arrival(Some(back))),
            Fate::Slow(on_its_way) => self.schedule(now + on_its_way, arrival(Some(back))),
            Fate::Lost => {}
            Fate::AckLost => self.schedule(now + there, arrival(None)),
            Fate::Doubted => {
                self.schedule(now + there, arrival(None));
                let answer = asker.failed(FailureKind::Unavailable);
                self.schedule(now + there + back, Happening::Answer { asker, answer });
            }
            Fate::Ghost(after) => self.schedule(now + timeout + after, arrival(None)),
            Fate::Twice(after) => {
                self.schedule(now + there, arrival(Some(back)));
                self.schedule(now + there + after, arrival(Some(back)));
            }
            Fate::Denied | Fate::Contended => {
                let answer = asker.failed(FailureKind::Contended);
                self.schedule(now + there, Happening::Answer { asker, answer });
            }
        }
        self.schedule(now + timeout, Happening::TimedOut { asker });
    }

    pub fn arrive(&mut self, asker: Asker, request: &Request, back: Option<Duration>) {
        let answer = match request {
            _ if self.now < self.outage_until => {
                // A stream without a leader answers nothing, or that it can't.
                if self.chance.permille(500) {
                    return;
                }
                asker.failed(FailureKind::Unavailable)
            }
            Request::Read(epoch) => {
                let ago = self.staleness();
                let key = GroupKey::Member(*epoch);
                let stands = if ago.is_zero() {
                    self.stream.get(&key).cloned()
                } else {
                    self.stream.read(&key, self.now.saturating_sub(ago))
                };
                Answer::Read(Ok(Snapshot {
                    role: stands.as_deref().and_then(entry),
                    fence: None,
                    epoch: Some(self.stream.made.epoch),
                    last_sequence: Some(self.stream.last),
                }))
            }
            Request::Store { key, over, body } => {
                let stored = self.store(key.clone(), Some(*over), body.clone());
                self.tally.refused += u64::from(stored.is_err());
                if stored.is_ok()
                    && let Body::Member(_, MemberContent::Tombstone { secret: None, .. }) = body
                {
                    self.deposed(asker.node, key);
                }
                Answer::Write(match stored {
                    Ok(sequence) => WriteOutcome::Acked { revision: sequence },
                    Err(stands) => WriteOutcome::Conflict {
                        current: Some(stands),
                    },
                })
            }
        };
        if let Some(back) = back {
            self.schedule(self.now + back, Happening::Answer { asker, answer });
        }
    }

    /// A tombstone by another member took effect.
    fn deposed(&mut self, by: usize, key: &GroupKey) {
        let holds = |node: &Node| key.member().is_some_and(|it| node.has_lease(it, self.now));
        if !self.history_lost && self.nodes.iter().any(holds) {
            let detail = format!("node-{by} deposes {key}, which has a lease");
            let violation = self.broken_conduct(detail);
            self.violation.get_or_insert(violation);
        }
    }

    fn staleness(&mut self) -> Duration {
        if self.chance.permille(self.weather.stale_read) {
            self.tally.stale_reads += 1;
            let longest = self.weather.staleness;
            return self.chance.upto(longest);
        }
        Duration::ZERO
    }

    /// An answer needs a way back.
    pub fn answer(&mut self, asker: Asker, answer: Answer) {
        let node = &mut self.nodes[asker.node];
        if !node.linked || !matches!(node.wire, Wire::Whole | Wire::Mute) {
            return;
        }
        let Some(process) = &mut node.process else {
            return;
        };
        if let Some(late) = process.requests.remove(&(asker.sender, asker.op)) {
            self.tally.late_answers += u64::from(late);
            self.deliver(asker, answer);
        }
    }

    /// The sender is told that no answer came in time. The answer may come yet.
    pub fn timed_out(&mut self, asker: Asker) {
        let Some(process) = &mut self.nodes[asker.node].process else {
            return;
        };
        if let Some(given_up) = process.requests.get_mut(&(asker.sender, asker.op)) {
            *given_up = true;
            self.deliver(asker, asker.failed(FailureKind::Timeout));
        }
    }

    fn deliver(&mut self, asker: Asker, answer: Answer) {
        let Asker {
            node, sender, op, ..
        } = asker;
        match (sender, answer) {
            (None, Answer::Write(outcome)) => {
                self.group_input(node, GroupInput::WriteEnded { op, outcome });
            }
            (None, Answer::Read(_)) => unreachable!("the machine reads nothing"),
            (Some(epoch), Answer::Write(outcome)) => {
                self.keeper_input(node, epoch, Input::WriteEnded { op, outcome });
            }
            (Some(epoch), Answer::Read(outcome)) => {
                self.keeper_input(node, epoch, Input::ReadEnded { op, outcome });
            }
        }
    }
}

/// A message under a member's key, as its election reads it.
pub fn entry(stored: &Stored) -> Option<Entry> {
    let Body::Member(content, _) = &stored.body else {
        return None;
    };
    Some(Entry {
        revision: stored.sequence,
        content: content.clone(),
    })
}
