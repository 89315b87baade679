//! The exploration of members can fail: each rule that is broken on purpose is noticed by a small
//! configuration.

use nats_elect_core::{GROUP_MUTATIONS, Mutation, mend};

use super::configuration::Configuration;
use super::fault::Fault::{Crash, Forge, Grow, Lag, Prepare};
use super::{Members, catalogue};
use crate::explore::explore;

/// A breakage that so many transitions do not show goes unnoticed.
const MOST_TRANSITIONS: usize = 200_000;

/// The configuration in which a broken rule is noticed soonest.
fn noticed_in(mutation: Mutation) -> Option<Configuration> {
    let one_unit = |name, faults| Some(catalogue::with_one_unit(name, faults));
    let name = match mutation {
        Mutation::TakeFromLiving | Mutation::DeposeEarly => "members-rest",
        Mutation::GiveBeforeEnd | Mutation::NeverRevoke => "members-hint-deaf",
        Mutation::BeginAgain => "members-returned",
        Mutation::KeepLostEpoch => "members-pause",
        Mutation::IgnoreForeignRecord | Mutation::BelieveUnsigned => "members-forge",
        Mutation::BelieveAge => "one-unit-purge-forge",
        Mutation::JoinUnseen => "one-unit-forge-join",
        Mutation::UnknownIsOfAge => return one_unit("one-unit-forge", &[(Forge, 1)]),
        Mutation::ExtendUnshown => return one_unit("one-unit-forge-lag", &[(Forge, 1), (Lag, 1)]),
        Mutation::JoinAtOnce => {
            return one_unit("one-unit-forge-crash", &[(Forge, 1), (Crash, 1)]);
        }
        // Four faults, too deep for a search of all. The simulation notices it.
        Mutation::IgnoreLaterOwners => return None,
        // Nobody acts, and the exploration looks for two who do. The simulation notices them.
        Mutation::WaitForNoUnits
        | Mutation::KeepUnitsOfOthers
        | Mutation::KeepBlocked
        | Mutation::KeepIdleDead => {
            return None;
        }
        Mutation::BeginBesideOldUnits => {
            return one_unit("one-unit-grow-prepared", &[(Prepare, 1), (Grow, 1)]);
        }
        other => unreachable!("{other:?} is of roles"),
    };
    Some(catalogue::find(name).expect("a configuration of this name"))
}

/// Breaks the rules one after another, and tells the shortest way to what that breaks.
pub fn each_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    for (mutation, rule) in GROUP_MUTATIONS {
        let Some(configuration) = noticed_in(*mutation) else {
            continue;
        };
        mutation.choose();
        let findings = explore(&Members(configuration), Some(MOST_TRANSITIONS));
        let name = findings.name;
        if let Some(violation) = findings.violation {
            println!(
                "{mutation:?}:{rule}\n  breaks \"{}\" in {name}, {} events, {} states:\n{}",
                violation.property, violation.events, findings.states, violation.tale
            );
        } else {
            println!("{mutation:?}:{rule}\n  unnoticed in {findings}");
            unnoticed.push(*mutation);
        }
    }
    mend();
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
}
