//! Many seeds, and one seed again.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `SIM_GROUP_SEEDS=1000000` | so many seeds instead of a thousand |
//! | `SIM_GROUP_FIRST=17` | begin with this seed |
//! | `SIM_GROUP_SEED=17` | this seed alone, with all that happens in it, shrunk |

use super::checkers::Violation;
use super::plan::Plan;
use super::run::run;
use crate::clock::Clock;
use crate::shrink::least;

/// A failing plan with all taken away that is not needed to fail in the same way.
pub fn shrink(plan: &Plan, violation: Violation) -> (Plan, Violation) {
    least(plan, violation, candidates, |plan, violation| {
        let found = run(plan, false).violation?;
        (found.promise == violation.promise).then_some(found)
    })
}

/// A little less of everything, the largest cuts first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut candidates = Vec::new();
    let count = plan.blows.len();
    let mut cut = count;
    while cut > 0 {
        for start in (0..count).step_by(cut) {
            let mut smaller = plan.clone();
            let gone = smaller.blows.drain(start..(start + cut).min(count));
            let passed = gone.map(|blow| blow.after).sum::<std::time::Duration>();
            if let Some(next) = smaller.blows.get_mut(start) {
                next.after += passed;
            }
            candidates.push(smaller);
        }
        cut /= 2;
    }
    let mut simpler = |change: &dyn Fn(&mut Plan)| {
        let mut candidate = plan.clone();
        change(&mut candidate);
        candidates.push(candidate);
    };
    if plan.members.len() > 2 {
        simpler(&|plan| {
            plan.members.pop();
            let left = plan.members.len();
            plan.blows.retain(|blow| blow.node < left);
        });
    }
    if plan.groups.len() > 1 {
        simpler(&|plan| {
            plan.groups.pop_last();
        });
    }
    if plan.lacks {
        simpler(&|plan| plan.lacks = false);
    }
    for i in 0..plan.members.len() {
        let clock = plan.members[i].clock;
        if clock.ppm != 0 {
            simpler(&|plan| plan.members[i].clock = Clock { ppm: 0, ..clock });
        }
    }
    candidates
}

#[cfg(not(feature = "__mutations"))]
mod checks {
    use super::*;
    use crate::seeds::{ENOUGH, number, say, stopwatch, survey};

    /// Seeds that are run if nothing else is asked for.
    const USUAL: u64 = 1_000;

    #[test]
    fn no_seed_of_groups_breaks_a_promise() {
        let asked = number("SIM_GROUP_SEEDS");
        let count = asked.unwrap_or(USUAL);
        let first = number("SIM_GROUP_FIRST").unwrap_or(0);
        let start = stopwatch();
        let attempt = |seed| run(&Plan::of_seed(seed), false);
        let survey = survey(first, count, ENOUGH, asked.is_some(), attempt);
        let took = start.elapsed();
        let failures: Vec<_> = survey.failed.iter().filter_map(|it| explain(*it)).collect();
        say(&failures.join("\n\n"));
        say(&format!(
            "{}{:>14} seconds simulated in {:.1} s\n{:>14.2} of the allowed time to owners, at worst\n{} seeds, {} violations",
            survey.tally,
            survey.simulated.as_secs(),
            took.as_secs_f64(),
            survey.slowest_recovery,
            survey.seeds,
            survey.failed.len()
        ));
        assert!(failures.is_empty(), "promises were broken");
        if count >= USUAL {
            for (what, count) in survey.tally.all() {
                assert!(count > 0, "nothing was met of: {what}");
            }
        }
    }

    fn explain(seed: u64) -> Option<String> {
        let plan = Plan::of_seed(seed);
        let violation = run(&plan, false).violation?;
        let (plan, violation) = shrink(&plan, violation);
        Some(format!(
            "seed {seed}: {violation}\n{plan}again, with all that happens: SIM_GROUP_SEED={seed} cargo test --test simulation replay_groups -- --nocapture"
        ))
    }

    #[test]
    fn replay_groups() {
        let Some(seed) = number("SIM_GROUP_SEED") else {
            return;
        };
        let plan = Plan::of_seed(seed);
        let plan = match run(&plan, false).violation {
            Some(violation) => shrink(&plan, violation).0,
            None => plan,
        };
        let violation = run(&plan, true).violation;
        say(&format!("seed {seed}:\n{plan}"));
        if let Some(violation) = violation {
            panic!("{violation}");
        }
    }
}
