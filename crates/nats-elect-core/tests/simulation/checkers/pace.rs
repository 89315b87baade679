//! Claims that fail are not sent again at once: a server that takes no writes is not flooded.

use std::time::Duration;

use nats_elect_core::event::FailureKind;
use nats_elect_core::record::{Entry, FenceEntry};
use nats_elect_core::{Effect, Input, OpId, WriteKind, WriteOutcome};

use super::{Note, demand};
use crate::world::World;

/// So many claims in a row that meet another write under way are sent again soon.
const MOST_CONTENDED: u32 = 3;

/// The claims of each process.
#[derive(Debug)]
pub struct Pace(Vec<Claims>);

#[derive(Clone, Debug, Default)]
struct Claims {
    /// The last claim, and when it was sent over which sequence.
    last: Option<(OpId, Duration, u64)>,
    /// It is not answered, and its time is not up. What comes later counts only if it is stored.
    waits: bool,
    failed: bool,
    /// So many met another write under way, one after the other without news.
    contended: u32,
    /// What the last read showed.
    read: Option<(Option<Entry>, Option<FenceEntry>)>,
    /// Since it was sent a read or the watch showed something else, a write was answered, or there
    /// is a new link: the server may take writes again.
    news: bool,
}

impl Pace {
    pub fn new(nodes: usize) -> Self {
        Self(vec![Claims::default(); nodes])
    }

    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::Booted { node } | Note::Died { node } => self.0[*node] = Claims::default(),
            Note::Takes { node, input } => self.0[*node].takes(input),
            Note::Wants {
                node,
                effect: Effect::Write(write),
            } => {
                let WriteKind::Claim { over, .. } = write.kind else {
                    return Ok(());
                };
                let settings = &world.nodes[*node].settings;
                let least = settings.ttl.min(settings.retry.max_backoff);
                // Clocks may be fast by a hundredth.
                let least = least.min(Duration::from_secs(1)) * 98 / 100;
                let claims = &mut self.0[*node];
                if claims.last.is_some_and(|it| it.2 != over) {
                    claims.contended = 0;
                }
                let before = claims.last.replace((write.op, world.now, over));
                let failed = std::mem::take(&mut claims.failed) && !claims.news;
                claims.news = false;
                claims.waits = true;
                let Some((_, sent, _)) = before.filter(|it| failed && it.2 == over) else {
                    return Ok(());
                };
                demand(world.now - sent >= least, || {
                    format!(
                        "node-{node} claims again {:?} after a claim that failed",
                        world.now - sent
                    )
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}

impl Claims {
    fn takes(&mut self, input: &Input) {
        match input {
            Input::WriteEnded {
                op,
                outcome: WriteOutcome::Failed(failure),
            } if self.waits && self.last.is_some_and(|(last, ..)| last == *op) => {
                self.waits = false;
                let contended = failure.kind == FailureKind::Contended;
                self.contended += u32::from(contended);
                self.failed = !contended || self.contended > MOST_CONTENDED;
            }
            // A read that was sent before the last claim tells nothing about it.
            Input::ReadEnded {
                op,
                outcome: Ok(snapshot),
            } if self.last.is_none_or(|(last, ..)| last < *op) => {
                // Be it that it is stale.
                let shown = Some((snapshot.role.clone(), snapshot.fence));
                if self.read != shown {
                    self.read = shown;
                    self.news();
                }
            }
            // Also the late answer to an earlier write.
            Input::WriteEnded {
                outcome: WriteOutcome::Acked { .. } | WriteOutcome::Conflict { .. },
                ..
            }
            | Input::Link(_)
            | Input::Observed(_) => self.news(),
            _ => {}
        }
    }

    const fn news(&mut self) {
        self.news = true;
        self.contended = 0;
    }
}
