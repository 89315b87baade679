//! Nobody who has heard of an outage leads beyond its grace period, and nobody ends a term for an
//! outage that is over.

use nats_elect_core::event::{EndCause, Event};
use nats_elect_core::{Effect, Input, Link, Moment, TermStart};

use super::{Note, demand};
use crate::world::World;

#[derive(Debug)]
pub struct Grace(Vec<Heard>);

/// What one process has heard.
#[derive(Clone, Debug, Default)]
struct Heard {
    linked: bool,
    /// When the last outage began.
    down_since: Option<Moment>,
    /// When the outage began after which it has proved nothing yet.
    lost_at: Option<Moment>,
}

impl Grace {
    pub fn new(nodes: usize) -> Self {
        Self(vec![Heard::default(); nodes])
    }

    pub fn hear(&mut self, world: &World, note: &Note) -> Result<(), String> {
        match note {
            Note::Booted { node } | Note::Died { node } => self.0[*node] = Heard::default(),
            Note::Takes {
                node,
                input: Input::Link(link),
            } => {
                let heard = &mut self.0[*node];
                heard.linked = matches!(link, Link::Up(_));
                if let Link::Down { since } = link {
                    heard.down_since = Some(*since);
                    heard.lost_at.get_or_insert(*since);
                }
            }
            Note::Wants {
                node,
                effect: Effect::Extend { proved, .. } | Effect::StartTerm(TermStart { proved, .. }),
            } => {
                let heard = &mut self.0[*node];
                if heard.linked {
                    heard.lost_at = None;
                } else if heard.lost_at.is_some_and(|lost_at| lost_at < *proved) {
                    // It was sent between two outages.
                    heard.lost_at = heard.down_since;
                }
            }
            Note::Wants {
                node,
                effect:
                    Effect::Event(Event::TermEnding {
                        cause: EndCause::ConnectionLost,
                        ..
                    }),
            } => {
                let at = &world.nodes[*node];
                let term = at.terms.values().next_back();
                let over = at
                    .settings
                    .grace
                    .zip(term)
                    .is_some_and(|(grace, term)| term.proved + grace <= at.clock.at(world.now));
                demand(over, || {
                    format!("a term ends for an outage that is over: {term:?}")
                })?;
            }
            Note::Moved { .. } => {
                for (at, Heard { lost_at, .. }) in world.nodes.iter().zip(&self.0) {
                    let until = lost_at.zip(at.settings.grace);
                    let now = at.clock.at(world.now);
                    let over = until.is_some_and(|(since, grace)| since + grace <= now);
                    demand(!over || !at.is_leader(world.now), || {
                        format!("leads beyond its grace period, which began at {lost_at:?}")
                    })?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}
