//! A small model of the rules of groups: members with a lease each, and units that they own.
//!
//! A unit's key names the epoch of its owner. It is written only when the owner changes. So its
//! owner learns only by its watch of what others write there. The model shows which rules keep two
//! members from owning a unit at once, by what happens without each of them. It has no code of the
//! crate: it comes before that.
//!
//! `cargo test --test group_model -- --nocapture` tells for each broken rule the shortest way to
//! two owners. The explorations are cut off after a number of states, so they show defects and no
//! absence of them. Far more states: `cargo test --test group_model far_out -- --ignored
//! --nocapture`, with `GROUP_MODEL=<name>` for one of them.
//!
//! Time is in ticks, the same for all members: the drift margin is not a subject of this model.
//! Handlers end when they are told to, and the server loses nothing that it confirmed.

mod catalogue;
mod explore;
mod member;
mod rules;
mod state;
mod step;

use explore::explore;
use rules::{BROKEN, Bounds, Broken};

/// An exploration that has seen this many states stops.
const FEW: usize = 20_000;
const ENOUGH: usize = 200_000;
const MANY: usize = 1_500_000;

fn the_rules_hold_within(most: usize) {
    let only = std::env::var("GROUP_MODEL").ok();
    for bounds in catalogue::all() {
        if only.as_deref().is_some_and(|only| only != bounds.name) {
            continue;
        }
        let findings = explore(&bounds, None, most);
        let (states, all) = (findings.states, findings.exhausted);
        println!(
            "{:22} {states:8} states, {}",
            bounds.name,
            if all { "all" } else { "the nearest" }
        );
        if let Some((what, tale)) = findings.violation {
            panic!("{}: \"{what}\" does not hold:\n{tale}", bounds.name);
        }
    }
}

#[test]
fn the_rules_hold() {
    the_rules_hold_within(FEW);
}

#[test]
#[ignore = "takes minutes"]
fn the_rules_hold_far_out() {
    the_rules_hold_within(MANY);
}

#[test]
fn without_purges_and_strangers_a_heartbeat_need_not_be_shown() {
    let own = |bounds: &Bounds| bounds.purges == 0 && bounds.forgeries == 0;
    for bounds in catalogue::all().into_iter().filter(own) {
        let findings = explore(&bounds, Some(Broken::ExtendUnseen), FEW);
        assert!(findings.violation.is_none(), "{}", bounds.name);
    }
}

#[test]
fn every_broken_rule_is_noticed() {
    let mut unnoticed = Vec::new();
    for (broken, rule) in BROKEN {
        let name = catalogue::noticed_in(*broken);
        let bounds = catalogue::all()
            .into_iter()
            .find(|bounds| bounds.name == name);
        let findings = explore(
            &bounds.expect("an exploration of this name"),
            Some(*broken),
            ENOUGH,
        );
        let states = findings.states;
        if let Some((what, tale)) = findings.violation {
            println!("{rule}\n  breaks \"{what}\" in {name}, {states} states:");
            let steps = tale.lines().take_while(|line| line.starts_with("  "));
            steps.for_each(|step| println!("  {step}"));
        } else {
            println!("{rule}\n  unnoticed in {name}, {states} states");
            unnoticed.push(*broken);
        }
    }
    assert!(unnoticed.is_empty(), "unnoticed: {unnoticed:?}");
}
