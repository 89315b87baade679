//! `check`: what a configuration comes to, and what is wrong with it.

use serde_json::{Value, json};

use crate::{Ended, nats_elect, with_stdin};

fn check(text: &str) -> Ended {
    with_stdin(&mut nats_elect(&["check", "-"]), text)
}

#[test]
fn all_defaults_are_told_and_how_long_failovers_take() {
    let output = check("[roles.scheduler]\nttl = '5s'\n");
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    for expected in [
        "role scheduler",
        "heartbeat_interval                1s",
        "stop_budget                       1s",
        "drift margin 100ms",
        "at most 5s",
        "wound down 3s 900ms after its last heartbeat, and has ended after 4s 900ms",
    ] {
        assert!(
            output.stdout.contains(expected),
            "{expected}: {}",
            output.stdout
        );
    }
}

#[test]
fn programs_get_the_same_as_json() {
    let text = "[manager]\nreplicas = 3\n[roles.a]\nttl = '5s'\n[roles.b]\n";
    let output = with_stdin(&mut nats_elect(&["check", "--json", "-"]), text);
    let value: Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(value["roles"][0]["settings"]["stop_budget"], "1s");
    assert_eq!(value["roles"][0]["failover"][0]["at_most"], "5s");
    let warning = value["roles"][0]["warnings"][0]
        .as_str()
        .expect("a warning");
    assert!(warning.contains("4 to 6 seconds"), "{warning}");
    assert_eq!(value["roles"][1]["warnings"], json!([]));
    assert_eq!(value["manager"]["replicas"], 3);
}

#[test]
fn every_broken_rule_is_told_with_its_place() {
    let output = check(
        "[manager]\nreplicas = 9\n[roles.a]\nttl = '1s'\nstop_budget = '2s'\n[roles.b]\nretry.jitter = 3.0\n",
    );
    assert_eq!(output.code, Some(2));
    for expected in [
        "-:2:1: manager: `replicas` is 9",
        "-:5:1: roles.a: `stop_budget` is 2s",
        "-:7:7: roles.b: `retry.jitter` is 3",
    ] {
        assert!(
            output.stderr.contains(expected),
            "{expected}: {}",
            output.stderr
        );
    }
    assert_eq!(output.stdout, "");
}

#[test]
fn unknown_settings_are_errors_with_their_place_in_toml_and_in_json() {
    for (text, expected) in [
        ("[roles.a]\ntll = '1s'\n", "-:2:1: unknown field `tll`"),
        (
            "{\"roles\":\n{\"a\":{\"tll\":1}}}",
            "-:2:11: unknown field `tll`",
        ),
    ] {
        let output = check(text);
        assert_eq!(output.code, Some(2));
        assert!(output.stderr.contains(expected), "{}", output.stderr);
    }
}

#[test]
fn secrets_are_shown_neither_in_what_is_told_nor_in_errors() {
    for text in [
        "[manager]\nservers = 'nats://ada:s3cret@host'\n",
        "[manager.auth]\nuser = 'ada'\npassword = 's3cret'\n",
        "[manager.auth]\npassword = 's3cret'\n",
        "[manager]\nservers = ['nats://ada:s3cret@ho st']\n",
        "[manager.auth]\ntoken = ['s3cret']\n",
        "[manager.auth]\ntoken = 's3cret\n",
        "{\"manager\":{\"auth\":{\"token\":[\"s3cret\"]}}}",
        "[manager.auth]\ntoken = 53323\n",
    ] {
        let output = check(text);
        let shown = output.stdout + &output.stderr;
        assert!(
            !shown.contains("s3cret") && !shown.contains("53323"),
            "{shown}"
        );
    }
}

#[test]
fn a_file_that_is_not_there_is_told() {
    let output = with_stdin(&mut nats_elect(&["check", "/nonexistent.toml"]), "");
    assert_eq!(output.code, Some(2));
    assert!(
        output.stderr.contains("/nonexistent.toml can't be read"),
        "{}",
        output.stderr
    );
}
