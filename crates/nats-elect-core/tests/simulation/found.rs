//! Seeds that break a promise without a rule, each with that rule: those that a search takes long
//! to find.
//!
//! The feature `__mutations` shows that every one still does. If the way in which seeds become
//! plans changes, they are to be found anew: `SIM_RULES` with the names of the rules prints them.

/// The rule by its name among the breakages, and the seed.
pub const FOUND: [(&str, u64); 13] = [
    ("TrustAnyJump", 5222),
    ("IgnoreFenceLease", 2102),
    ("StrangerEndsLease", 309),
    ("IgnoreEpoch", 15),
    ("FenceWithoutCondition", 298_559),
    ("AdoptFromLaterSend", 161_879),
    ("ReuseSequences", 33_291),
    ("BelieveOldRelease", 27_360),
    ("OwnIdIsOwn", 9_273),
    ("ForgetDeadlineOnReconnect", 3_564),
    ("NoQuarantine", 6_159),
    ("YieldToOldRequests", 6_131),
    ("ObeyOldGraceOver", 3_839),
];

#[cfg(not(feature = "__mutations"))]
#[test]
fn what_was_found_stays_mended() {
    for (rule, seed) in FOUND {
        let plan = crate::plan::Plan::of_seed(seed, &[]);
        let ending = crate::run::run(&plan);
        assert!(ending.violation.is_none(), "{rule}: {:?}", ending.violation);
    }
}

/// The seed in which the breach of this rule is known to show.
#[cfg(feature = "__mutations")]
pub fn known(mutation: nats_elect_core::Mutation) -> Option<u64> {
    let name = format!("{mutation:?}");
    let (_, seed) = FOUND.iter().find(|(rule, _)| *rule == name)?;
    Some(*seed)
}
