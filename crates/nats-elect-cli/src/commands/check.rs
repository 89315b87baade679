//! `check`: what a configuration comes to.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nats_elect::duration::{exact, rounded_up, seconds};
use nats_elect::{
    GroupConfig, GroupName, ManagerConfig, RoleConfig, RoleName, RoleSettings, Secret,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::config_file::Source;
use crate::exit::{Code, Failure, Outcome};
use crate::output::Output;
use crate::text::joined;

/// Check a configuration, and show its effective settings
///
/// The command prints the effective value of every setting, and the longest failover for each kind
/// of failure. It warns of settings that are allowed but probably a mistake. Unknown settings and
/// broken rules are errors: they name the place in the file, the value and the rule. The command
/// connects to nothing, and reads no file that the configuration names.
///
/// The file has a table `[manager]`, a table `[roles.<name>]` for each role and a table
/// `[groups.<name>]` for each group, in TOML or JSON: see docs/configuration.md. With --table they
/// are in a table of an application's own file. `-` reads the file from stdin.
///
/// Environment variables override the file, as they do for an application that reads them. The
/// output names the variable of each such setting.
///
/// The exit code is 2 if the file or the environment has an error. Warnings do not change it.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  nats-elect check elect.toml\n  nats-elect check --json elect.toml | jq '.roles[].failover'\n  nats-elect check app.toml --table app.elect"
)]
pub struct Check {
    /// The file, or - for stdin
    config: PathBuf,

    /// The table of the file that has the settings, such as app.elect [default: the whole file]
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,
}

/// Everything that is said of a configuration.
struct Report {
    manager: ManagerConfig,
    roles: Vec<RoleReport>,
    groups: BTreeMap<String, GroupConfig>,
    /// Settings that come from the environment, with their variables.
    environment: BTreeMap<String, String>,
}

#[derive(Serialize)]
struct RoleReport {
    role: String,
    settings: RoleConfig,
    #[serde(rename = "drift_margin_seconds", with = "seconds")]
    drift_margin: Duration,
    failover: Vec<Failover>,
    warnings: Vec<String>,
}

/// What happens to a role in one kind of failure.
#[derive(Serialize)]
struct Failover {
    event: &'static str,
    /// Without a leader for so long at most, round trips not counted. Unset: not at all, or it
    /// depends on NATS alone.
    #[serde(
        rename = "at_most_seconds",
        with = "seconds::option",
        skip_serializing_if = "Option::is_none"
    )]
    at_most: Option<Duration>,
    what: String,
}

impl Check {
    pub fn run(&self, output: Output) -> Outcome {
        let source = Source::open(&self.config, self.table.as_deref())?;
        let file = source.parse()?.config;
        for variable in file.others_in_env()? {
            output.warning(&format!(
                "{variable} in the environment has no effect: the file has no role or group of that name"
            ));
        }
        let (file, environment) = file.with_env_settings()?;
        let mut wrong = Vec::new();
        let manager = file.manager;
        if let Err(error) = manager.validate() {
            wrong.push(source.broken(&["manager"], &error));
        }
        let mut roles = Vec::new();
        for (name, config) in &file.roles {
            if let Err(error) = RoleName::new(name) {
                wrong.push(format!("roles.{name}: {error}"));
            }
            // As the manager does: the record has both.
            let mut config = config.clone().meta_beneath(&manager.meta);
            let settings = match config.settings() {
                Ok(settings) => settings,
                Err(error) => {
                    wrong.push(source.broken(&["roles", name], &error));
                    continue;
                }
            };
            // With every default written out.
            config.heartbeat_interval = Some(settings.heartbeat);
            config.stop_budget = Some(settings.stop_budget);
            config.cooldown = Some(settings.cooldown);
            roles.push(RoleReport {
                role: name.clone(),
                settings: config,
                drift_margin: settings.drift_margin(),
                failover: failovers(&settings, manager.last_will.enabled),
                warnings: settings.warnings(manager.replicas),
            });
        }
        for (name, config) in &file.groups {
            if let Err(error) = GroupName::new(name) {
                wrong.push(format!("groups.{name}: {error}"));
            }
            if let Err(error) = config.validate() {
                wrong.push(source.broken(&["groups", name], &error));
            }
        }
        if !wrong.is_empty() {
            return Err(Failure::new(Code::Usage, wrong.join("\n       ")));
        }
        let report = Report {
            manager: shown(manager),
            roles,
            groups: file.groups,
            environment,
        };
        if output.is_data() {
            output.data(&report.told())?;
        } else {
            report.tell(output)?;
        }
        Ok(0)
    }
}

impl Report {
    /// For programs.
    fn told(&self) -> Value {
        let groups = self.groups.iter();
        let groups = groups.map(|(name, it)| json!({ "group": name, "settings": it }));
        let environment = self.environment.iter();
        let environment = environment.map(|(it, from)| json!({ "setting": it, "variable": from }));
        json!({
            "manager": self.manager, "roles": self.roles,
            "groups": groups.collect::<Value>(), "environment": environment.collect::<Value>(),
        })
    }

    fn tell(&self, output: Output) -> Result<(), Failure> {
        output.line("manager")?;
        values(output, &self.manager, "manager", &self.environment)?;
        for role in &self.roles {
            output.line(format!("\nrole {}", role.role))?;
            let of = format!("roles.{}", role.role);
            values(output, &role.settings, &of, &self.environment)?;
            output.line(format!("  drift margin {}", exact(role.drift_margin)))?;
            let mut table = output.table(["  after", "without a leader", ""]);
            for failover in &role.failover {
                let time = failover
                    .at_most
                    .map_or_else(String::new, |time| format!("at most {}", rounded_up(time)));
                table.add_row([format!("  {}", failover.event), time, failover.what.clone()]);
            }
            output.show(&table)?;
        }
        for (name, settings) in &self.groups {
            output.line(format!("\ngroup {name}"))?;
            if *settings == GroupConfig::default() {
                output.line("  as the program sets it")?;
            }
            let of = format!("groups.{name}");
            values(output, settings, &of, &self.environment)?;
        }
        if self.roles.is_empty() && self.groups.is_empty() {
            output.line("\nno roles and no groups")?;
        }
        for role in &self.roles {
            for warning in &role.warnings {
                output.warning(&format!("role {}: {warning}", role.role));
            }
        }
        Ok(())
    }
}

fn failovers(settings: &RoleSettings, last_will: bool) -> Vec<Failover> {
    let claim = settings.worst_case_failover();
    let ends = settings.ttl.saturating_sub(settings.drift_margin());
    let winds_down = ends.saturating_sub(settings.stop_budget);
    let stops = settings
        .grace
        .map_or(winds_down, |grace| grace.min(winds_down));
    let budget = settings.stop_budget;
    let health = &settings.health;
    let unhealthy = health
        .interval
        .saturating_mul(health.max_consecutive_failures)
        + health.timeout;
    let event = |event, at_most: Option<Duration>, what: String| Failover {
        event,
        at_most,
        what,
    };
    // What is said of a three-node cluster that loses the node which leads the stream.
    let longest = Duration::from_secs(6);
    let slack = winds_down.saturating_sub(settings.heartbeat);
    let node_lost = if slack >= longest {
        "NATS needs 4 to 6 seconds to elect a new node; the leader goes on meanwhile".to_owned()
    } else {
        format!(
            "NATS needs 4 to 6 seconds to elect a new node, and a leader winds down {} after its last heartbeat: the role may change hands",
            rounded_up(winds_down)
        )
    };
    let killed = last_will.then(|| {
        let what = "its companion frees the role, a few round trips after the end of the process; if it can't, as after a crash";
        event("killed, aborted", None, what.into())
    });
    let others = [
        event(
            "crash",
            Some(claim),
            "counted from its last heartbeat; the others wait until its lease is over".into(),
        ),
        event(
            "cut off",
            Some(claim),
            format!(
                "the same; its handler is wound down {} after its last heartbeat, and has ended after {}",
                rounded_up(stops),
                rounded_up(ends)
            ),
        ),
        event(
            "step down, stop",
            Some(budget),
            "until the handler has ended, which may take the stop budget, then a few round trips"
                .into(),
        ),
        event(
            "unhealthy",
            Some(unhealthy + budget),
            format!(
                "until {} checks have failed, then like a step-down",
                health.max_consecutive_failures
            ),
        ),
        event(
            "NATS node lost",
            (slack < longest).then_some(claim),
            node_lost,
        ),
    ];
    killed.into_iter().chain(others).collect()
}

/// Every value on a line of its own, with its path, and the variable that it comes from.
fn values(
    output: Output,
    values: &impl Serialize,
    of: &str,
    environment: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let value = serde_json::to_value(values).map_err(|error| Failure::failed(error.to_string()))?;
    let mut rows = Vec::new();
    flatten("", &value, &mut rows);
    let width = rows.iter().map(|(path, _)| path.len()).max().unwrap_or(0);
    for (path, value) in rows {
        let setting = format!("{of}.{path}");
        // A variable may hold a whole table.
        let variable = environment.iter().find(|(from, _)| {
            let rest = setting.strip_prefix(from.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        });
        let from = variable.map_or_else(String::new, |(_, it)| format!("  (from {it})"));
        output.line(format!("  {path:<width$}  {value}{from}"))?;
    }
    Ok(())
}

fn flatten(path: &str, value: &Value, rows: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    format!("{path}.{name}")
                };
                flatten(&path, value, rows);
            }
        }
        Value::String(text) => rows.push((path.to_owned(), text.clone())),
        Value::Array(items) => {
            let text = |it: &Value| it.as_str().map_or_else(|| it.to_string(), str::to_owned);
            rows.push((path.to_owned(), joined(items.iter().map(text))));
        }
        other => rows.push((path.to_owned(), other.to_string())),
    }
}

/// The configuration without its secrets.
fn shown(mut manager: ManagerConfig) -> ManagerConfig {
    let auth = &mut manager.auth;
    for secret in [
        &mut auth.password,
        &mut auth.token,
        &mut auth.nkey,
        &mut auth.creds,
    ] {
        *secret = secret.take().map(|_| Secret::from("***"));
    }
    for server in &mut manager.servers {
        if let Some((before, host)) = server.rsplit_once('@') {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            let separator = if scheme.is_empty() { "" } else { "://" };
            *server = format!("{scheme}{separator}***@{host}");
        }
    }
    manager
}
