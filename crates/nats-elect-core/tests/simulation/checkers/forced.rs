//! Claims over a living leader. Where the settings of whoever claims allow that, the old leader's
//! lease may last for a while: it ends with the deadline that it had, and the fence refuses what is
//! still written under it.

use nats_elect_core::{Moment, WriteKind};

use super::Note;
use crate::world::World;
use nats_elect_core::config::Takeover;

#[derive(Debug)]
pub struct Forced {
    /// Terms of this instance that rest on writes sent up to then were overruled.
    overruled: Vec<Option<Moment>>,
    /// Under whom the role's key stands.
    holder: Option<usize>,
}

impl Forced {
    pub fn new(nodes: usize) -> Self {
        Self {
            overruled: vec![None; nodes],
            holder: None,
        }
    }

    pub fn hear(&mut self, world: &World, note: &Note) {
        match note {
            Note::Booted { node } => self.overruled[*node] = None,
            Note::Committed { write, .. } => {
                let incarnation = write.nonce.incarnation;
                let by = world
                    .nodes
                    .iter()
                    .position(|node| node.candidate.incarnation == incarnation);
                match write.kind {
                    WriteKind::Claim { .. } => {
                        if let (Some(by), Some(old)) = (by, self.holder)
                            && by != old
                            && may_force(world, by, old)
                        {
                            let now = world.nodes[old].clock.at(world.now);
                            self.overruled[old] = Some(now);
                        }
                        self.holder = by;
                    }
                    WriteKind::Release { .. } => self.holder = None,
                    WriteKind::Renew { .. } | WriteKind::Fence { .. } => {}
                }
            }
            _ => {}
        }
    }

    /// Whether a term that rests on a write sent then was claimed over.
    pub fn excuse(&self, node: usize, proved: Moment) -> bool {
        self.overruled[node].is_some_and(|until| proved <= until)
    }
}

fn may_force(world: &World, by: usize, old: usize) -> bool {
    let (by, old) = (&world.nodes[by].settings, &world.nodes[old].settings);
    matches!(by.takeover, Takeover::Forced { .. }) && by.priority > old.priority
}
