//! Broken rules are noticed.

use nats_elect_core::member::{MUTATIONS, Mutation};

use crate::seeds::run;

/// So many seeds it takes at most to notice a broken rule.
const SEEDS: u64 = 1500;

/// These the seeds do not notice yet.
const UNNOTICED: &[Mutation] = &[
    Mutation::BeginsBesideGeneration,
    Mutation::OtherGenerationsIgnored,
    Mutation::OverEnds,
    Mutation::CollectsBehind,
    Mutation::ReadsBeforeHeartbeat,
];

#[test]
fn each_broken_rule_is_noticed() {
    let mut missed = Vec::new();
    for mutation in MUTATIONS.iter().filter(|it| !UNNOTICED.contains(it)) {
        mutation.turn_on();
        let found = (1..=SEEDS).find_map(|seed| Some((seed, run(seed, false).1?)));
        println!("{mutation:?}: {found:?}");
        if found.is_none() {
            missed.push(mutation);
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}
