//! Whatever an election may hear, in any order and at any time, made up by a liar.
//!
//! The property is that of the fuzz target `election` in `fuzz/`. Here it is tried on a few
//! thousand inputs, on every input that once broke it, and on some that are absurd by design.

mod election;
mod inputs;
mod message;
mod peer;

use std::path::PathBuf;

use proptest::prelude::*;

/// The inputs that are kept.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/inputs/election")
}

#[test]
fn every_kept_input_is_harmless() {
    for (path, input) in inputs::kept(&folder()) {
        println!("{path}");
        election::holds(&input);
    }
}

#[test]
fn absurd_inputs_are_harmless() {
    for input in inputs::absurd() {
        election::holds(&input);
    }
}

proptest! {
    #![proptest_config(inputs::cases(2000))]

    #[test]
    fn an_election_keeps_its_rules_whatever_it_hears(input in inputs::random(&folder(), 4096)) {
        election::holds(&input);
    }
}
