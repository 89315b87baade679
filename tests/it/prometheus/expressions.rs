//! Every expression of the rules and of the dashboard.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{file, mixin};

/// What the dashboard's variables stand for: all of everything, as Grafana writes it, and a minute
/// as it does for scrapes each 15 s.
const VARIABLES: [(&str, &str); 4] = [
    ("\"$bucket\"", "\".*\""),
    ("\"$role\"", "\".*\""),
    ("\"$instance_id\"", "\".*\""),
    ("$__rate_interval", "1m"),
];

/// The metrics of `nats-elect exec` alone. Its own test, `crates/nats-elect-cli/tests/cli/exec/alerts.rs`,
/// has a Prometheus evaluate them.
pub const OF_EXEC: [&str; 1] = ["election_command_down"];
/// What `nats-elect serve` alone tells, and no instance anything like it.
pub const OF_SERVE: [&str; 1] = ["election_observed_stale_seconds"];

/// An expression, and where it stands.
#[derive(Clone, Debug)]
pub struct Expression {
    pub place: String,
    pub text: String,
}

/// An alert: it compares a series with a number.
#[derive(Clone, Debug)]
pub struct Alert {
    pub name: String,
    pub severity: String,
    pub series: String,
    pub operator: String,
    pub threshold: String,
    pub annotations: BTreeMap<String, String>,
}

impl Alert {
    /// The series as it is quoted in the rendered file.
    pub fn yaml_series(&self) -> String {
        self.series.replace('"', "\\\"")
    }
}

/// The rules of the mixin, as JSON: what the rendered files say is compared elsewhere.
fn groups(which: &str) -> Vec<Value> {
    let rules = mixin::field(which);
    let groups = rules["groups"].as_array().expect("groups").clone();
    groups
        .into_iter()
        .flat_map(|group| group["rules"].as_array().expect("rules").clone())
        .collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

pub fn alerts() -> Vec<Alert> {
    let rules = groups("prometheusAlerts");
    rules
        .iter()
        .map(|rule| {
            let expr = text(&rule["expr"]);
            let mut parts = expr.rsplitn(3, ' ');
            let mut part = || {
                parts
                    .next()
                    .expect("series, operator, threshold")
                    .to_owned()
            };
            let (threshold, operator, series) = (part(), part(), part());
            assert!([">", "<"].contains(&operator.as_str()), "{expr}");
            assert!(threshold.parse::<f64>().is_ok(), "{expr}");
            Alert {
                name: text(&rule["alert"]),
                severity: text(&rule["labels"]["severity"]),
                series,
                operator,
                threshold,
                annotations: serde_json::from_value(rule["annotations"].clone())
                    .expect("annotations"),
            }
        })
        .collect()
}

/// The names of what the recording rules record, and their expressions.
pub fn recorded() -> Vec<Expression> {
    let rules = groups("recordingRules");
    rules
        .iter()
        .map(|rule| Expression {
            place: text(&rule["record"]),
            text: text(&rule["expr"]),
        })
        .collect()
}

pub fn dashboard() -> Value {
    serde_json::from_str(&file("deploy/grafana/nats-elect.json")).expect("JSON")
}

/// The expressions of a dashboard's panels and variables, with every variable replaced.
pub fn of_dashboard(dashboard: &Value) -> Vec<Expression> {
    let mut expressions = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        for target in panel["targets"].as_array().into_iter().flatten() {
            expressions.push(Expression {
                place: format!("panel {}", text(&panel["title"])),
                text: replaced(&text(&target["expr"])),
            });
        }
    }
    for variable in dashboard["templating"]["list"]
        .as_array()
        .expect("variables")
    {
        if variable["type"] == "query" {
            // `label_values(series, label)` asks for the label's values in these series.
            let query = text(&variable["query"]["query"]);
            let (series, label) = query
                .strip_prefix("label_values(")
                .and_then(|query| query.strip_suffix(')')?.rsplit_once(", "))
                .expect("label values");
            expressions.push(Expression {
                place: format!("variable {}", text(&variable["name"])),
                text: format!("group by ({label}) ({})", replaced(series)),
            });
        }
    }
    expressions
}

fn replaced(expression: &str) -> String {
    let replaced = VARIABLES
        .iter()
        .fold(expression.to_owned(), |text, (variable, value)| {
            text.replace(variable, value)
        });
    assert!(
        !replaced.contains('$'),
        "an unknown variable in {expression}"
    );
    replaced
}

/// All there are: of rules, of alerts without their threshold, of the dashboard.
pub fn all() -> Vec<Expression> {
    let alerts = alerts().into_iter().map(|alert| Expression {
        place: format!("alert {}", alert.name),
        text: alert.series,
    });
    let recorded = recorded().into_iter().map(|rule| Expression {
        place: format!("rule {}", rule.place),
        text: rule.text,
    });
    let mut all: Vec<_> = recorded.chain(alerts).collect();
    all.extend(of_dashboard(&dashboard()));
    all
}
