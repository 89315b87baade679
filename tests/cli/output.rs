//! How things are told.

use std::io::Read;
use std::process::Stdio;

use crate::{ended, nats_elect};

#[test]
fn nothing_goes_wrong_when_nobody_reads_any_more() {
    for arguments in [&["completions", "bash"][..], &["man"], &["check", "-"]] {
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
fn each_shell_gets_its_completions_and_man_a_page_for_each_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let told = ended(&mut nats_elect(&["completions", shell]));
        assert_eq!(told.code, Some(0));
        assert!(told.stdout.contains("verify"), "{shell}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("text");
    assert_eq!(ended(&mut nats_elect(&["man", path])).code, Some(0));
    for page in ["nats-elect.1", "nats-elect-exec.1", "nats-elect-check.1"] {
        let page = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(page.contains(".TH"), "{page}");
    }
}

#[test]
fn help_lists_what_there_is_and_the_exit_codes() {
    let told = ended(&mut nats_elect(&["--help"]));
    for expected in [
        "ls",
        "watch",
        "inspect",
        "candidates",
        "history",
        "exec",
        "check",
        "verify",
        "Exit codes:",
        "NATS_URL",
    ] {
        assert!(told.stdout.contains(expected), "{expected}");
    }
    assert!(!told.stdout.contains("exec-guard"), "{}", told.stdout);
    assert!(
        !told.stdout.contains('\u{1b}'),
        "no colours but on a terminal"
    );
}
