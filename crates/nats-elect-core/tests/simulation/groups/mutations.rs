//! The simulation of groups can fail: each rule that is broken on purpose is noticed.
//!
//! `SIM_RULES=DeposeEarly` chooses among them, and `SIM_GROUP_SEEDS=100000` looks further.

use nats_elect_core::{GROUP_MUTATIONS, MUTATIONS, Mutation, mend};

use super::plan::Plan;
use super::run::run;
use super::seeds::shrink;
use crate::found::{FOUND_OF_GROUPS, known};
use crate::seeds::{number, say, survey};

/// A breakage that so many seeds do not show goes unnoticed.
const MOST: u64 = 100_000;

/// The rules of elections that a member's lease needs as well, and that have a part of their own in
/// this simulation.
const OF_BOTH: [Mutation; 2] = [Mutation::WillBeforeDeath, Mutation::WillOverStrangers];

/// Rules that chance seldom needs. The exploration notices that they are broken.
const EXPLORED: [Mutation; 1] = [Mutation::JoinUnseen];

/// Breaks the rules of groups one after another. Only one rule of all can be broken at a time, so
/// this is a part of the one test of broken rules.
pub fn each_broken_rule_of_groups_is_noticed() {
    let only = std::env::var("SIM_RULES").unwrap_or_default();
    let most = number("SIM_GROUP_SEEDS").unwrap_or(MOST);
    let mut unnoticed = Vec::new();
    let of_both = MUTATIONS.iter().filter(|(it, _)| OF_BOTH.contains(it));
    for (mutation, what) in GROUP_MUTATIONS.iter().chain(of_both) {
        let is_chosen = only.is_empty() || only.contains(&format!("{mutation:?}"));
        if !is_chosen || EXPLORED.contains(mutation) {
            continue;
        }
        mutation.choose();
        let attempt = |seed| run(&Plan::of_seed(seed), false);
        let known = known(&FOUND_OF_GROUPS, *mutation).filter(|_| only.is_empty());
        let (first, count) = known.map_or((0, most), |seed| (seed, 1));
        let survey = survey(first, count, 1, false, attempt);
        let Some(seed) = survey.failed.first() else {
            say(&format!(
                "{mutation:?}:{what}\n    NOT NOTICED in {} seeds",
                survey.seeds
            ));
            unnoticed.push(*mutation);
            continue;
        };
        let plan = Plan::of_seed(*seed);
        let violation = run(&plan, false).violation.expect("it failed just now");
        mend();
        let mended = run(&plan, false).violation;
        assert!(
            mended.is_none(),
            "seed {seed} fails all the same: {mended:?}"
        );
        mutation.choose();
        let (plan, violation) = shrink(&plan, violation);
        say(&format!(
            "{mutation:?}:{what}\n    {:?} broken by seed {seed}, with {} faults among {} members",
            violation.promise,
            plan.blows.len(),
            plan.members.len()
        ));
    }
    mend();
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
