//! No fenced write takes effect once a newer fence record of the role was stored, and none is told
//! so before.
//!
//! Where NATS gives sequences again, a write of before the loss may by chance meet the sequence
//! that it expects. And where it lost fence records, those before them count again.

use nats_elect_core::WriteKind;
use nats_elect_core::token::FencingToken;

use super::losses::Losses;
use super::{Note, demand};
use crate::world::World;

#[derive(Debug, Default)]
pub struct Fenced {
    /// The sequence of the newest fence record.
    newest: Option<u64>,
}

impl Fenced {
    pub fn hear(&mut self, world: &World, note: &Note, losses: &Losses) -> Result<(), String> {
        match note {
            Note::HistoryLost { reused: true, .. } => self.newest = None,
            Note::Committed { write, revision } => {
                if let WriteKind::Fence { .. } = write.kind {
                    self.newest = Some(*revision);
                }
            }
            Note::FencedWrite { token } => {
                if losses.may_be_reused(token.sequence) {
                    return Ok(());
                }
                return self.is_newest(*token);
            }
            Note::ToldSuperseded { token } => {
                let standing = world.bucket.fence().map(|fence| fence.revision);
                let reused = losses.may_be_reused(token.sequence);
                return demand(reused || standing != Some(token.sequence), || {
                    format!(
                        "the term of {token} is told that it is superseded, and its fence stands"
                    )
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn is_newest(&self, token: FencingToken) -> Result<(), String> {
        demand(self.newest == Some(token.sequence), || {
            let newest = self.newest;
            format!(
                "a write under the fence of {token} took effect when the newest was at {newest:?}"
            )
        })
    }
}
