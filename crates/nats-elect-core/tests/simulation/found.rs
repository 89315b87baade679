//! Seeds that once broke a promise, each with the rule that was missing.
//!
//! Every one still breaks it without that rule, as `--cfg nats_elect_mutations` shows. If the way
//! in which seeds become plans changes, they are to be found anew: the run of the broken rules
//! prints them.

/// The rule by its name among the breakages, and the seed.
pub const FOUND: [(&str, u64); 4] = [
    ("TrustAnyJump", 658),
    ("IgnoreFenceLease", 3057),
    ("StrangerEndsLease", 309),
    ("IgnoreEpoch", 658),
];

#[cfg(not(nats_elect_mutations))]
#[test]
fn what_was_found_stays_mended() {
    for (rule, seed) in FOUND {
        let plan = crate::plan::Plan::of_seed(seed, &[]);
        let ending = crate::run::run(&plan);
        assert!(ending.violation.is_none(), "{rule}: {:?}", ending.violation);
    }
}

/// Each comes back without its rule.
#[cfg(nats_elect_mutations)]
pub fn come_back() {
    use nats_elect_core::{MUTATIONS, mend};

    for (rule, seed) in FOUND {
        let (mutation, _) = MUTATIONS
            .iter()
            .find(|(mutation, _)| format!("{mutation:?}") == rule)
            .expect("a rule of this name");
        mutation.choose();
        let ending = crate::run::run(&crate::plan::Plan::of_seed(seed, &[]));
        mend();
        assert!(
            ending.violation.is_some(),
            "{rule} does not show in seed {seed}"
        );
    }
}
