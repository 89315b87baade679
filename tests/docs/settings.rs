//! The tables of settings in docs/configuration.md are what the code says of them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use super::{file, top};

const PAGE: &str = "docs/configuration.md";
const SOURCES: [&str; 7] = [
    "crates/nats-elect-core/src/config/role.rs",
    "src/model/config/manager.rs",
    "src/model/config/access.rs",
    "src/model/config/events.rs",
    "src/model/config/admin.rs",
    "src/model/config/last_will.rs",
    "src/model/config/group.rs",
];
/// Each table has this type's name at its top.
const TABLES: [&str; 3] = ["RoleConfig", "GroupConfig", "ManagerConfig"];

/// A setting: its name, its type, and the first paragraph of what is said of it.
struct Setting {
    name: String,
    kind: String,
    what: String,
}

/// The settings of each struct, in their order.
fn structs() -> BTreeMap<String, Vec<Setting>> {
    let mut structs = BTreeMap::new();
    for source in SOURCES {
        let text = file(Path::new(source));
        for part in text.split("\npub struct ").skip(1) {
            let (name, rest) = part.split_once(" {\n").expect("fields");
            let (fields, _) = rest.split_once("\n}").expect("an end");
            if name.ends_with("Config") {
                structs.insert(name.to_owned(), settings(fields));
            }
        }
    }
    structs
}

fn settings(fields: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    for field in fields.split("\n\n") {
        let lines: Vec<_> = field.lines().map(str::trim).collect();
        let declared = lines.iter().find_map(|line| line.strip_prefix("pub "));
        let (name, kind) = declared.expect("a field").split_once(": ").expect("a type");
        let said = lines.iter().map_while(|line| line.strip_prefix("/// "));
        settings.push(Setting {
            name: name.to_owned(),
            kind: kind.trim_end_matches(',').to_owned(),
            what: without_links(&said.collect::<Vec<_>>().join(" ")),
        });
    }
    settings
}

/// ``[`ttl`](Self::ttl)`` is `` `ttl` ``, as the page is no page of rustdoc.
fn without_links(text: &str) -> String {
    let mut plain = String::new();
    for (i, part) in text.split("[`").enumerate() {
        let rest = match part.split_once("`]") {
            Some((name, rest)) if i > 0 => {
                write!(plain, "`{name}`").expect("a string");
                let target = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
                target.map_or(rest, |(_, rest)| rest)
            }
            _ => part,
        };
        plain.push_str(rest);
    }
    plain
}

/// The rows of a struct, and of those in it.
fn rows(of: &str, path: &str, structs: &BTreeMap<String, Vec<Setting>>) -> String {
    let mut rows = String::new();
    for Setting { name, kind, what } in &structs[of] {
        let path = format!("{path}{name}");
        if structs.contains_key(kind) {
            rows.push_str(&self::rows(kind, &format!("{path}."), structs));
        } else {
            assert!(!what.is_empty(), "nothing is said of {path}");
            writeln!(rows, "| `{path}` | {what} |").expect("a string");
        }
    }
    rows
}

/// The page with the tables as they should be.
fn expected() -> String {
    let structs = structs();
    let mut page = file(Path::new(PAGE));
    for of in TABLES {
        let head = format!("| `{of}` | what it is |\n| --- | --- |\n");
        let start = page.find(&head).expect("a table") + head.len();
        let end = start + page[start..].find("\n\n").expect("an end") + 1;
        page.replace_range(start..end, &rows(of, "", &structs));
    }
    page
}

#[test]
fn each_setting_is_told_as_the_code_says_it() {
    let kept = file(Path::new(PAGE));
    let expected = expected();
    let differs = expected.lines().find(|line| !kept.contains(line));
    assert!(
        kept == expected,
        "{PAGE} is old: `cargo test --test docs -- --ignored writes_the_tables` writes it anew: {differs:?}"
    );
}

#[test]
#[ignore = "writes docs/configuration.md"]
fn writes_the_tables_of_settings() {
    std::fs::write(top().join(PAGE), expected()).expect("written");
}
