//! Inputs: those that are kept, random ones, and absurd ones.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

use crate::properties::{answer, config, election, record, watch};

const CASES: u32 = 2000;

type Property = fn(&[u8]);

const PROPERTIES: [(&str, Property); 5] = [
    ("record", record::holds),
    ("config", config::holds),
    ("watch", watch::holds),
    ("answer", answer::holds),
    ("election", election::holds),
];

/// The inputs kept for a property, in the order of their names.
fn kept(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/inputs")
        .join(name);
    let mut inputs: Vec<_> = fs::read_dir(folder)
        .expect("a folder of inputs")
        .map(|file| file.expect("a file").path())
        .map(|path| {
            (
                path.display().to_string(),
                fs::read(&path).expect("an input"),
            )
        })
        .collect();
    inputs.sort();
    inputs
}

#[test]
fn every_kept_input_is_harmless() {
    for (name, holds) in PROPERTIES {
        let inputs = kept(name);
        assert!(!inputs.is_empty(), "no inputs for {name}");
        for (path, input) in inputs {
            println!("{path}");
            holds(&input);
        }
    }
}

#[test]
fn absurd_inputs_are_harmless() {
    let deep = |open: &str, close: &str| [open.repeat(50_000), close.repeat(50_000)].concat();
    let megabyte = 1 << 20;
    let absurd = [
        Vec::new(),
        vec![0; megabyte],
        vec![0xff; megabyte],
        b"a".repeat(megabyte),
        deep("[", "]").into_bytes(),
        deep("{\"a\":", "}").into_bytes(),
        deep("a=[", "]").into_bytes(),
        format!("{{\"meta\":{{\"x\":{}}}}}", deep("[", "]")).into_bytes(),
        format!("{{\"id\":\"{}\",\"ttl_ms\":100}}", "x".repeat(60_000)).into_bytes(),
        format!("ttl = \"{}s\"", "9".repeat(100_000)).into_bytes(),
        format!("servers = [{}]", "'',".repeat(100_000)).into_bytes(),
        format!("bucket = '{}'", "b".repeat(megabyte)).into_bytes(),
        format!("servers = '{}'", "s".repeat(megabyte)).into_bytes(),
        format!("{{\"priority\":{}}}", "9".repeat(100_000)).into_bytes(),
        format!("{{\"error\":{{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: {}\"}}}}",
            "9".repeat(100_000)).into_bytes(),
    ];
    for input in absurd {
        for (_, holds) in PROPERTIES {
            holds(&input);
        }
    }
}

/// Kept inputs, cut and joined and sprinkled with other bytes; or just bytes.
fn inputs(name: &'static str, most: usize) -> BoxedStrategy<Vec<u8>> {
    let kept: Vec<_> = kept(name).into_iter().map(|(_, input)| input).collect();
    let piece = (
        proptest::sample::select(kept),
        any::<Index>(),
        any::<Index>(),
    )
        .prop_map(|(input, from, to)| {
            let (from, to) = (from.index(input.len() + 1), to.index(input.len() + 1));
            input[from.min(to)..from.max(to)].to_vec()
        });
    let bytes = proptest::collection::vec(any::<u8>(), 0..most);
    let few = proptest::collection::vec(any::<u8>(), 0..8);
    prop_oneof![
        2 => bytes,
        1 => proptest::collection::vec(prop_oneof![piece, few], 1..6).prop_map(|pieces| pieces.concat()),
    ]
    .boxed()
}

proptest! {
    // Inputs that broke a property are kept as files, not as seeds.
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_stands_in_a_key_is_read(input in inputs("record", 512)) {
        record::holds(&input);
    }

    #[test]
    fn whatever_a_file_says_is_refused_or_obeys_every_rule(input in inputs("config", 512)) {
        config::holds(&input);
    }

    #[test]
    fn whatever_a_watch_delivers_is_an_entry_or_ends_it(input in inputs("watch", 1024)) {
        watch::holds(&input);
    }

    #[test]
    fn whatever_the_server_answers_is_told(input in inputs("answer", 512)) {
        answer::holds(&input);
    }

    #[test]
    fn whatever_an_election_hears_it_keeps_its_rules(input in inputs("election", 4096)) {
        election::holds(&input);
    }
}
