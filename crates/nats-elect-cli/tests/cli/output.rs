//! How things are told.

use std::io::Read;
use std::process::Stdio;

use crate::{ended, nats_elect};

#[test]
fn nothing_goes_wrong_when_nobody_reads_any_more() {
    for arguments in [&["completions", "bash"][..], &["check", "-"]] {
        let mut child = nats_elect(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("start");
        // Before it can have written anything.
        drop(child.stdout.take());
        let mut said = String::new();
        let mut stderr = child.stderr.take().expect("a pipe");
        stderr.read_to_string(&mut said).expect("text");
        let ended = child.wait().expect("its end");
        assert_eq!(ended.code(), Some(0), "{arguments:?}: {said}");
        assert_eq!(said, "", "{arguments:?}");
    }
}

#[test]
fn each_shell_gets_its_completions() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = ended(&mut nats_elect(&["completions", shell])).with_code(0);
        output.says("until-leader");
        output.does_not_say("exec-guard");
    }
}

#[test]
fn help_lists_what_there_is_and_the_exit_codes() {
    let output = ended(&mut nats_elect(&["--help"]));
    for expected in [
        "ls",
        "watch",
        "inspect",
        "candidates",
        "history",
        "exec",
        "check",
        "Rare commands: end-lease, role retire, verify",
        "Exit codes:",
        "How to connect:",
    ] {
        output.says(expected);
    }
    output.does_not_say("exec-guard");
    assert!(
        !output.stdout.contains('\u{1b}'),
        "no colours but on a terminal"
    );
}

#[test]
fn the_options_of_the_connection_stand_in_the_long_help_alone() {
    for arguments in [&["-h"][..], &["ls", "-h"]] {
        let help = ended(&mut nats_elect(arguments)).stdout;
        assert!(!help.contains("--tlscert"), "{help}");
    }
    for arguments in [&["--help"][..], &["ls", "--help"], &["help", "exec"]] {
        let help = ended(&mut nats_elect(arguments)).stdout;
        for expected in ["Connection:", "--tlscert", "NATS_TIMEOUT", "--bucket"] {
            assert!(help.contains(expected), "{expected}: {help}");
        }
    }
    let help = ended(&mut nats_elect(&["--help"])).stdout;
    assert!(help.contains("nats://127.0.0.1:4222"), "{help}");
}

#[test]
fn every_command_has_examples_in_its_help() {
    let help = ended(&mut nats_elect(&["--help"])).stdout;
    let (_, listed) = help.split_once("Commands:\n").expect("commands");
    let listed = listed.split("\n\n").next().expect("a list");
    let commands: Vec<_> = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.len() > 15, "{commands:?}");
    let rare = ["end-lease", "role", "verify"];
    assert!(!rare.iter().any(|it| commands.contains(it)), "{commands:?}");
    let commands = commands.into_iter().chain(rare);
    for command in commands {
        let help = ended(&mut nats_elect(&[command, "--help"])).stdout;
        let (_, examples) = help.split_once("Examples:\n").expect(command);
        assert!(
            examples.contains(&format!("nats-elect {command}")),
            "{command}: {examples}"
        );
    }
}

#[test]
fn nothing_typed_is_answered_with_help_whatever_the_environment_says() {
    let plain = ended(&mut nats_elect(&[]));
    let set = [
        ("NATS_ELECT_BUCKET", "leaders"),
        ("NATS_URL", "nats://host"),
    ];
    let with = ended(nats_elect(&[]).envs(set));
    assert_eq!((plain.code, with.code), (Some(2), Some(2)));
    for output in [&plain, &with] {
        output.complains("Commands:");
    }
    let of_one = ended(&mut nats_elect(&["help", "ls"])).with_code(0);
    of_one.says("--wait");
    let history = ended(&mut nats_elect(&["history", "--help"]));
    history.says("keep = \"30d\"");
}

#[test]
fn what_hangs_in_help_is_not_broken_where_the_lines_end() {
    for command in [
        "step-down",
        "pause",
        "cordon",
        "end-lease",
        "candidates",
        "ls",
        "watch",
        "history",
        "inspect",
    ] {
        let output = ended(&mut nats_elect(&[command, "--help"]));
        let (_, listed) = output.stdout.split_once("Exit codes:").expect(command);
        let lines: Vec<_> = listed.lines().skip(1).collect();
        let indent = |line: &str| line.len() - line.trim_start().len();
        for pair in lines.windows(2) {
            let is_lower = pair[1].trim_start().starts_with(char::is_lowercase);
            let is_code = pair[1].contains("nats-elect");
            let is_broken = indent(pair[0]) > 0 && indent(pair[1]) < 5 && is_lower && !is_code;
            assert!(!is_broken, "{command}: {pair:?}");
        }
    }
}

#[test]
fn list_is_another_name_of_ls() {
    let list = ended(&mut nats_elect(&["list", "--help"]));
    let ls = ended(&mut nats_elect(&["ls", "--help"]));
    assert_eq!((list.code, list.stdout), (Some(0), ls.stdout));
}
