//! Each property on inputs that are kept, absurd or random.

use std::path::PathBuf;

use proptest::prelude::*;

use super::{answer, config, inputs, record, watch};

type Property = fn(&[u8]);

const PROPERTIES: [(&str, Property); 4] = [
    ("record", record::holds),
    ("config", config::holds),
    ("watch", watch::holds),
    ("answer", answer::holds),
];

/// The inputs kept for a property.
fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/inputs")
        .join(name)
}

#[test]
fn every_kept_input_is_harmless() {
    for (name, holds) in PROPERTIES {
        for (path, input) in inputs::kept(&folder(name)) {
            println!("{path}");
            holds(&input);
        }
    }
}

#[test]
fn absurd_inputs_are_harmless() {
    for input in inputs::absurd() {
        for (_, holds) in PROPERTIES {
            holds(&input);
        }
    }
}

proptest! {
    #![proptest_config(inputs::cases(2000))]

    #[test]
    fn any_value_of_a_key_is_read(input in inputs::random(&folder("record"), 512)) {
        record::holds(&input);
    }

    #[test]
    fn any_file_is_refused_or_obeys_every_rule(input in inputs::random(&folder("config"), 512)) {
        config::holds(&input);
    }

    #[test]
    fn any_message_of_a_watch_is_an_entry_or_ends_the_watch(input in inputs::random(&folder("watch"), 1024)) {
        watch::holds(&input);
    }

    #[test]
    fn any_answer_of_the_server_is_read(input in inputs::random(&folder("answer"), 512)) {
        answer::holds(&input);
    }
}
