//! The simulation can fail: each rule of the protocol that is broken on purpose is noticed.
//!
//! `SIM_RULES=SkipFence,ReuseNonce` chooses among them.
//!
//! `RUSTFLAGS="--cfg nats_elect_mutations" cargo test --release --test simulation --target-dir target/mutations mutations`

use std::fmt::Write;

use nats_elect::internals::{MUTATIONS, mend};

use crate::plan::Plan;
use crate::run::run;
use crate::seeds::{say, survey};
use crate::shrink::shrink;

/// A breakage that so many seeds do not show goes unnoticed.
const MOST: u64 = 300_000;

#[test]
fn each_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    let only = std::env::var("SIM_RULES").unwrap_or_default();
    let chosen = |mutation| only.is_empty() || only.contains(&format!("{mutation:?}"));
    for (mutation, what) in MUTATIONS.iter().filter(|(mutation, _)| chosen(*mutation)) {
        mutation.choose();
        let survey = survey(0, MOST, &[], 1, !only.is_empty());
        let mut line = format!("{mutation:?}:{what}\n    ");
        match survey.failed.first() {
            Some(seed) => {
                let plan = Plan::of_seed(*seed, &[]);
                let violation = run(&plan).violation.expect("it failed just now");
                let (plan, violation) = shrink(&plan, violation);
                let _ = write!(
                    line,
                    "{:?} broken after {} seeds (by {seed}), with {} faults among {} instances",
                    violation.promise,
                    survey.seeds,
                    plan.blows.len(),
                    plan.members.len()
                );
            }
            None => {
                let _ = write!(line, "NOT NOTICED in {} seeds", survey.seeds);
                unnoticed.push(*mutation);
            }
        }
        say(&line);
    }
    crate::found::come_back();
    mend();
    let noticed = MUTATIONS.len() - unnoticed.len();
    say(&format!(
        "{} broken rules, {noticed} noticed",
        MUTATIONS.len()
    ));
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
