//! All that a few members of one group can do: the real machines, and a model of what drives them.
//!
//! | file | contents |
//! | --- | --- |
//! | `stream.rs` | what stands in the bucket, and maps that are on their way to watches |
//! | `process.rs` | a process: machine, watch, requests, handlers |
//! | `turn.rs` | what the driver of a member does with inputs and effects |
//! | `life.rs` | what happens to members, and what people do |
//! | `action.rs`, `fault.rs` | what can happen, and how often |
//! | `properties.rs` | what must hold |
//! | `state.rs` | all there is, and when it is the same situation |
//! | `configuration.rs`, `catalogue.rs` | what is explored, for each rule |
//! | `mutations.rs` | in which configuration each broken rule is noticed |

mod action;
pub mod catalogue;
mod configuration;
mod fault;
mod life;
#[cfg(feature = "__mutations")]
pub mod mutations;
mod process;
mod properties;
mod state;
mod stream;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nats_elect_core::Moment;
use stateright::{Model, Property};

use crate::explore::Space;
use crate::fault::Faults;
use crate::scribe::CLOCK_BASE;
use action::Action;
pub use configuration::Configuration;
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
            starts: 0,
            tokens: BTreeMap::new(),
            over: BTreeSet::new(),
            idle: 0,
            broken: None,
            witnessed: Witnessed::default(),
        };
        let mut turn = Turn::new(&self.0, &state);
        for index in 0..self.0.started {
            turn.boot(index);
            turn.settle();
        }
        let mut state = turn.state;
        let mut left = self.0.settled;
        while left > 0 && state.broken.is_none() {
            let mut actions = Vec::new();
            self.actions(&state, &mut actions);
            let prompt = actions.into_iter().find(Action::is_prompt);
            left -= u16::from(prompt.is_none());
            let action = prompt.unwrap_or(Action::Advance);
            state = self.next_state(&state, action).expect("it goes on");
        }
        state.faults = Faults::new(self.0.faults);
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
