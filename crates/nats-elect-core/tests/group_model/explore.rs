//! Breadth first through all states.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::rules::{Bounds, Broken};
use crate::state::State;
use crate::step::Action;

pub struct Findings {
    pub states: usize,
    pub exhausted: bool,
    pub violation: Option<(&'static str, String)>,
}

/// Explores until everything was seen, something does not hold, or this many states were seen.
pub fn explore(bounds: &Bounds, broken: Option<Broken>, most: usize) -> Findings {
    let mut start = State::start(bounds);
    for action in bounds.after {
        start.take(*action, broken);
        start.normalise();
    }
    let mut seen = HashSet::from([fingerprint(&start)]);
    let mut steps: Vec<(usize, Option<Action>)> = vec![(0, None)];
    let mut queue = VecDeque::from([(0, start)]);
    while let Some((index, state)) = queue.pop_front() {
        for action in state.actions(bounds, broken) {
            let mut next = state.clone();
            next.take(action, broken);
            next.normalise();
            if !seen.insert(fingerprint(&next)) {
                continue;
            }
            steps.push((index, Some(action)));
            let mut violation = next.violation(bounds);
            if violation.is_none()
                && broken.is_none()
                && steps.len().is_multiple_of(16)
                && !next.recovers(bounds)
            {
                violation = Some("an owner again");
            }
            if let Some(violation) = violation {
                let tale = tale(&steps, steps.len() - 1, &next);
                return Findings {
                    states: steps.len(),
                    exhausted: false,
                    violation: Some((violation, tale)),
                };
            }
            if steps.len() >= most {
                return Findings {
                    states: steps.len(),
                    exhausted: false,
                    violation: None,
                };
            }
            queue.push_back((steps.len() - 1, next));
        }
    }
    Findings {
        states: steps.len(),
        exhausted: true,
        violation: None,
    }
}

fn fingerprint(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

/// The way to a state, step by step.
fn tale(steps: &[(usize, Option<Action>)], mut index: usize, last: &State) -> String {
    let mut way = Vec::new();
    while let (before, Some(action)) = steps[index] {
        way.push(action);
        index = before;
    }
    let mut text = String::new();
    for action in way.iter().rev() {
        let _ = writeln!(text, "  {action:?}");
    }
    let _ = write!(text, "{last:?}");
    text
}
