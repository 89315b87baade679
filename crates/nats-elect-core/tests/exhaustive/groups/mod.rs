//! All that a few members of a group can do: for each process the real machine, and a real election
//! for each epoch of its lease. What drives them is a model of the actors.
//!
//! | file | contents |
//! | --- | --- |
//! | `stream.rs` | what stands in the bucket, and what is on its way to watches |
//! | `member.rs` | a process: machine, elections, watch, requests, terms of units |
//! | `turn.rs` | what the driver of a member does with inputs and effects |
//! | `requests.rs` | what members send, and what becomes of it |
//! | `life.rs` | what happens to members, and what other hands write |
//! | `action.rs`, `fault.rs` | what can happen, and how often |
//! | `properties.rs` | what must hold |
//! | `state.rs`, `fingerprint.rs` | all there is, and when it is the same situation |
//! | `configuration.rs`, `catalogue.rs` | what is explored |
//! | `mutations.rs` | in which configuration each broken rule is noticed |

mod action;
pub mod catalogue;
mod configuration;
mod fault;
mod fingerprint;
mod life;
mod member;
#[cfg(feature = "__mutations")]
pub mod mutations;
mod properties;
mod requests;
mod state;
mod stream;
mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use nats_elect_core::Moment;
use stateright::{Model, Property};

use crate::explore::Space;
use crate::fault::Faults;
use crate::scribe::CLOCK_BASE;
use action::Action;
use configuration::Configuration;
use properties::Witnessed;
use state::State;
use stream::Stream;
use turn::Turn;

/// All that one configuration can do.
#[derive(Clone)]
pub struct Members(pub Configuration);

impl Space for Members {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn tell(&self, state: &State, action: Action) -> Vec<String> {
        let mut turn = Turn::new(&self.0, state);
        turn.tale = Some(Vec::new());
        turn.take(action);
        let mut lines = turn.tale.unwrap_or_default();
        lines.extend(turn.state.broken.map(|broken| format!("     {broken:?}")));
        lines
    }

    fn is_tick(action: &Action) -> bool {
        matches!(action, Action::Advance)
    }
}

impl Model for Members {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let state = State {
            now: Moment::from_nanos(CLOCK_BASE),
            stream: Arc::new(Stream::new()),
            members: vec![None; self.0.members],
            ghosts: Vec::new(),
            faults: Faults::new(&[]),
            epochs: 0,
            tokens: BTreeMap::new(),
            unserved: 0,
            watched_anew: false,
            time: 0,
            broken: None,
            witnessed: Witnessed::default(),
        };
        let mut turn = Turn::new(&self.0, &state);
        for member in 0..self.0.started {
            turn.boot(member);
            turn.carry_requests();
        }
        let mut state = turn.state;
        let mut left = self.0.settled;
        while left > 0 {
            let mut actions = Vec::new();
            self.actions(&state, &mut actions);
            let prompt = actions.into_iter().find(Action::is_prompt);
            left -= u16::from(prompt.is_none());
            let action = prompt.unwrap_or(Action::Advance);
            let next = self.next_state(&state, action).expect("it goes on");
            if next.broken.is_some() {
                // It is found again at once.
                break;
            }
            state = next;
        }
        state.faults = Faults::new(self.0.faults);
        state.time = 0;
        state.witnessed = Witnessed::default();
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        action::possible(&self.0, state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut turn = Turn::new(&self.0, state);
        turn.take(action);
        Some(turn.state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(&self.0)
    }
}
