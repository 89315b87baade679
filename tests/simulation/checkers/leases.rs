//! At no true instant do two instances hold a valid lease on the role.
//!
//! Where NATS loses what it has confirmed this can't be had: nothing tells the one who rests on it. What is promised
//! instead is that such a lease is not extended: it ends with the deadline that it had. So a lease whose last proof was sent
//! before the loss may overlap with another, one that was proved after it may not.
//!
//! Where sequences are given again, by a stream that lost its end or by a bucket that numbers from 1, a stale heartbeat may
//! by chance meet the very sequence that it expects, and displace the record of a new leader, who learns of it by its own next
//! heartbeat. That can happen for as long as a lease of before the loss lasts.

use std::time::Duration;

use super::Note;
use crate::world::World;

#[derive(Debug, Default)]
pub struct Leases {
    lost_at: Option<Duration>,
}

impl Leases {
    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::HistoryLost { reused } => {
                let longest = world.nodes.iter().map(|node| node.settings.ttl).max();
                let chance = longest.filter(|_| *reused).unwrap_or_default();
                self.lost_at = self.lost_at.max(Some(world.now + chance));
            }
            Note::Moved { .. } => return self.one_at_most(world),
            _ => {}
        }
        Ok(())
    }

    fn one_at_most(&self, world: &World) -> Result<(), String> {
        let mut valid = world.nodes.iter().enumerate().flat_map(|(i, node)| {
            node.valid_terms(world.now)
                .filter(|(_, term)| {
                    self.lost_at
                        .is_none_or(|lost_at| node.clock.when(term.proved) > lost_at)
                })
                .map(move |(id, _)| (i, id))
        });
        match (valid.next(), valid.next()) {
            (Some(one), Some(other)) => Err(format!("two leaders: node-{one:?}, node-{other:?}")),
            _ => Ok(()),
        }
    }
}
