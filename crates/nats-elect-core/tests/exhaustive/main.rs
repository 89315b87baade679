//! All that a few instances of the real core can do, with a bounded number of faults and no bound
//! on time: with one role, and as members of a group (`members/`).
//!
//! `cargo test --test exhaustive` explores the small configurations. The others want a release
//! build: `cargo test --release --test exhaustive -- --ignored --nocapture`;
//! `EXHAUSTIVE=<name>,<name>` chooses among them. With broken rules:
//! `cargo test --release -p nats-elect-core --features __mutations --test exhaustive mutations`.

mod action;
mod catalogue;
mod companion;
mod configuration;
mod effects;
mod explore;
mod fault;
mod fingerprint;
mod instance;
mod life;
mod members;
mod peers;
mod properties;
mod requests;
mod scribe;
mod server;
mod space;
mod state;
mod turn;
mod witness;

#[path = "../simulation/bucket.rs"]
#[allow(dead_code, reason = "the simulation uses more of it")]
mod bucket;

use explore::{Findings, Space, explore};
use members::Members;
use space::Roles;

/// An exploration that takes this many transitions stops without having seen all.
const MOST_TRANSITIONS: usize = 12_000_000;
/// The same for members, whose states are larger.
const MOST_OF_MEMBERS: usize = 1_500_000;

/// Explores all of a configuration, and insists on what it promises and on what it must be able to
/// bring about.
fn check<S: Space>(space: &S, limit: Option<usize>) -> Findings {
    let findings = explore(space, limit);
    println!("{findings}");
    if let Some(violation) = &findings.violation {
        panic!(
            "{}: \"{}\" does not hold after these {} events:\n{}",
            findings.name, violation.property, violation.events, violation.tale
        );
    }
    let missing = &findings.missing;
    assert!(
        missing.is_empty() || !findings.exhausted,
        "{}: not found possible: {missing:?}",
        findings.name
    );
    findings
}

fn check_all_of(name: &str) {
    let configuration = catalogue::find(name).expect("a configuration of this name");
    assert!(check(&Roles(configuration), None).exhausted);
}

#[test]
fn two_instances_start() {
    check_all_of("two-start-no-watch");
}

#[test]
fn two_instances_of_which_one_dies() {
    check_all_of("two-crash-no-watch-short");
}

#[test]
fn two_instances_of_which_one_dies_and_has_a_companion() {
    check_all_of("two-crash-companion-no-watch-short");
}

#[test]
#[ignore = "long in a debug build"]
fn two_instances_of_which_one_leaves() {
    check_all_of("two-stop");
}

#[test]
#[ignore = "long in a debug build"]
fn two_instances_and_a_purge() {
    check_all_of("two-purge");
}

#[test]
fn two_instances_of_which_one_hands_over() {
    check_all_of("two-hand-over-no-watch-short");
}

#[test]
fn two_instances_of_different_priority() {
    check_all_of("two-ranked-no-watch-short");
}

#[test]
fn two_instances_of_which_one_is_cordoned_and_one_paused() {
    check_all_of("two-cordon-aside-no-watch-short");
}

#[test]
fn two_instances_that_are_cut_off_for_longer_than_their_grace() {
    check_all_of("two-cut-grace-no-watch-short");
}

#[test]
fn three_instances_of_which_one_leaves() {
    check_all_of("three-stop-no-watch-short");
}

#[test]
fn a_clock_slower_than_the_margin_is_found_out() {
    let findings = explore(&Roles(catalogue::beyond()), None);
    println!("{findings}");
    let violation = findings.violation.expect("more than the margin covers");
    assert_eq!(violation.property, "at most one valid lease at any instant");
}

fn members(names: &[&str]) {
    for name in names {
        let configuration = members::catalogue::find(name).expect("a configuration of this name");
        assert!(check(&Members(configuration), None).exhausted);
    }
}

#[test]
fn two_members_start_and_rest() {
    members(&["members-start", "members-rest"]);
}

#[test]
fn two_members_act_and_acknowledge() {
    members(&["members-move", "members-move-deaf", "members-returned"]);
}

#[test]
fn two_members_of_which_one_is_over() {
    members(&["members-pause", "members-crash"]);
}

#[test]
fn two_members_whose_keys_are_touched() {
    members(&[
        "members-spoil-member",
        "members-purge-member",
        "members-put-back",
    ]);
}

#[test]
fn two_members_that_collect() {
    members(&["members-spoil-map", "members-purge-map"]);
}

#[test]
fn two_members_that_leave() {
    members(&["members-leave"]);
}

#[test]
fn two_members_whose_group_grows() {
    members(&["members-resize"]);
}

#[test]
fn two_members_whose_messages_are_late() {
    members(&["members-late", "members-unanswered"]);
}

#[test]
fn two_members_whose_watches_are_slow_or_begin_anew() {
    members(&["members-lag", "members-rewatch", "members-behind"]);
}

/// The large configurations, or those that `EXHAUSTIVE` names.
fn chosen<C>(large: fn() -> Vec<C>, find: fn(&str) -> Option<C>) -> Vec<C> {
    match std::env::var("EXHAUSTIVE").ok().as_deref() {
        None | Some("1") => large(),
        Some(names) => names.split(',').filter_map(find).collect(),
    }
}

#[test]
#[ignore = "takes minutes, in a release build"]
fn large_configurations() {
    for configuration in chosen(catalogue::large, catalogue::find) {
        check(&Roles(configuration), Some(MOST_TRANSITIONS));
    }
}

#[test]
#[ignore = "takes minutes, in a release build"]
fn large_configurations_of_groups() {
    for configuration in chosen(members::catalogue::large, members::catalogue::find) {
        check(&Members(configuration), Some(MOST_OF_MEMBERS));
    }
}

/// Only one rule of all can be broken at a time, so this is a run of its own.
#[cfg(feature = "__mutations")]
#[test]
fn mutations_of_groups() {
    members::mutations::each_broken_rule_is_noticed();
}
