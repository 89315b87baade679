//! Broken rules are noticed.

use nats_elect_core::{MEMBER_MUTATIONS, Mutation};

use crate::seeds::run;

/// So many seeds it takes at most to notice a broken rule.
const SEEDS: u64 = 1500;

/// These the seeds do not notice yet.
const UNNOTICED: &[Mutation] = &[
    Mutation::BeginsBesideGeneration,
    Mutation::OtherGenerationsIgnored,
    Mutation::OverEnds,
    Mutation::CollectsBehind,
    Mutation::CollectsKnownAlone,
    Mutation::ReadsBeforeHeartbeat,
];

#[test]
fn each_broken_rule_is_noticed() {
    let mut missed = Vec::new();
    let noticed = |it: &&(Mutation, &str)| !UNNOTICED.contains(&it.0);
    for (mutation, _) in MEMBER_MUTATIONS.iter().filter(noticed) {
        mutation.choose();
        let found = (1..=SEEDS).find_map(|seed| Some((seed, run(seed, false).1?)));
        println!("{mutation:?}: {found:?}");
        if found.is_none() {
            missed.push(mutation);
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}
