//! Explores a configuration and tells what was found.

use std::fmt::Write as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

use crate::action::{self, Action};
use crate::bucket::ModelBucket;
use crate::configuration::{Configuration, TICK};
use crate::fault::Faults;
use crate::instance::Instance;
use crate::properties::{self, Witnessed};
use crate::state::State;
use crate::turn::Turn;

/// How often a long exploration says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// All that one configuration can do.
#[derive(Clone)]
pub struct Space(pub Configuration);

impl Model for Space {
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

/// What an exploration came to.
#[derive(Debug)]
pub struct Findings {
    pub name: &'static str,
    /// Transitions taken, and different situations reached by them.
    pub states: usize,
    pub unique: usize,
    pub depth: usize,
    /// Whether there was nothing left to explore.
    pub exhausted: bool,
    pub took: Duration,
    /// The first promise found broken, with the events that lead to it.
    pub violation: Option<Violation>,
    /// What should have been possible.
    pub missing: Vec<&'static str>,
}

/// A broken promise.
#[derive(Debug)]
pub struct Violation {
    pub property: &'static str,
    pub events: usize,
    pub tale: String,
}

impl std::fmt::Display for Findings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            name,
            states,
            unique,
            depth,
            ..
        } = self;
        let exhausted = if self.exhausted { "yes" } else { "no" };
        let took = self.took.as_secs_f64();
        write!(
            f,
            "{name}: states {states}, unique {unique}, depth {depth}, exhausted {exhausted}, {took:.1} s"
        )
    }
}

/// Explores all of it, breadth first, or as many transitions as the limit allows.
#[expect(
    clippy::disallowed_methods,
    reason = "tells how long an exploration takes"
)]
pub fn explore(configuration: Configuration, limit: Option<usize>) -> Findings {
    let name = configuration.name;
    let began = Instant::now();
    let space = Space(configuration);
    let mut builder = space
        .clone()
        .checker()
        .finish_when(HasDiscoveries::AnyFailures);
    if let Some(limit) = limit {
        builder = builder.target_state_count(limit);
    }
    let mut checker = builder.spawn_bfs();
    let threads = checker.handles();
    let mut next_word = PROGRESS;
    while !threads.iter().all(JoinHandle::is_finished) {
        std::thread::sleep(Duration::from_millis(5));
        if began.elapsed() > next_word {
            next_word += PROGRESS;
            let (unique, depth) = (checker.unique_state_count(), checker.max_depth());
            eprintln!("{name}: {unique} situations so far, depth {depth}");
        }
    }
    for thread in threads {
        thread.join().expect("an exploration does not panic");
    }
    let discoveries = checker.discoveries();
    let mut missing = Vec::new();
    let mut violation = None;
    for property in space.properties() {
        match (property.expectation, discoveries.get(property.name)) {
            (Expectation::Sometimes, None) => missing.push(property.name),
            (Expectation::Always, Some(path)) => {
                violation = Some(Violation {
                    property: property.name,
                    events: path.clone().into_actions().len(),
                    tale: tale(&space.0, path.clone()),
                });
            }
            _ => {}
        }
    }
    let states = checker.state_count();
    Findings {
        name,
        states,
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        exhausted: violation.is_none() && limit.is_none_or(|limit| states < limit),
        took: began.elapsed(),
        violation,
        missing,
    }
}

/// The events, with what each instance did.
fn tale(configuration: &Configuration, path: Path<State, Action>) -> String {
    let mut tale = String::new();
    let mut ticks = 0;
    for (state, action) in path.into_vec() {
        let Some(action) = action else { break };
        let _ = writeln!(tale, "{ticks:>4} {action:?}");
        let mut turn = Turn::new(configuration, &state);
        turn.tale = Some(Vec::new());
        turn.take(action);
        for line in turn.tale.unwrap_or_default() {
            tale.push_str(&line);
            tale.push('\n');
        }
        if matches!(action, Action::Advance | Action::AdvanceWithout(_)) {
            ticks += 1;
        }
        if let Some(broken) = turn.state.broken {
            let _ = writeln!(tale, "     {broken:?}");
        }
    }
    tale
}
