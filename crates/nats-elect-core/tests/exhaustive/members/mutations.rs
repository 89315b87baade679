//! The exploration of members can fail: each rule that is broken on purpose, and that an interleaving
//! can show, is noticed by a small configuration.

use nats_elect_core::{Mutation, mend};

use super::{Members, catalogue};
use crate::explore::explore;

/// A breakage that so many transitions do not show goes unnoticed.
const MOST_TRANSITIONS: usize = 100_000;

/// The configurations in which broken rules are noticed soonest.
const NOTICED: &[(Mutation, &str)] = &[
    (Mutation::NobodyWaitedFor, "members-move"),
    (Mutation::ToldIsNoException, "members-move-deaf"),
    (Mutation::FormerOwnerForgotten, "members-move"),
    (Mutation::EndedEarly, "members-spoil-deaf"),
    (Mutation::MarkedEarly, "members-pause"),
    (Mutation::MarkedOverAnything, "members-pause-late"),
    (Mutation::GenerationWaitsForNobody, "members-resize-deaf"),
    (Mutation::BeginsBesideGeneration, "members-resize-deaf"),
    (Mutation::MapUnread, "members-move-purge"),
];

/// Breaks the rules one after another, and tells the shortest way to what that breaks.
pub fn each_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    for (mutation, name) in NOTICED {
        mutation.choose();
        let configuration = catalogue::find(name).expect("a configuration of this name");
        let findings = explore(&Members(configuration), Some(MOST_TRANSITIONS));
        if let Some(violation) = findings.violation {
            println!(
                "{mutation:?} breaks \"{}\" in {name}, {} events, {} states:\n{}",
                violation.property, violation.events, findings.states, violation.tale
            );
        } else {
            println!("{mutation:?}: unnoticed in {findings}");
            unnoticed.push(*mutation);
        }
    }
    mend();
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
}
