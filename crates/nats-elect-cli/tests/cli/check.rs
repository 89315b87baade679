//! `check`: what a configuration comes to, and what is wrong with it.

use serde_json::json;

use crate::fleet::json;
use crate::{Ended, nats_elect, with_stdin};

fn check(text: &str) -> Ended {
    with_stdin(&mut nats_elect(&["check", "-"]), text)
}

#[test]
fn all_defaults_are_told_and_how_long_failovers_take() {
    let output = check("[roles.scheduler]\nttl = '5s'\n").with_code(0);
    output.says_all([
        "role scheduler",
        "heartbeat_interval        1s",
        "stop_budget               1s",
        "drift margin 100ms",
        "at most 5s",
        "wound down 3.9s after its last heartbeat, and has ended after 4.9s",
    ]);
}

#[test]
fn programs_get_the_same_as_json() {
    let text = "[manager]\nreplicas = 3\n[roles.a]\nttl = '5s'\n[roles.b]\n";
    let output = with_stdin(&mut nats_elect(&["check", "--json", "-"]), text);
    let value = json(&output.stdout);
    assert_eq!(value["roles"][0]["settings"]["stop_budget"], "1s");
    assert_eq!(value["roles"][0]["failover"][0]["at_most_seconds"], 5);
    assert_eq!(value["roles"][0]["drift_margin_seconds"], 0.1);
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
        "[manager]\nevents.keep = '1ms'\n[roles.a]\nttl = '1s'\nstop_budget = '2s'\n[roles.b]\nmax_backoff = '2h'\n",
    ).with_code(2);
    output.complains_all([
        "-:2:8: manager: `events.keep` is 1ms",
        "-:5:1: roles.a: `stop_budget` is 2s",
        "-:7:1: roles.b: `max_backoff` is 2h",
    ]);
    assert_eq!(output.stdout, "");
}

#[test]
fn groups_are_told_with_their_settings_and_refused_with_their_place() {
    let text = "[groups.cache]\napart = [['0', '1']]\n[groups.jobs]\nweights = { billing = 4000 }\n\
        requires = { billing = ['disk=ssd'] }\n[groups.plain]\n";
    let set = [
        ("NATS_ELECT_GROUPS__CACHE__SHARDS", "256"),
        ("NATS_ELECT_GROUPS__OTHER__SHARDS", "8"),
    ];
    let output = with_stdin(nats_elect(&["check", "-"]).envs(set), text).with_code(0);
    output.says_all([
        "group cache\n",
        "shards  256  (from NATS_ELECT_GROUPS__CACHE__SHARDS)",
        "apart   [\"0\",\"1\"]",
        "weights.billing   4000",
        "requires.billing  disk=ssd",
        "group plain\n  as the program sets it",
    ]);
    output.complains("NATS_ELECT_GROUPS__OTHER__SHARDS in the environment has no effect");
    let output = with_stdin(nats_elect(&["check", "--json", "-"]).envs(set), text);
    let groups = &json(&output.stdout)["groups"];
    let cache = json!({"group": "cache", "settings": {"shards": 256, "apart": [["0", "1"]]}});
    assert_eq!(groups[0], cache);
    let broken = [("NATS_ELECT_GROUPS__CACHE__SHARDS", "0")];
    let output = with_stdin(nats_elect(&["check", "-"]).envs(broken), text).with_code(2);
    output.complains("`NATS_ELECT_GROUPS__CACHE__SHARDS` is 0, but must be from 1 to 65536");

    let output = check(
        "[groups.a]\nshards = 70000\n[groups.b]\nweights = { x = 0 }\n[groups.c]\n\
         apart = [['x', 'x']]\n[groups.'d e']\n",
    );
    output.with_code(2).complains_all([
        "-:2:1: groups.a: `shards` is 70000, but must be from 1 to 65536",
        "-:4:13: groups.b: `weights.x` is 0, but must be from 1 to 1000000",
        "-:6:1: groups.c: `apart[0]` is \"x\", but must not be twice in one list",
        "groups.d e: \"d e\" is not a valid group name",
    ]);
}

#[test]
fn metadata_of_the_instance_counts_with_that_of_a_role() {
    let value = "x".repeat(2500);
    let fits = format!("[manager]\nmeta.a = '{value}'\n[roles.r]\n");
    check(&fits).assert_code(0);
    let too_large = format!("{fits}meta.b = '{value}'\n");
    let output = check(&too_large).with_code(2);
    output.complains_all(["-:4:1: roles.r: `meta`", "4096"]);
    // The role's entry wins, and so there is one of them.
    let same = too_large.replace("meta.b", "meta.a");
    check(&same).assert_code(0);
}

#[test]
fn unknown_settings_are_errors_with_their_place_in_toml_and_in_json() {
    for (text, expected) in [
        ("[roles.a]\ntll = '1s'\n", "-:2:1: unknown field `tll`"),
        (
            "[groups.a]\nshard = 8\n",
            "-:2:1: unknown field `shard`, expected one of `shards`",
        ),
        ("[group.a]\nshards = 8\n", "-:1:2: unknown field `group`"),
        (
            "[roles.a]\nhealth = { interval = '1s' }\n",
            "-:2:1: unknown field `health`, expected one of `ttl`",
        ),
        (
            "{\"roles\":\n{\"a\":{\"tll\":1}}}",
            "-:2:11: unknown field `tll`",
        ),
    ] {
        let output = check(text).with_code(2);
        output.complains(expected);
    }
}

#[test]
fn the_settings_of_an_application_are_in_a_table_of_its_file() {
    let own = "listen = ':80'\n[app.elect.roles.a]\nttl = '5s'\n[app.other]\nttl = 7\n";
    let in_table = |text: &str| {
        let mut command = nats_elect(&["check", "--table", "app.elect", "-"]);
        with_stdin(&mut command, text)
    };
    let output = in_table(own).with_code(0);
    output.says("role a");
    for (text, expected) in [
        (
            "x = 1\n[app.elect.roles.a]\nttl = '1ms'\n",
            "-:3:1: app.elect.roles.a: `ttl` is 1ms",
        ),
        (
            "x = 1\n[app.elect.roles.a]\ntll = '1s'\n",
            "-:3:1: unknown field `tll`",
        ),
        (
            "{\"app\":{\"x\":1,\"elect\":\n{\"tll\":1}}}",
            "-:2:6: unknown field `tll`",
        ),
        (
            "[app.elect.manager]\nreplicas = 9\n",
            "-:2:1: app.elect.manager: `replicas` is 9",
        ),
        ("[app]\nx = 1\n", "- has no table `app.elect`"),
        ("[app]\nelect = 7\n", "-:2:9: invalid type"),
    ] {
        let output = in_table(text).with_code(2);
        output.complains(expected);
    }
}

#[test]
fn settings_of_the_environment_are_told_with_their_variables() {
    let text = "[manager]\nbucket = 'b'\n[roles.a-b]\nttl = '15s'\n";
    let set = [
        ("NATS_URL", "nats://n1"),
        ("NATS_ELECT_REPLICAS", "3"),
        ("NATS_ELECT_ROLES__A_B__TTL", "20s"),
        ("NATS_ELECT_ROLES__C__TTL", "20s"),
    ];
    let output = with_stdin(nats_elect(&["check", "-"]).envs(set), text).with_code(0);
    output.says_all([
        "nats://n1  (from NATS_URL)",
        "3  (from NATS_ELECT_REPLICAS)",
        "20s  (from NATS_ELECT_ROLES__A_B__TTL)",
    ]);
    assert_eq!(output.stdout.matches("(from").count(), 3);
    let wrong = [
        ("NATS_ELECT_MANAGER_BUCKET", "b"),
        ("NATS_ELECT_SERVICE_HOST", "10.0.0.1"),
        ("NATS_ELECT_FENCING_TOKEN", "7"),
    ];
    let warned = with_stdin(nats_elect(&["check", "-"]).envs(wrong), text);
    let expected = "warning: NATS_ELECT_MANAGER_BUCKET in the environment has no effect: docs/configuration.md has the names of all settings\n";
    assert_eq!((warned.code, &*warned.stderr), (Some(0), expected));
    let other = "NATS_ELECT_ROLES__C__TTL in the environment has no effect";
    output.complains(other);
    let output = with_stdin(nats_elect(&["check", "--json", "-"]).envs(set), text);
    let report = json(&output.stdout);
    assert_eq!(report["roles"][0]["settings"]["ttl"], "20s");
    let variables = report["environment"].as_array().expect("a list");
    let ttl = json!({"setting": "roles.a-b.ttl", "variable": "NATS_ELECT_ROLES__A_B__TTL"});
    assert!(variables.len() == 3 && variables.contains(&ttl), "{report}");

    let wrong = [("NATS_ELECT_ROLES__A_B__TTL", "1ms")];
    let output = with_stdin(nats_elect(&["check", "-"]).envs(wrong), text).with_code(2);
    let expected = "`NATS_ELECT_ROLES__A_B__TTL` is 1ms, but must be from 100ms to 1h";
    output.complains(expected);
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
    let output = with_stdin(&mut nats_elect(&["check", "/nonexistent.toml"]), "").with_code(2);
    output.complains("/nonexistent.toml can't be read");
}

#[test]
fn a_last_will_has_a_row_of_its_own() {
    let killed = |manager: &str| {
        let output = check(&format!("{manager}[roles.a]\n")).with_code(0);
        let mut rows = output.stdout.lines();
        rows.any(|row| row.contains("killed, aborted") && row.contains("companion"))
    };
    assert!(killed("[manager.last_will]\nenabled = true\n"));
    assert!(!killed(""));
}
