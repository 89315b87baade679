//! `candidates`: the instances that take part in elections, as they report themselves.

use std::collections::BTreeMap;

use async_nats::Client;
use clap::Args;
use comfy_table::{Cell, Color};
use nats_elect::admin::RoleReport;
use nats_elect::duration::rounded;
use nats_elect::{RoleState, TWO_APPLICATIONS};

use crate::applications::mixed;
use crate::columns::Layout;
use crate::exit::{Failure, Outcome};
use crate::fleet::Instance as Told;
use crate::instances::{Candidate, Whose, asked};
use crate::options::Shared;
use crate::output::Output;
use crate::roles::{Roles, is_pattern};
use crate::text::{ago, joined, lasted};

const LAYOUT: Layout = Layout {
    all: "INSTANCE ROLE STATE PRIORITY HEALTH NATS UP VERSION INCARNATION",
    wide: "INCARNATION",
    flexible: "INSTANCE",
};

const MORE: &str = "\
Columns:
  INSTANCE  its id, with the beginning of its incarnation if several processes have that id
  ROLE      a role in whose election it takes part
  STATE     leader, follower, candidate (it is claiming), draining (its handler winds down),
            demoted (it stays out until its cool-down or hold-off is over),
            init (it has not seen the bucket yet), stopped; with `paused` if it takes no new term
            until it is resumed
  PRIORITY  higher is preferred, for takeovers and for handoffs
  HEALTH    the handler's own check: healthy, unhealthy, or ? without an answer within a second
  NATS      connected, suspended (the connection broke, or a heartbeat is late), lost
  UP        the time since its manager started
  VERSION   the version of nats-elect
  INCARNATION  the start of that instance, with --output wide
Below the table: what the instances tell about themselves (`meta`), the last failures, handlers that
ran on after their lease, buckets that can't be used, and instances that did not answer.

Exit codes: those of `nats-elect --help`. 3 if no instance answers, or none takes part in the
role's election

Examples:
  nats-elect candidates
  nats-elect candidates scheduler
  nats-elect candidates 'worker-*'
  nats-elect candidates --json | jq -r 'select(.status.trouble) | .instance_id'";

/// List the instances that take part in elections, with their state and health
///
/// The command asks the instances themselves, like `nats micro ls`. Instances whose admin service
/// is switched off do not answer, and neither do candidates of other libraries. `ls` shows them if
/// they lead.
#[derive(Debug, Args)]
#[command(after_long_help = MORE)]
pub struct Candidates {
    /// Only the instances that take part in the election of this role. With * and ? it is a pattern
    role: Option<String>,
}

impl Candidates {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let found = candidates(shared, self.role.as_deref(), shared.whose()).await?;
        if found.is_empty() {
            if let Some(failure) = shared.jetstream_off().await {
                return Err(failure);
            }
            let bucket = shared.config()?.bucket;
            let what = match &self.role {
                Some(role) => {
                    format!(
                        "no instance that answers takes part in the election of {role:?} in bucket {bucket:?}"
                    )
                }
                None => format!("no instance of bucket {bucket:?} answers"),
            };
            return Err(Failure::not_found(what).advice(
                "name the bucket with --bucket, and --admin-prefix if the instances have another; \
                 those with `admin.enabled = false` never answer",
            ));
        }
        if output.is_data() {
            for one in &found {
                output.data(&Told::from(one))?;
            }
        } else {
            show(&found, output)?;
        }
        Ok(0)
    }
}

/// All who are there, or who stand for one role.
pub async fn candidates(
    shared: &Shared,
    role: Option<&str>,
    whose: Whose<'_>,
) -> Result<Vec<Candidate>, Failure> {
    let pattern = role.filter(|role| is_pattern(role)).map(ToOwned::to_owned);
    let role = role.filter(|role| !is_pattern(role));
    if let Some(role) = role {
        nats_elect::RoleName::new(role)?;
    }
    let config = shared.config()?;
    let asking = async |client: Client, _| {
        let admin = whose.asked_by(&client, &config).await?;
        let instances = admin.instances(shared.patience()).await?;
        Ok(asked(&admin, role, instances).await)
    };
    let mut found = shared.reading(asking).await?;
    if pattern.is_some() {
        let roles = Roles::of(pattern.as_slice());
        for report in found.iter_mut().filter_map(|one| one.report.as_mut().ok()) {
            report.roles.retain(|role, _| roles.has(role));
        }
        found.retain(|one| one.report.as_ref().is_ok_and(|it| !it.roles.is_empty()));
    }
    Ok(found)
}

impl Candidate {
    /// Its id; where that is not enough, with the beginning of its incarnation.
    fn name(&self) -> String {
        if self.namesakes > 1 {
            self.instance.to_string()
        } else {
            self.instance.instance_id.clone()
        }
    }

    fn rows(&self) -> Vec<Vec<Cell>> {
        let none = || Cell::new("–");
        let report = self.report.as_ref().ok();
        let row = |role: &str, [state, priority, health, nats]: [Cell; 4]| {
            vec![
                Cell::new(self.name()),
                Cell::new(role),
                state,
                priority,
                health,
                nats,
                report.map_or_else(none, |it| Cell::new(lasted(it.uptime))),
                Cell::new(&self.instance.version),
                Cell::new(self.instance.incarnation),
            ]
        };
        let Some(report) = report else {
            let state = Cell::new("no answer").fg(Color::Red);
            return vec![row("–", [state, none(), none(), none()])];
        };
        if report.roles.is_empty() {
            return vec![row("(no roles)", [none(), none(), none(), none()])];
        }
        let roles = report.roles.iter().map(|(name, role)| {
            let nats = Cell::new(role.connection.map_or("?", |it| it.as_str()));
            let cells = [state(role), Cell::new(role.priority), health(role), nats];
            row(name, cells)
        });
        roles.collect()
    }

    /// What does not fit into the table.
    fn remarks(&self) -> Vec<String> {
        let name = self.name();
        let report = match &self.report {
            Ok(report) => report,
            Err(error) => {
                return vec![format!(
                    "{name} runs, but did not report its status: {error}"
                )];
            }
        };
        let mut remarks = Vec::new();
        if !report.meta.is_empty() {
            let facts = report.meta.iter();
            let facts = joined(facts.map(|(key, value)| format!("{key}={value}")));
            remarks.push(format!("{name}: {facts}"));
        }
        if let Some(trouble) = &report.trouble {
            remarks.push(format!("{name} can't use its bucket: {trouble}"));
        }
        // All roles share a connection, and so most failures.
        let mut failures = BTreeMap::<_, (Vec<_>, _)>::new();
        for (role, it) in &report.roles {
            if let Some(failure) = &it.last_failure {
                let (roles, last) = failures.entry(&failure.detail).or_default();
                roles.push(&**role);
                *last = failure.ago;
            }
            let id = &self.instance.instance_id;
            let resume = format!("or until `nats-elect resume {id} --role {role}`");
            if let Some(left) = it.failing {
                let left = rounded(left);
                remarks.push(format!(
                    "{name}: its terms of {role} failed one after the other: others go first for {left}, {resume}"
                ));
            }
            if let Some(left) = it.kept {
                let left = rounded(left);
                remarks.push(format!(
                    "{name} keeps {role} against higher priorities for {left}, as ordered, {resume}"
                ));
            }
            if it.overruns > 0 {
                let times = match it.overruns {
                    1 => "once".to_owned(),
                    times => format!("{times} times"),
                };
                remarks.push(format!(
                    "{name}: the handler of {role} ran on after its lease, {times}"
                ));
            }
        }
        remarks.extend(failures.into_iter().map(|(detail, (roles, last))| {
            let (roles, when) = (roles.join(", "), ago(last));
            format!("{name}: {roles}: {detail} ({when})")
        }));
        remarks
    }
}

/// The table, and what there is to say beside it.
pub fn show(found: &[Candidate], output: Output) -> std::io::Result<()> {
    LAYOUT.show(found.iter().flat_map(Candidate::rows), output)?;
    let remarks: Vec<_> = found.iter().flat_map(Candidate::remarks).collect();
    let doubles: BTreeMap<_, _> = found
        .iter()
        .filter(|one| one.namesakes > 1)
        .map(|one| (&one.instance.instance_id, one.namesakes))
        .collect();
    if !remarks.is_empty() || !doubles.is_empty() {
        output.line("")?;
    }
    for (id, times) in doubles {
        output.line(format!(
            "{id}: {times} processes have this id; name one by its incarnation"
        ))?;
    }
    for remark in remarks {
        output.line(remark)?;
    }
    for mixed in mixed(found) {
        output.warning(&format!("{mixed}; {TWO_APPLICATIONS}"));
    }
    Ok(())
}

fn state(role: &RoleReport) -> Cell {
    let state = role.state.map_or("?", RoleState::as_str);
    let paused = if role.paused { ", paused" } else { "" };
    let failing = role.failing.map_or("", |_| ", failing");
    let kept = role.kept.map_or("", |_| ", by order");
    let cell = Cell::new(format!("{state}{paused}{failing}{kept}"));
    match role.state {
        Some(RoleState::Leader) => cell.fg(Color::Green),
        _ if role.failing.is_some() => cell.fg(Color::Red),
        _ if role.paused => cell.fg(Color::Yellow),
        _ => cell,
    }
}

fn health(role: &RoleReport) -> Cell {
    match role.healthy {
        Some(true) => Cell::new("healthy"),
        Some(false) => Cell::new("unhealthy").fg(Color::Red),
        None => Cell::new("?").fg(Color::Yellow),
    }
}
