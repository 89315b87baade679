//! docs/cli-reference.md is the help of all commands.

use std::fmt::Write;
use std::path::Path;

use crate::{ended, nats_elect};

const HEAD: &str = "\
# Reference of the command

All commands with all their options, as `nats-elect help COMMAND` prints them. [cli.md](cli.md) is the
guide. This page is written by `cargo test -p nats-elect-cli --test cli reference -- --ignored`.
";

fn help(command: &[&str]) -> String {
    let output = ended(&mut nats_elect(&[&["help"], command].concat())).with_code(0);
    output.stdout
}

/// The names in a list of commands.
fn listed(help: &str) -> Vec<String> {
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return Vec::new();
    };
    let list = list.split("\n\n").next().unwrap_or_default();
    let names = list.lines().filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|it| *it != "help")
        .map(ToOwned::to_owned)
        .collect()
}

/// The paragraphs of a help: an option each, and the texts between them. A heading is one by itself.
fn paragraphs(help: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut last = "";
    for line in help.lines().map(str::trim_end) {
        let is_heading = |line: &str| line.ends_with(':') && !line.starts_with(' ');
        let is_option = line.trim_start().starts_with('-') && line.starts_with("  ");
        if is_option || is_heading(line) || is_heading(last) {
            all.push(String::new());
        }
        let _ = writeln!(all.last_mut().expect("one"), "{line}");
        last = line;
    }
    all
}

/// Returns the help of a command without the options that every command has.
fn own(help: &str, of_all: &[String]) -> String {
    let mut own: Vec<_> = paragraphs(help);
    let is_of_all = |it: &String| of_all.iter().any(|of| of.trim() == it.trim());
    own.retain(|it| !it.trim_start().starts_with('-') || !is_of_all(it));
    // A heading without options is none.
    let is_empty = |at: usize| {
        matches!(
            own[at].trim(),
            "Options:" | "Output:" | "Connection:" | "Signatures:"
        ) && own
            .get(at + 1)
            .is_none_or(|next| !next.trim_start().starts_with('-'))
    };
    let kept = (0..own.len()).filter(|at| !is_empty(*at));
    kept.map(|at| own[at].as_str()).collect()
}

fn page() -> String {
    let top = help(&[]);
    let of_all = paragraphs(&top);
    let mut page = format!("{HEAD}\n```text\n{}\n```\n", of_all.concat().trim_end());
    let rare = ["end-lease", "role", "verify"].map(ToOwned::to_owned);
    for name in listed(&top).into_iter().chain(rare) {
        let text = help(&[&name]);
        let mut add = |names: &str, text: &str| {
            let text = own(text, &of_all);
            let _ = write!(page, "\n## {names}\n\n```text\n{}\n```\n", text.trim_end());
        };
        let below = listed(&text);
        if below.is_empty() {
            add(&name, &text);
        }
        for sub in below {
            add(&format!("{name} {sub}"), &help(&[&name, &sub]));
        }
    }
    page
}

fn path() -> impl AsRef<Path> {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli-reference.md")
}

#[test]
fn the_reference_is_what_help_prints() {
    let kept = std::fs::read_to_string(path()).expect("the page");
    let page = page();
    let differs = kept
        .lines()
        .zip(page.lines())
        .find(|(kept, now)| kept != now);
    assert!(kept == page, "docs/cli-reference.md is old: {differs:?}");
}

#[test]
#[ignore = "writes docs/cli-reference.md"]
fn the_reference_is_written() {
    std::fs::write(path(), page()).expect("written");
}
