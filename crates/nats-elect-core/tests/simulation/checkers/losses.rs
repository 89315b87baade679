//! What NATS has lost although it was confirmed, and which leases that leaves in the air.
//!
//! Nothing tells an instance that the write on which it rests is gone. What is promised instead of
//! a single leader is that such a lease is not extended: it ends with the deadline that it had.
//!
//! Where sequences are given again, by a stream that lost its end or a bucket that numbers from 1,
//! there is more: an old heartbeat, or the claim of somebody who saw the old record expire, may by
//! chance meet the very sequence that it expects and displace a record. A lease is safe from that
//! as soon as it rests on a sequence above all that were lost.

use std::collections::HashMap;
use std::time::Duration;

use nats_elect_core::record::Nonce;
use nats_elect_core::{Effect, Input, Link, Moment};

use super::Note;
use crate::world::World;

#[derive(Debug, Default)]
pub struct Losses {
    lost_at: Option<Duration>,
    /// Sequences up to this one may have been given twice.
    reused: u64,
    /// Writes by sender and time of sending.
    sent: HashMap<(usize, Moment), Nonce>,
    committed: HashMap<Nonce, u64>,
    /// Which instances have been linked to a bucket, and which had before the last loss.
    linked: Vec<bool>,
    knew: Vec<bool>,
}

impl Losses {
    pub fn new(nodes: usize) -> Self {
        Self {
            linked: vec![false; nodes],
            knew: vec![false; nodes],
            ..Self::default()
        }
    }

    pub fn hear(&mut self, world: &World, note: &Note) {
        match note {
            Note::Wants {
                node,
                effect: Effect::Write(write),
            } => {
                let now = world.nodes[*node].clock.at(world.now);
                self.sent.insert((*node, now), write.nonce);
            }
            Note::Committed { write, revision } => {
                self.committed.insert(write.nonce, *revision);
            }
            Note::Takes {
                node,
                input: Input::Link(Link::Up(_)),
            } => self.linked[*node] = true,
            Note::Booted { node } | Note::Died { node } => {
                self.linked[*node] = false;
                self.knew[*node] = false;
            }
            Note::HistoryLost { reused, noticed } => {
                self.lost_at = Some(world.now);
                for (knew, linked) in self.knew.iter_mut().zip(&self.linked) {
                    *knew = *noticed && *linked;
                }
                if *reused {
                    self.reused = world.bucket.highest();
                }
            }
            _ => {}
        }
    }

    /// Whether this sequence may have been given twice.
    pub const fn may_be_reused(&self, sequence: u64) -> bool {
        sequence <= self.reused
    }

    /// Whether this instance must have waited for the leases of before the loss: a bucket that is
    /// made anew is noticed by whoever knew the old one, as long as it numbers on.
    pub fn must_have_waited(&self, node: usize) -> bool {
        self.reused == 0 && self.knew[node]
    }

    /// Whether a lease that rests on a write sent then may be in the air.
    pub fn excuse(&self, world: &World, node: usize, proved: Moment) -> bool {
        let Some(lost_at) = self.lost_at else {
            return false;
        };
        let revision = self
            .sent
            .get(&(node, proved))
            .and_then(|nonce| self.committed.get(nonce));
        world.nodes[node].clock.when(proved) <= lost_at
            || revision.is_none_or(|revision| self.may_be_reused(*revision))
    }
}
