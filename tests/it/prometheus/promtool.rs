//! What `promtool` says of the rules.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;

use super::programs::programs;
use super::{deploy, mixin};

fn promtool(arguments: &[&str], files: &[PathBuf]) -> (bool, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(programs().join("promtool"))
        .args(arguments)
        .args(files)
        .output()
        .expect("promtool");
    let text = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    (status.success(), text.concat())
}

/// The unit tests in a folder.
fn unit_tests(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder.join("tests")).expect("unit tests");
    entries.map(|entry| entry.expect("a file").path()).collect()
}

#[test]
fn promtool_finds_no_fault_with_the_rules() {
    let rules = ["recording_rules.yml", "alerts.yml"];
    let files = rules.map(|rules| deploy().join("prometheus").join(rules));
    let (good, said) = promtool(&["check", "rules"], &files);
    assert!(good, "{said}");
    println!("{said}");
}

#[test]
fn fleets_that_another_label_tells_apart_are_kept_apart() {
    let config = r#"{ fleet: ["cluster", "bucket"], selector: 'job="control-plane"' }"#;
    let folder = tempfile::tempdir().expect("a folder");
    let files = ["recordingRules", "prometheusAlerts"].map(|field| {
        let rules = mixin::field_with(config, field);
        let groups = rules["groups"].as_array().expect("groups");
        for rule in groups
            .iter()
            .flat_map(|group| group["rules"].as_array().expect("rules"))
        {
            let expression = rule["expr"].as_str().expect("an expression");
            let (all, ours) = (
                expression.matches("by (").count(),
                expression.matches("by (cluster, bucket").count(),
            );
            assert_eq!(all, ours, "{expression}");
            for metric in nats_elect::METRICS.iter().map(|metric| metric.name) {
                let bare = [")", "[", " "].map(|after| format!(" {metric}{after}"));
                assert!(
                    !bare.iter().any(|bare| expression.contains(bare)),
                    "{expression}"
                );
            }
        }
        let file = folder.path().join(field);
        fs::write(&file, rules.to_string()).expect("a file"); // JSON is YAML.
        file
    });
    let (good, said) = promtool(&["check", "rules"], &files);
    assert!(good, "{said}");
}

#[test]
fn each_alert_fires_in_its_case_and_stays_silent_in_its_quiet_one() {
    let tests = unit_tests(&deploy().join("prometheus"));
    // It takes one after the other.
    thread::scope(|scope| {
        for half in tests.chunks(tests.len().div_ceil(2)) {
            scope.spawn(move || {
                let (good, said) = promtool(&["test", "rules"], half);
                assert!(good, "{said}");
                println!("{said}");
            });
        }
    });
    let cases: String = tests
        .iter()
        .map(|file| fs::read_to_string(file).expect("a file"))
        .collect();
    for alert in super::expressions::alerts() {
        for case in ["fires", "stays silent"] {
            let case = format!("'{} {case}: ", alert.name);
            assert!(cases.contains(&case), "{case}");
        }
    }
}

/// With thresholds that nothing meets each case in which an alert fires must fail, and with ones
/// that everything meets each quiet one.
#[test]
#[ignore = "minutes of promtool: .ci/nightly runs it"]
fn the_cases_of_the_alerts_can_fail() {
    let alerts = super::expressions::alerts();
    for (never_or_always, failure) in [(-1.0, "got: nil"), (1.0, "exp: nil")] {
        let folder = tempfile::tempdir().expect("a folder");
        let (from, to) = (deploy().join("prometheus"), folder.path());
        let copy = |name: &str| fs::copy(from.join(name), to.join(name)).expect("a copy");
        copy("recording_rules.yml");
        fs::create_dir(to.join("tests")).expect("a folder");
        for file in unit_tests(&from) {
            let name = file
                .file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            copy(&format!("tests/{name}"));
        }
        let mut rules = super::file("deploy/prometheus/alerts.yml");
        for alert in &alerts {
            let far = if alert.operator == ">" { -1e18 } else { 1e18 } * never_or_always;
            let written = format!(
                "{} {} {}\"",
                alert.yaml_series(),
                alert.operator,
                alert.threshold
            );
            let other = format!("{} {} {far:e}\"", alert.yaml_series(), alert.operator);
            assert!(rules.contains(&written), "{written}");
            rules = rules.replace(&written, &other);
        }
        fs::write(to.join("alerts.yml"), rules).expect("a file");
        let (good, said) = promtool(&["test", "rules"], &unit_tests(to));
        assert!(!good);
        for alert in &alerts {
            let name = &alert.name;
            let missed = said
                .split("expr: ")
                .any(|part| part.contains(name.as_str()) && part.contains(failure));
            assert!(missed, "the case of {name} can't fail ({failure})\n{said}");
        }
    }
}
