//! What can be said of the files in `deploy` without running them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::expressions::{OF_EXEC, alerts, dashboard, of_dashboard, recorded};
use super::markdown::{anchor_of, anchors, links};
use super::{deploy, file, mixin};

/// Writes the rendered files instead of comparing them.
const RENDER: &str = "NATS_ELECT_RENDER";

#[test]
fn the_rendered_files_are_what_the_mixin_says() {
    for (path, rendered) in mixin::rendered() {
        let path = deploy().join(path);
        if std::env::var_os(RENDER).is_some() {
            fs::write(&path, &rendered).expect("a file");
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == rendered,
            "{} is not what the mixin says: render it with `{RENDER}=1 cargo test --test it prometheus`",
            path.display()
        );
    }
}

#[test]
fn every_alert_says_what_it_must_and_compares_a_recorded_series() {
    let recorded: BTreeSet<_> = recorded().into_iter().map(|rule| rule.place).collect();
    let anchors = anchors(&file("docs/runbook.md"));
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let (name, series) = (&alert.name, &alert.series);
        assert!(names.insert(name.clone()), "{name} twice");
        assert!(name.starts_with("NatsElect"), "{name}");
        assert!(
            ["critical", "warning"].contains(&alert.severity.as_str()),
            "{name}"
        );
        let metric = series.split('{').next().unwrap_or(series);
        assert!(recorded.contains(metric), "{name} looks at {metric}");
        let said: BTreeSet<_> = alert.annotations.keys().map(String::as_str).collect();
        assert_eq!(
            said,
            BTreeSet::from(["description", "runbook_url", "summary"]),
            "{name}"
        );
        assert!(
            alert.annotations["description"].contains("{{ $labels."),
            "{name}"
        );
        let (page, anchor) = alert.annotations["runbook_url"]
            .split_once('#')
            .expect("a chapter");
        assert!(page.ends_with("/nats_elect/runbook/index.html"), "{name}");
        assert_eq!(anchor, anchor_of(name));
        assert!(anchors.contains(anchor), "{name}");
    }
}

/// `tests/docs` follows them in a checkout.
#[test]
fn the_links_of_the_runbook_work_in_the_documentation_of_the_crate() {
    let module =
        "#[doc = include_str!(\"../docs/runbook.md\")]\n#[doc = include_str!(\"docs/links.html\")]";
    assert!(file("src/lib.rs").contains(module), "the script is missing");
    let targets = links(&file("docs/runbook.md"));
    assert!(targets.iter().any(|it| it.starts_with("operations.md#")));
    for target in targets {
        let page = target.split('#').next().unwrap_or_default();
        let name = page.strip_suffix(".md").unwrap_or(page);
        let is_page = page.is_empty() || name != page && !page.contains('/');
        assert!(is_page || page.starts_with("../deploy/"), "{target}");
    }
}

#[test]
fn the_commands_of_a_chapter_stand_in_blocks() {
    let runbook = file("docs/runbook.md");
    let (_, chapters) = runbook.split_once("\n## ").expect("chapters");
    let blocks = chapters.split("```");
    // Every other part is a block.
    for text in blocks.clone().step_by(2) {
        let spans = text.split('`').skip(1).step_by(2);
        for span in spans.filter(|it| it.starts_with("nats")) {
            let is_link = text.contains(&format!("[`{span}`]("));
            assert!(is_link, "{span}");
        }
    }
    let commands = blocks.skip(1).step_by(2).flat_map(str::lines);
    let commands = commands.filter(|line| line.starts_with("$ ")).count();
    assert!(commands > 20, "{commands}");
}

#[test]
fn the_runbook_has_a_chapter_for_each_alert_and_no_other() {
    let runbook = file("docs/runbook.md");
    let chapters: Vec<_> = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("## NatsElect"))
        .map(|rest| format!("NatsElect{rest}"))
        .collect();
    let alerts: Vec<_> = alerts().into_iter().map(|alert| alert.name).collect();
    assert_eq!(chapters, alerts, "in the order of the alerts");
    let chapters = runbook
        .split("\n## ")
        .filter_map(|it| it.strip_prefix("NatsElect"));
    for chapter in chapters {
        for part in ["**Means.**", "**Hurts.**", "**Look.**", "**Do.**"] {
            let name = chapter.lines().next().unwrap_or_default();
            assert_eq!(
                chapter.matches(part).count(),
                1,
                "{part} of NatsElect{name}"
            );
        }
    }
}

#[test]
fn every_metric_that_rules_and_dashboard_name_exists() {
    let known: BTreeSet<_> = nats_elect::METRICS
        .iter()
        .map(|metric| metric.name)
        .chain(OF_EXEC)
        .collect();
    // A test of the command compares this page with what `serve` tells.
    let page = file("docs/serve.md");
    let recorded = recorded();
    let names: BTreeSet<_> = recorded.iter().map(|rule| rule.place.as_str()).collect();
    for expression in recorded.iter().chain(&of_dashboard(&dashboard())) {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
        for word in expression.text.split(|c| !is_part(c)) {
            if word.contains(":election_") {
                assert!(names.contains(word), "{word} in {}", expression.place);
            } else if word.starts_with("election_observed_") {
                let is_there = page.contains(&format!("`{word}`"));
                assert!(is_there, "{word} in {}", expression.place);
            } else if word.starts_with("election_") {
                let parts = ["_bucket", "_sum", "_count"];
                let whole = parts.iter().find_map(|part| word.strip_suffix(part));
                let found =
                    known.contains(word) || whole.is_some_and(|whole| known.contains(whole));
                assert!(found, "{word} in {}", expression.place);
            }
        }
    }
}

#[test]
fn the_dashboard_is_one_that_grafana_takes() {
    let dashboard = dashboard();
    assert!(
        dashboard["schemaVersion"].as_u64() >= Some(38),
        "Grafana 10"
    );
    assert!(dashboard["uid"].as_str().is_some_and(|uid| uid.len() <= 40));
    assert!(
        dashboard.get("id").is_none(),
        "it is another in each Grafana"
    );
    let variables: Vec<_> = dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
        .iter()
        .map(|variable| variable["name"].as_str().expect("a name"))
        .collect();
    assert_eq!(variables, ["datasource", "bucket", "role", "instance_id"]);
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().expect("a title");
        assert!(ids.insert(panel["id"].as_u64().expect("an id")), "{title}");
        let at = |side: &str| panel["gridPos"][side].as_u64().expect("a place");
        assert!(
            at("w") > 0 && at("h") > 0 && at("x") + at("w") <= 24,
            "{title}"
        );
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(taken.insert((x, y)), "{title} lies over another");
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(
            !panel["description"].as_str().unwrap_or_default().is_empty(),
            "{title}"
        );
        is_chosen(&panel["datasource"], title);
        // Grafana puts no variables into options.
        let options = panel["options"].to_string();
        assert!(!options.contains('$'), "{title}: {options}");
        let targets = panel["targets"].as_array();
        assert_eq!(targets.is_none(), panel["type"] == "alertlist", "{title}");
        let mut letters = BTreeSet::new();
        for target in targets.into_iter().flatten() {
            is_chosen(&target["datasource"], title);
            assert!(
                letters.insert(target["refId"].as_str().expect("a letter")),
                "{title}"
            );
            let expr = target["expr"].as_str().expect("an expression");
            assert!(expr.contains("bucket=~\"$bucket\""), "{title}: {expr}");
        }
    }
    let kinds: BTreeSet<_> = panels
        .iter()
        .filter_map(|panel| panel["type"].as_str())
        .collect();
    for kind in [
        "state-timeline",
        "timeseries",
        "stat",
        "alertlist",
        "heatmap",
    ] {
        assert!(kinds.contains(kind), "{kind}");
    }
}

#[test]
fn panels_keep_roles_of_one_name_in_several_fleets_apart() {
    let config = r#"{ fleet: ["cluster", "bucket"] }"#;
    let dashboard = mixin::field_with(config, "grafanaDashboard");
    let (mut grouped, mut named) = (0, 0);
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expr = target["expr"].as_str().expect("an expression");
            for kept in expr.split("by (").skip(1) {
                let kept = kept.split_once(')').expect("labels").0;
                let kept: Vec<_> = kept.split(", ").collect();
                if kept.contains(&"role") || kept.contains(&"instance_id") {
                    assert_eq!(kept[..2], ["cluster", "bucket"], "{expr}");
                    grouped += 1;
                }
            }
            let legend = target["legendFormat"].as_str().expect("a legend");
            if legend.contains("{{role}}") || legend.contains("{{instance_id}}") {
                assert!(legend.contains("{{cluster}} · {{bucket}} · "), "{legend}");
                named += 1;
            }
        }
    }
    assert!(grouped > 0 && named > 0);
}

fn is_chosen(datasource: &Value, title: &str) {
    assert_eq!(datasource["uid"], "${datasource}", "{title}");
    assert_eq!(datasource["type"], "prometheus", "{title}");
}
