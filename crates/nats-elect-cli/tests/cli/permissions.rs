//! `permissions`: what it prints is what stands in `deploy/nats` and in the docs.

use std::collections::BTreeSet;

use crate::fleet::json;
use crate::{ended, nats_elect};

const SECURITY: &str = include_str!("../../../../docs/security.md");

/// The users of `deploy/nats`, and how they are printed.
const USERS: [(&str, &str, &[&str]); 5] = [
    (
        "candidate",
        include_str!("../../../../deploy/nats/candidate.conf"),
        &[
            "--role",
            "scheduler",
            "--role",
            "metrics",
            "--group",
            "partitions",
        ],
    ),
    (
        "observer",
        include_str!("../../../../deploy/nats/observer.conf"),
        &["--observer"],
    ),
    (
        "operator",
        include_str!("../../../../deploy/nats/operator.conf"),
        &["--operator"],
    ),
    (
        "admin",
        include_str!("../../../../deploy/nats/admin.conf"),
        &["--admin"],
    ),
    (
        "retire",
        include_str!("../../../../deploy/nats/retire.conf"),
        &["--retire"],
    ),
];

fn printed(options: &[&str]) -> String {
    let output = ended(nats_elect(&["permissions"]).args(options)).with_code(0);
    output.stdout
}

#[test]
fn the_files_in_deploy_have_what_is_printed() {
    for (user, file, options) in USERS {
        let block = printed(options);
        let lines = block.lines().map(|line| format!("      {line}\n"));
        let block: String = lines.collect();
        assert!(
            file.contains(&block),
            "deploy/nats/{user}.conf lacks\n{block}"
        );
        assert!(file.contains(&format!("user: {user}\n")), "{file}");
    }
}

#[test]
fn nsc_is_told_the_same() {
    for (user, _, options) in USERS {
        let mut options = options.to_vec();
        options.push("--json");
        let lists = json(&printed(&options));
        *options.last_mut().expect("an option") = "--nsc";
        options.push(user);
        let command = printed(&options);
        assert!(
            command.starts_with(&format!("nsc edit user --name '{user}'")),
            "{command}"
        );
        for (list, option) in [("publish", "--allow-pub"), ("subscribe", "--allow-sub")] {
            let subjects = lists[list].as_array().expect("a list");
            for subject in subjects {
                let granted = format!("{option} '{}'", subject.as_str().expect("text"));
                assert!(command.contains(&granted), "{granted}: {command}");
            }
            assert_eq!(command.matches(option).count(), subjects.len());
        }
    }
}

/// The subjects in the first column of the page's tables, whole ones alone.
fn in_the_docs() -> BTreeSet<String> {
    let (_, page) = SECURITY
        .split_once("## Who may do what")
        .expect("the chapter");
    let (page, _) = page
        .split_once("## Those who operate")
        .expect("the next one");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let codes = cells.flat_map(|cell| cell.split('`'));
    let subjects = codes.filter(|it| it.starts_with('$') || it.starts_with("nats-elect"));
    subjects.map(ToOwned::to_owned).collect()
}

#[test]
fn the_docs_explain_what_is_printed_and_nothing_else() {
    let docs = in_the_docs();
    assert!(docs.len() > 20, "{docs:?}");
    let of = |options: &[&str]| {
        let lists = json(&printed(options));
        let subjects = lists["publish"].as_array().expect("a list").clone();
        let subjects = subjects.into_iter();
        subjects
            .map(|it| it.as_str().expect("text").to_owned())
            .collect::<Vec<_>>()
    };
    let candidate = of(&["--json", "--role", "scheduler", "--group", "partitions"]);
    for subject in &candidate {
        // The docs write a second subject of a role in short.
        let is_short = subject == "nats-elect.leaders.scheduler.*";
        assert!(
            is_short || docs.contains(subject),
            "docs/security.md lacks {subject}"
        );
    }
    let mut all: BTreeSet<String> = candidate.into_iter().collect();
    for (_, _, options) in USERS {
        all.extend(of(&[options, &["--json"]].concat()));
    }
    // With these an instance makes what the admin makes otherwise.
    for subject in docs {
        assert!(
            all.contains(&subject),
            "docs/security.md: nobody needs {subject}"
        );
    }
}

#[test]
fn a_candidate_names_what_it_stands_for() {
    let output = ended(&mut nats_elect(&["permissions"])).with_code(2);
    output.complains("--role");
    ended(&mut nats_elect(&[
        "permissions",
        "--observer",
        "--operator",
    ]))
    .assert_code(2);
}

#[test]
fn a_name_that_would_change_nothing_is_refused() {
    for options in [
        &["--admin", "--role", "x"][..],
        &["--admin", "--group", "x"],
        &["--observer", "--role", "x"],
        &["--retire", "--group", "x"],
    ] {
        let output = ended(nats_elect(&["permissions"]).args(options)).with_code(2);
        output.complains("changes nothing");
    }
}
