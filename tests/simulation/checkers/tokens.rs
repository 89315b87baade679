//! The fencing tokens of promoted terms strictly increase.
//!
//! Where NATS loses confirmed writes, the order holds among what was proved after the loss, and with the fence record that
//! survived it.

use std::time::Duration;

use nats_elect::FencingToken;
use nats_elect::internals::{Effect, TermStart};

use super::{Note, demand};
use crate::world::World;

#[derive(Debug, Default)]
pub struct Tokens {
    last: Option<FencingToken>,
    lost_at: Option<Duration>,
}

impl Tokens {
    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::HistoryLost { reused } => {
                let longest = world.nodes.iter().map(|node| node.settings.ttl).max();
                let chance = longest.filter(|_| *reused).unwrap_or_default();
                self.lost_at = self.lost_at.max(Some(world.now + chance));
                if *reused {
                    self.last = world.bucket.fence().map(|fence| FencingToken {
                        epoch: world.bucket.made.epoch,
                        sequence: fence.revision,
                    });
                }
            }
            Note::Wants {
                node,
                effect: Effect::StartTerm(start),
            } => return self.promoted(world, *node, start),
            _ => {}
        }
        Ok(())
    }

    fn promoted(&mut self, world: &World, node: usize, start: &TermStart) -> Result<(), String> {
        let sent = world.nodes[node].clock.when(start.proved);
        if self.lost_at.is_some_and(|lost_at| sent <= lost_at) {
            return Ok(());
        }
        let token = start.fencing_token;
        demand(self.last.is_none_or(|last| last < token), || {
            let last = self.last;
            format!("node-{node} was promoted with {token}, which is not above {last:?}")
        })?;
        self.last = Some(token);
        Ok(())
    }
}
