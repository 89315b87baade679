//! The rules of the protocol and of the core's interface: one request at a time, no write without
//! having seen what it replaces, no nonce twice, nothing freed or claimed under a running handler,
//! no lease that comes back, no busy loop.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use nats_elect_core::peer::{PeerReply, PeerRequest};
use nats_elect_core::record::{Entry, Nonce};
use nats_elect_core::{Effect, Input, Link, Moment, OpId, Write, WriteKind, WriteOutcome};

use uuid::Uuid;

use super::{Note, demand};
use crate::network::Kind;
use crate::world::World;

/// More steps of one instance than this in a hundredth of a virtual second are a busy loop: a round
/// trip takes most of a millisecond.
const MOST_STEPS: usize = 150;

#[derive(Debug)]
pub struct Conduct {
    nonces: HashSet<Nonce>,
    /// Where the records that took effect stand, and the last claim of each incarnation.
    records: HashMap<Nonce, u64>,
    claims: HashMap<Uuid, u64>,
    nodes: Vec<Seen>,
}

/// What a request under way is for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Read,
    Heartbeat { over: u64 },
    Write,
}

impl Asked {
    const fn of(kind: &WriteKind) -> Self {
        match kind {
            WriteKind::Renew { over, .. } => Self::Heartbeat { over: *over },
            WriteKind::Claim { .. } | WriteKind::Fence { .. } | WriteKind::Release { .. } => {
                Self::Write
            }
        }
    }
}

/// What one process was shown.
#[derive(Clone, Debug, Default)]
struct Seen {
    linked: bool,
    /// The record that the last request to yield was about.
    asked: Option<Nonce>,
    pending: Option<(OpId, Asked)>,
    role: HashSet<u64>,
    fence: HashSet<u64>,
    steps: VecDeque<Duration>,
    /// The step was taken for what the watch brought: after a pause of the process there may be
    /// much of that.
    watched: bool,
}

impl Conduct {
    pub fn new(nodes: usize) -> Self {
        Self {
            nonces: HashSet::new(),
            records: HashMap::new(),
            claims: HashMap::new(),
            nodes: vec![Seen::default(); nodes],
        }
    }

    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::Booted { node } | Note::Died { node } => self.nodes[*node] = Seen::default(),
            Note::Takes { node, input } => {
                let own = world.nodes[*node].candidate.incarnation;
                self.nodes[*node].takes(input, own);
            }
            Note::Committed { write, revision } => self.committed(write, *revision),
            Note::HistoryLost { .. } => self.claims.clear(),
            Note::Wants { node, effect } => {
                self.wants(world, *node, effect)
                    .map_err(|problem| format!("node-{node}: {problem}: {effect:?}"))?;
            }
            Note::Stepped { node, now, due, .. } => {
                self.nodes[*node]
                    .stepped(world.now, *now, *due)
                    .map_err(|problem| format!("node-{node} {problem}"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn committed(&mut self, write: &Write, revision: u64) {
        if let WriteKind::Claim { .. } = write.kind {
            self.claims.insert(write.nonce.incarnation, revision);
        }
        if let WriteKind::Claim { .. } | WriteKind::Renew { .. } = write.kind {
            self.records.insert(write.nonce, revision);
        }
    }

    fn wants(&mut self, world: &World, node: usize, effect: &Effect) -> Result<(), String> {
        let seen = &mut self.nodes[node];
        match effect {
            Effect::Write(write) => {
                seen.begins(write.op, Asked::of(&write.kind))?;
                seen.may_write(world, node, write)?;
                demand(self.nonces.insert(write.nonce), || {
                    "a nonce is used twice".to_owned()
                })
            }
            Effect::Read { op, .. } => seen.begins(*op, Asked::Read),
            Effect::Extend { term, lease, .. } => {
                let shared = &world.nodes[node].terms[term];
                demand(shared.revoked.is_none(), || {
                    "a revoked lease is extended".to_owned()
                })?;
                demand(*lease >= shared.lease, || {
                    "a heartbeat shortens a lease".to_owned()
                })?;
                let now = world.nodes[node].clock.at(world.now);
                demand(now < shared.lease, || {
                    "a lease is extended after its end".to_owned()
                })
            }
            Effect::AnswerPeer {
                answer: PeerReply::Yielding,
                ..
            } => {
                let asked = seen.asked.and_then(|record| self.records.get(&record));
                let incarnation = world.nodes[node].candidate.incarnation;
                let claim = self.claims.get(&incarnation);
                demand(claim.is_none() || asked >= claim, || {
                    "it yields to a request for another term".to_owned()
                })
            }
            Effect::Cancel { term } => {
                demand(world.nodes[node].terms[term].acting.is_none(), || {
                    "cancelled before it resigned".to_owned()
                })
            }
            _ => Ok(()),
        }
    }
}

impl Seen {
    fn takes(&mut self, input: &Input, own: Uuid) {
        let is_own = |entry: &Entry| {
            let nonce = entry.content.nonce();
            nonce.is_some_and(|nonce| nonce.incarnation == own)
        };
        self.watched = matches!(input, Input::Observed(_) | Input::ObservedFence(_));
        match input {
            Input::PeerAsked {
                question:
                    PeerRequest::Yield {
                        incarnation, beat, ..
                    },
                ..
            } => {
                let (incarnation, beat) = (*incarnation, *beat);
                self.asked = Some(Nonce { incarnation, beat });
            }
            Input::Link(link) => self.linked = matches!(link, Link::Up(_)),
            Input::ObservedFence(fence) => {
                self.fence.insert(fence.revision);
            }
            Input::Observed(entry) => {
                // So does the sight of a write of its own.
                self.spared_by(entry.revision, is_own(entry));
                self.role.insert(entry.revision);
            }
            Input::ReadEnded { op, outcome } => {
                self.ends(*op);
                if let Ok(snapshot) = outcome {
                    let revision = snapshot.role.as_ref().map_or(0, |entry| entry.revision);
                    // An answer that came late answers what was asked again, too.
                    self.spared_by(revision, snapshot.role.as_ref().is_some_and(is_own));
                    self.role.insert(revision);
                    self.fence
                        .insert(snapshot.fence.map_or(0, |fence| fence.revision));
                }
            }
            Input::WriteEnded { op, outcome } => {
                self.ends(*op);
                if let WriteOutcome::Acked { revision } = outcome {
                    // An answer that came late spares the read that was to find out.
                    self.spared_by(*revision, true);
                    self.role.insert(*revision);
                    self.fence.insert(*revision);
                }
            }
            _ => {}
        }
    }

    fn ends(&mut self, op: OpId) {
        self.pending.take_if(|(pending, _)| *pending == op);
    }

    /// This is now known to stand in the role's key, or to have stood there: a read under way need
    /// not tell. If it is of this instance, a heartbeat over what came before can't be stored any
    /// more; if not, its refusal tells of that.
    fn spared_by(&mut self, revision: u64, own: bool) {
        self.pending.take_if(|(_, asked)| match asked {
            Asked::Read => true,
            Asked::Heartbeat { over } => own && *over < revision,
            Asked::Write => false,
        });
    }

    fn begins(&mut self, op: OpId, asked: Asked) -> Result<(), String> {
        demand(self.linked, || "sent without a link".to_owned())?;
        demand(self.pending.is_none(), || {
            "a second request is sent".to_owned()
        })?;
        self.pending = Some((op, asked));
        Ok(())
    }

    fn may_write(&self, world: &World, node: usize, write: &Write) -> Result<(), String> {
        let known = match &write.kind {
            WriteKind::Claim { over, .. }
            | WriteKind::Renew { over, .. }
            | WriteKind::Release { over, .. } => self.role.contains(over),
            WriteKind::Fence { over, .. } => *over == 0 || self.fence.contains(over),
        };
        demand(known, || "it was never shown what it replaces".to_owned())?;
        if Kind::of(&write.kind) == Kind::Renew {
            return Ok(());
        }
        let sender = &world.nodes[node];
        demand(!sender.runs_handler(), || {
            "written while a handler runs".to_owned()
        })?;
        demand(sender.valid_terms(world.now).next().is_none(), || {
            "written before the lease was revoked".to_owned()
        })
    }

    fn stepped(&mut self, at: Duration, now: Moment, due: Option<Moment>) -> Result<(), String> {
        demand(due.is_none_or(|due| due > now), || {
            format!("wants to be woken in the past: {due:?} at {now:?}")
        })?;
        if self.watched {
            return Ok(());
        }
        self.steps.push_back(at);
        while self
            .steps
            .front()
            .is_some_and(|first| at - *first > Duration::from_millis(10))
        {
            self.steps.pop_front();
        }
        demand(self.steps.len() < MOST_STEPS, || {
            "is in a busy loop".to_owned()
        })
    }
}
