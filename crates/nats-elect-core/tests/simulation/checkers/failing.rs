//! An instance whose terms keep failing asks no leader for the role, and does not say that it is
//! ready.

use std::time::Duration;

use nats_elect_core::event::Event;
use nats_elect_core::peer::{PeerReply, PeerRequest};
use nats_elect_core::{Effect, Input, Intent};

use super::{Note, demand};
use crate::world::World;

#[derive(Debug)]
pub struct Failing {
    nodes: Vec<Streak>,
}

/// Terms of one process that failed soon, one after the other, and until when they count.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    terms: u32,
    until: Duration,
}

impl Failing {
    pub fn new(nodes: usize) -> Self {
        Self {
            nodes: vec![Streak::default(); nodes],
        }
    }

    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::Booted { node }
            | Note::Takes {
                node,
                input: Input::Intend(_, Intent::Resume),
            } => self.nodes[*node] = Streak::default(),
            Note::Wants {
                node,
                effect: Effect::Event(Event::TermEnded { cause, lasted, .. }),
            } => {
                let longest = world.nodes[*node].settings.max_cooldown;
                let streak = &mut self.nodes[*node];
                if *lasted >= longest * 20 {
                    *streak = Streak::default();
                }
                if cause.is_failure() {
                    streak.terms += 1;
                    let times = [0, 0, 8, 32, 128];
                    let pause = longest * times[streak.terms.min(4) as usize];
                    // Its clock may be fast by a hundredth.
                    streak.until = world.now + pause * 98 / 100;
                }
            }
            Note::Wants { node, effect } => {
                let failing = world.now < self.nodes[*node].until;
                let stands = matches!(
                    effect,
                    Effect::AskPeers {
                        question: PeerRequest::Yield { .. },
                        ..
                    } | Effect::AnswerPeer {
                        answer: PeerReply::Ready { .. },
                        ..
                    }
                );
                demand(!(failing && stands), || {
                    format!("node-{node} would take the role although its terms keep failing")
                })?;
            }
            _ => {}
        }
        Ok(())
    }
}
