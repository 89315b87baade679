//! The fencing tokens of promoted terms strictly increase.
//!
//! Where NATS loses confirmed writes, the order holds among the terms that were proved after the loss.

use nats_elect::FencingToken;
use nats_elect::internals::{Effect, TermStart};

use super::losses::Losses;
use super::{Note, demand};
use crate::world::World;

#[derive(Debug, Default)]
pub struct Tokens {
    last: Option<FencingToken>,
}

impl Tokens {
    pub fn hear(&mut self, world: &World, note: &Note, losses: &Losses) -> Result<(), String> {
        match note {
            Note::HistoryLost { reused: true } => self.last = None,
            Note::Wants {
                node,
                effect: Effect::StartTerm(start),
            } if !losses.excuse(world, *node, start.proved) => {
                return self.promoted(*node, start);
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
