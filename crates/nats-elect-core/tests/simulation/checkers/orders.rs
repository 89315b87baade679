//! A paused instance takes no part: it claims nothing, begins no term, asks nobody to yield, and
//! does not say that it is ready.

use nats_elect_core::event::Event;
use nats_elect_core::peer::{PeerReply, PeerRequest};
use nats_elect_core::{Effect, Input, Intent, Write, WriteKind};

use super::{Note, demand};
use crate::world::World;

#[derive(Debug)]
pub struct Orders {
    nodes: Vec<Stance>,
}

/// Whether a process is paused, by the orders that it took and by what it told.
#[derive(Clone, Copy, Debug, Default)]
struct Stance {
    paused: bool,
    told: bool,
}

impl Orders {
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![Stance::default(); nodes],
        }
    }

    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::Booted { node } => {
                let paused = world.nodes[*node].candidate.paused;
                self.nodes[*node] = Stance {
                    paused,
                    told: paused,
                };
                Ok(())
            }
            Note::Takes { node, input } => {
                let paused = &mut self.nodes[*node].paused;
                match input {
                    Input::Intend(_, Intent::Pause | Intent::Cordon) => *paused = true,
                    Input::Intend(_, Intent::Resume) => *paused = false,
                    _ => {}
                }
                Ok(())
            }
            Note::Wants { node, effect } => self.nodes[*node]
                .wants(effect)
                .map_err(|problem| format!("node-{node} {problem}: {effect:?}")),
            Note::Stepped { node, status, .. } => {
                let Stance { paused, told } = self.nodes[*node];
                demand(status.paused == paused && told == paused, || {
                    format!("node-{node} tells whether it is paused: {status:?}, by events {told}")
                })
            }
            _ => Ok(()),
        }
    }
}

impl Stance {
    fn wants(&mut self, effect: &Effect) -> Result<(), String> {
        let stands = matches!(
            effect,
            Effect::Write(Write {
                kind: WriteKind::Claim { .. },
                ..
            }) | Effect::StartTerm(_)
                | Effect::AskPeers {
                    question: PeerRequest::Yield { .. },
                    ..
                }
                | Effect::AnswerPeer {
                    answer: PeerReply::Ready { .. },
                    ..
                }
        );
        demand(!(stands && self.paused), || {
            "stands although it is paused".to_owned()
        })?;
        let told = match effect {
            Effect::Event(Event::Paused) => true,
            Effect::Event(Event::Resumed) => false,
            _ => return Ok(()),
        };
        let was = std::mem::replace(&mut self.told, told);
        demand(was != told, || "tells of no change".to_owned())
    }
}
