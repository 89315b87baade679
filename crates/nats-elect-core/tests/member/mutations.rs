//! Broken rules are noticed, by a schedule or by seeds.

use nats_elect_core::MEMBER_MUTATIONS;

use crate::scripts::SCRIPTS;
use crate::seeds::run;

/// So many seeds it takes at most to notice a broken rule.
const MOST_SEEDS: u64 = 1500;

#[test]
fn each_broken_rule_is_noticed() {
    let mut missed = Vec::new();
    for (mutation, _) in MEMBER_MUTATIONS {
        mutation.choose();
        let script = SCRIPTS.iter().find(|it| it.0 == format!("{mutation:?}"));
        let found = match script {
            Some((_, script)) => {
                (1..=MOST_SEEDS).find_map(|seed| Some((seed, script(seed).failure.take()?)))
            }
            None => (1..=MOST_SEEDS).find_map(|seed| Some((seed, run(seed, false).1?))),
        };
        println!("{mutation:?}: {found:?}");
        if found.is_none() {
            missed.push(mutation);
        }
    }
    assert!(missed.is_empty(), "nobody noticed {missed:?}");
}
