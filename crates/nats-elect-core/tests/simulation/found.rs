//! Seeds that break a promise without a rule, each with that rule.
//!
//! `--cfg nats_elect_mutations` shows that every one still does. If the way in which seeds become
//! plans changes, they are to be found anew: `SIM_RULES` with the names of the rules prints them.

/// The rule by its name among the breakages, and the seed.
pub const FOUND: [(&str, u64); 5] = [
    ("TrustAnyJump", 5222),
    ("IgnoreFenceLease", 2102),
    ("StrangerEndsLease", 309),
    ("IgnoreEpoch", 15),
    ("FenceWithoutCondition", 298_559),
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

/// The seed in which the breach of this rule is known to show.
#[cfg(nats_elect_mutations)]
pub fn known(mutation: nats_elect_core::Mutation) -> Option<u64> {
    let name = format!("{mutation:?}");
    let (_, seed) = FOUND.iter().find(|(rule, _)| *rule == name)?;
    Some(*seed)
}
