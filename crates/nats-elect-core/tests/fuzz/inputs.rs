//! Inputs for a property: those that are kept, random ones, and absurd ones.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

/// The inputs in a folder, with their paths, in the order of their names.
pub fn kept(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).expect("a folder of inputs");
    let mut inputs: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .map(|path| {
            let input = fs::read(&path).expect("an input");
            (path.display().to_string(), input)
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "no inputs in {}", folder.display());
    inputs
}

/// Inputs that are long, deep or meaningless by design.
pub fn absurd() -> Vec<Vec<u8>> {
    let deep = |open: &str, close: &str| [open.repeat(50_000), close.repeat(50_000)].concat();
    let megabyte = 1 << 20;
    vec![
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
        format!(
            "{{\"error\":{{\"code\":400,\"err_code\":10071,\"description\":\"wrong last sequence: {}\"}}}}",
            "9".repeat(100_000)
        )
        .into_bytes(),
    ]
}

/// Kept inputs, cut and joined and sprinkled with other bytes; or just bytes.
pub fn random(folder: &Path, most: usize) -> BoxedStrategy<Vec<u8>> {
    let kept: Vec<_> = kept(folder).into_iter().map(|(_, input)| input).collect();
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

/// Inputs that broke a property are kept as files, not as seeds.
pub fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
