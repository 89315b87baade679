//! The fencing tokens of promoted terms strictly increase, and each is the sequence of a fence
//! record that its leader wrote.
//!
//! Where NATS loses confirmed writes, the order holds among the terms that were proved after the
//! loss.

use std::collections::HashMap;

use nats_elect_core::token::FencingToken;
use nats_elect_core::{Effect, TermStart, WriteKind};
use uuid::Uuid;

use super::losses::Losses;
use super::{Note, demand};
use crate::world::World;

#[derive(Debug, Default)]
pub struct Tokens {
    last: Option<FencingToken>,
    /// Who wrote the fence record of a sequence.
    fences: HashMap<u64, Uuid>,
}

impl Tokens {
    pub fn hear(&mut self, world: &World, note: &Note, losses: &Losses) -> Result<(), String> {
        match note {
            Note::HistoryLost { reused: true, .. } => self.last = None,
            Note::Wants {
                node,
                effect: Effect::StartTerm(start),
            } => {
                let lost = losses.may_be_reused(start.fencing_token.sequence);
                if lost || losses.excuse(world, *node, start.proved) {
                    return Ok(());
                }
                let incarnation = world.nodes[*node].candidate.incarnation;
                let writer = self.fences.get(&start.fencing_token.sequence);
                demand(writer == Some(&incarnation), || {
                    format!("node-{node} was promoted without a fence record: {start:?}")
                })?;
                return self.promoted(*node, start);
            }
            Note::Committed { write, revision } => {
                if let WriteKind::Fence { .. } = &write.kind {
                    let incarnation = write.nonce.incarnation;
                    self.fences.insert(*revision, incarnation);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn promoted(&mut self, node: usize, start: &TermStart) -> Result<(), String> {
        let token = start.fencing_token;
        demand(self.last.is_none_or(|last| last < token), || {
            let last = self.last;
            format!("node-{node} was promoted with {token}, which is not above {last:?}")
        })?;
        self.last = Some(token);
        Ok(())
    }
}
