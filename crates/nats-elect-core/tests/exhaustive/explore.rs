//! Explores a configuration and tells what was found.

use std::fmt::{Debug, Write as _};
use std::hash::Hash;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model, Path};

/// How often a long exploration says how far it is.
const PROGRESS: Duration = Duration::from_secs(10);

/// All that one configuration can do.
pub trait Space:
    Model<
        State: Clone + Debug + PartialEq + Hash + Send + Sync,
        Action: Clone + Debug + PartialEq + Send + Sync,
    > + Clone
    + Send
    + Sync
    + 'static
{
    fn name(&self) -> &'static str;

    /// What each of those that take part does when this happens.
    fn tell(&self, state: &Self::State, action: Self::Action) -> Vec<String>;

    /// Whether time passes.
    fn is_tick(action: &Self::Action) -> bool;
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
pub fn explore<S: Space>(space: &S, limit: Option<usize>) -> Findings {
    let name = space.name();
    let began = Instant::now();
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
                    tale: tale(space, path.clone()),
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
fn tale<S: Space>(space: &S, path: Path<S::State, S::Action>) -> String {
    let mut tale = String::new();
    let mut ticks = 0;
    for (state, action) in path.into_vec() {
        let Some(action) = action else { break };
        let _ = writeln!(tale, "{ticks:>4} {action:?}");
        ticks += u32::from(S::is_tick(&action));
        for line in space.tell(&state, action) {
            tale.push_str(&line);
            tale.push('\n');
        }
    }
    tale
}
