//! All that a few instances can do with one role.

use std::sync::Arc;

use stateright::{Model, Property};

use crate::action::{self, Action};
use crate::bucket::ModelBucket;
use crate::configuration::{Configuration, TICK};
use crate::explore::Space;
use crate::fault::Faults;
use crate::instance::Instance;
use crate::properties::{self, Witnessed};
use crate::state::State;
use crate::turn::Turn;

/// All that one configuration can do.
#[derive(Clone)]
pub struct Roles(pub Configuration);

impl Space for Roles {
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
        matches!(action, Action::Advance | Action::AdvanceWithout(_))
    }
}

impl Model for Roles {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let bucket = ModelBucket::new();
        let instance = |_| {
            Arc::new(Instance {
                life: 0,
                process: None,
            })
        };
        let state = State {
            bucket: Arc::new(bucket),
            instances: (0..self.0.instances).map(instance).collect(),
            ghosts: Vec::new(),
            wills: Vec::new(),
            faults: Faults::new(self.0.faults),
            last_token: None,
            leaderless: 0,
            look_back: u64::from(self.0.settings.ttl.subsec_nanos() + TICK.subsec_nanos()),
            ranked: self.0.ranked,
            time: 0,
            broken: None,
            witnessed: Witnessed::default(),
        };
        let mut turn = Turn::new(&self.0, &state);
        for index in 0..self.0.started {
            turn.start(index);
        }
        let mut state = turn.state;
        while self.0.led && !is_settled(&state) {
            let mut actions = Vec::new();
            self.actions(&state, &mut actions);
            let prompt = actions.iter().find(|action| action.is_prompt());
            let action = prompt.copied().unwrap_or(Action::Advance);
            state = self.next_state(&state, action).expect("it goes on");
        }
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

/// Somebody leads, and nothing is under way.
fn is_settled(state: &State) -> bool {
    let idle = |instance: &Arc<Instance>| {
        let process = instance.process.as_ref();
        process.is_none_or(|process| process.request.is_none() && process.watch.is_empty())
    };
    state.instances.iter().any(|instance| instance.leads()) && state.instances.iter().all(idle)
}
