//! Status and events agree with each other and with the truth.

use std::collections::{BTreeMap, BTreeSet};

use nats_elect_core::event::Event;
use nats_elect_core::record::Nonce;
use nats_elect_core::status::{ConnectionStatus, LeaderInfo, RoleState};
use nats_elect_core::token::FencingToken;
use nats_elect_core::{CoreStatus, Effect, Reply, RequestId, WriteKind};
use uuid::Uuid;

use super::{Note, demand};
use crate::world::World;

#[derive(Debug)]
pub struct Reports {
    nodes: Vec<Told>,
    /// Releases that took effect, by the incarnation that wrote them.
    releases: BTreeMap<Uuid, u64>,
    /// Nonces of heartbeats that took effect, by incarnation.
    beats: BTreeMap<Uuid, u64>,
}

/// What one process has told of itself.
#[derive(Clone, Debug)]
struct Told {
    state: RoleState,
    leader: Option<LeaderInfo>,
    connection: ConnectionStatus,
    /// The term that was told to have started and not to have ended.
    term: Option<(FencingToken, bool)>,
    answered: BTreeSet<u64>,
    released: u64,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            state: RoleState::Init,
            leader: None,
            connection: ConnectionStatus::Suspended,
            term: None,
            answered: BTreeSet::new(),
            released: 0,
        }
    }
}

impl Reports {
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![Told::default(); nodes],
            releases: BTreeMap::new(),
            beats: BTreeMap::new(),
        }
    }

    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::Booted { node } => {
                let incarnation = world.nodes[*node].candidate.incarnation;
                let answered = std::mem::take(&mut self.nodes[*node].answered);
                self.nodes[*node] = Told {
                    answered,
                    released: self.releases.get(&incarnation).copied().unwrap_or(0),
                    ..Told::default()
                };
                Ok(())
            }
            Note::Committed { write, .. } => {
                let Nonce { incarnation, beat } = write.nonce;
                match &write.kind {
                    WriteKind::Release { .. } => {
                        *self.releases.entry(incarnation).or_default() += 1;
                    }
                    WriteKind::Renew { .. } => {
                        self.beats.insert(incarnation, beat);
                    }
                    _ => {}
                }
                Ok(())
            }
            Note::Wants { node, effect } => match effect {
                Effect::Event(event) => self
                    .told(world, *node, event)
                    .map_err(|problem| format!("node-{node}: {problem}: {event:?}")),
                Effect::Reply { request, reply } => self
                    .replied(world, *node, *request, reply)
                    .map_err(|problem| format!("node-{node}: {problem}: {reply:?}")),
                _ => Ok(()),
            },
            Note::Stepped {
                node,
                status,
                settled: true,
                ..
            } => self
                .shows(world, *node, status)
                .map_err(|problem| format!("node-{node}: {problem}: {status:?}")),
            _ => Ok(()),
        }
    }

    fn told(&mut self, world: &World, node: usize, event: &Event) -> Result<(), String> {
        let told = &mut self.nodes[node];
        match event {
            Event::StateChanged { from, to } => {
                demand(*from == told.state, || {
                    "a change does not begin where the last one ended".to_owned()
                })?;
                demand(from.may_become(*to), || "there is no such edge".to_owned())?;
                told.state = *to;
            }
            Event::LeaderChanged(leader) => {
                demand(*leader != told.leader, || "no change".to_owned())?;
                told.leader.clone_from(leader);
            }
            Event::ConnectionChanged(connection) => {
                demand(*connection != told.connection, || "no change".to_owned())?;
                told.connection = *connection;
            }
            Event::TermStarted { fencing_token } => {
                demand(told.term.is_none(), || "within another term".to_owned())?;
                told.term = Some((*fencing_token, false));
            }
            Event::TermEnding { fencing_token, .. } => {
                demand(told.term == Some((*fencing_token, false)), || {
                    "not of the term that was told of last".to_owned()
                })?;
                told.term = Some((*fencing_token, true));
            }
            Event::TermEnded {
                fencing_token,
                released,
                ..
            } => {
                demand(told.term == Some((*fencing_token, true)), || {
                    "not of the term that was told to end".to_owned()
                })?;
                demand(!world.nodes[node].runs_handler(), || {
                    "its handler still runs".to_owned()
                })?;
                told.term = None;
                if *released {
                    self.was_released(world, node)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Each term that is told to be released has a release of its own in the bucket.
    fn was_released(&mut self, world: &World, node: usize) -> Result<(), String> {
        let incarnation = world.nodes[node].candidate.incarnation;
        let committed = self.releases.get(&incarnation).copied().unwrap_or(0);
        let told = &mut self.nodes[node];
        demand(committed > told.released, || {
            "no release took effect".to_owned()
        })?;
        told.released = committed;
        Ok(())
    }

    fn replied(
        &mut self,
        world: &World,
        node: usize,
        request: RequestId,
        reply: &Reply,
    ) -> Result<(), String> {
        let told = &mut self.nodes[node];
        demand(told.answered.insert(request.0), || {
            format!("{request:?} is answered twice")
        })?;
        if let Reply::Proved(token) = reply {
            demand(told.term == Some((*token, false)), || {
                "proved without being in that term".to_owned()
            })?;
            let incarnation = world.nodes[node].candidate.incarnation;
            demand(self.beats.contains_key(&incarnation), || {
                "proved without a heartbeat in the bucket".to_owned()
            })?;
        }
        Ok(())
    }

    fn shows(&self, world: &World, node: usize, status: &CoreStatus) -> Result<(), String> {
        let told = &self.nodes[node];
        demand(status.state == told.state, || {
            format!("events told of the state {}", told.state)
        })?;
        demand(status.leader == told.leader, || {
            format!("events told of the leader {:?}", told.leader)
        })?;
        demand(status.connection == told.connection, || {
            format!("events told of the connection {:?}", told.connection)
        })?;
        let terms = &world.nodes[node].terms;
        let acting = terms.values().any(|term| term.acting.is_some());
        demand(acting == (status.state == RoleState::Leader), || {
            "the application's view of leadership differs".to_owned()
        })?;
        demand(
            acting == status.leader.as_ref().is_some_and(|leader| leader.is_self),
            || "it names itself without leading, or does not while it leads".to_owned(),
        )?;
        let running = terms.values().any(|term| term.running);
        demand(
            !running || matches!(status.state, RoleState::Leader | RoleState::Draining),
            || "a handler runs".to_owned(),
        )?;
        if let Some((token, _)) = told.term {
            demand(status.fencing_token == Some(token), || {
                format!("the term's token is {token}")
            })?;
        }
        if acting {
            let lease = terms.values().find(|term| term.acting.is_some());
            let lease = lease.map(|term| term.lease);
            demand(status.lease_until == lease, || {
                format!("the application's lease ends at {lease:?}")
            })?;
        }
        demand(
            status
                .revision
                .is_none_or(|seen| seen <= world.bucket.highest()),
            || "it shows a revision that never was".to_owned(),
        )
    }
}
