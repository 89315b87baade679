//! `doctor`: whether elections can be held, and what they would survive.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nats_elect::{GroupName, ManagerConfig, RoleConfig, RoleName};

use crate::cli::{Shared, duration};
use crate::config_file::{ConfigFile, Source};
use crate::doctor::findings::Findings;
use crate::doctor::pace::Times;
use crate::doctor::permissions::Trial;
use crate::doctor::records::Left;
use crate::doctor::{Part, Roles, bucket, fleet, groups, pace, records, server};
use crate::exit::{Code, Failure, Outcome};
use crate::line::Line;
use crate::names;
use crate::operating::Whose;
use crate::output::Output;

/// A name that nobody gives a role.
const MADE_UP: &str = "nats-elect-doctor";

const EXAMPLES: &str = "\
Examples:
  nats-elect doctor                              for a role with the default ttl of 15s
  nats-elect doctor --config elect.toml          for the roles and the connection of a configuration
  nats-elect doctor --role scheduler --creds node.creds
  nats-elect doctor --group partitions           for members of a group
  nats-elect doctor --as operator --creds oncall.creds
  nats-elect doctor --json | jq '.checks[] | select(.verdict == \"fail\")'";

/// Check whether elections can be held, and which failures they survive
///
/// The command checks the connection, the server and its version, JetStream and its limits, the
/// bucket and its settings, the records in it, and the running instances: who would lead next, and
/// whether companions of last wills are ready. It tries the user's permissions, measures the round
/// trips to NATS, and compares them with the times of a configuration. Each line says ok, warn, FAIL
/// or skipped, and the finding. Where you should change something, it says what and why. The clocks
/// of other machines are not checked: no election depends on them.
///
/// The command changes nothing, and may run while roles are led. To find out whether keys may be
/// written, it asks for writes on a condition that no bucket fulfils. The server refuses them all,
/// either for the permission or for the condition. The server forgets the command's watch after a
/// second. The server's log shows the denied requests.
///
/// The exit code is 0 if no check failed, and 1 otherwise. With --strict, warnings count as
/// failures.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Doctor {
    /// The application's configuration, with its roles, its times and its connection
    #[arg(long, value_name = "FILE", conflicts_with = "ttl")]
    config: Option<PathBuf>,

    /// The table of --config that has the settings, such as app.elect [default: the whole file]
    #[arg(long, value_name = "TABLE", requires = "config")]
    table: Option<String>,

    /// Compare with the times of a role with this ttl [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,

    /// Try the permissions for this role; may be repeated [default: the roles of --config, else a
    /// made-up role or any role of the bucket]
    #[arg(short, long = "role", value_name = "ROLE")]
    roles: Vec<String>,

    /// Check the bucket and the permissions for this group, too; may be repeated. Roles are then
    /// tried only if they are named
    #[arg(short, long = "group", value_name = "GROUP", value_parser = names::group)]
    groups: Vec<String>,

    /// The kind of user whose permissions are tried
    #[arg(
        long = "as",
        value_name = "PART",
        value_enum,
        default_value = "candidate"
    )]
    part: Part,

    /// Count warnings as failures
    #[arg(long)]
    strict: bool,
}

impl Doctor {
    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let file = match &self.config {
            Some(path) => {
                let mut file = Source::open(path, self.table.as_deref())?.parse()?;
                file.config = file.config.with_env()?;
                Some(file)
            }
            None => None,
        };
        let times = self.times(file.as_ref())?;
        let roles = self.roles(file.as_ref())?;
        for group in &self.groups {
            GroupName::new(group).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let config = match file.filter(|file| file.has_manager) {
            Some(file) => {
                let mut config = shared.over(file.config.manager)?;
                config.start_timeout = shared.patience();
                config
            }
            None => shared.config()?,
        };
        let prefix = config.admin.subject_prefix.clone();
        let answers =
            (self.part == Part::Operator).then(|| format!("{prefix}.{}._answer", config.bucket));
        let mut findings = Findings::new(output);
        match Line::connect(&config, answers, shared.patience()).await {
            Ok(line) => {
                let examined = Examined {
                    line: &line,
                    config: &config,
                    prefix: &prefix,
                    part: self.part,
                    roles: &roles,
                    groups: &self.groups,
                    times: &times,
                };
                examined.examine(&mut findings).await?;
            }
            Err(failure) if failure.code == Code::Usage => return Err(failure),
            Err(failure) => {
                let advice = failure.advice.unwrap_or_else(|| {
                    "docs/security.md describes authentication and encryption".into()
                });
                findings.fail("connection", failure.what, advice)?;
            }
        }
        let failed = findings.sum_up(self.strict)?;
        Ok(if failed { Code::Failed as u8 } else { 0 })
    }

    fn times(&self, file: Option<&ConfigFile>) -> Result<Vec<Times>, Failure> {
        let mut times = Vec::new();
        for (name, config) in file.iter().flat_map(|file| &file.config.roles) {
            let settings = config
                .settings()
                .map_err(|error| Failure::usage(format!("roles.{name}: {error}")))?;
            times.push(Times {
                role: format!("role {name:?}"),
                settings,
            });
        }
        if times.is_empty() {
            let mut config = RoleConfig::default();
            config.ttl = self.ttl.unwrap_or(config.ttl);
            let role = match self.ttl {
                Some(_) => "a role with that ttl".to_owned(),
                None => "a role by default".to_owned(),
            };
            times.push(Times {
                role,
                settings: config.settings()?,
            });
        }
        Ok(times)
    }

    fn roles(&self, file: Option<&ConfigFile>) -> Result<Roles, Failure> {
        let mut names = self.roles.clone();
        if names.is_empty() {
            names.extend(
                file.iter()
                    .flat_map(|file| file.config.roles.keys().cloned()),
            );
        }
        for name in &names {
            RoleName::new(name).map_err(|error| Failure::usage(error.to_string()))?;
        }
        let made_up = names.is_empty();
        if made_up {
            names.push(MADE_UP.to_owned());
        }
        Ok(Roles { names, made_up })
    }
}

/// What is looked at, and by which measure.
struct Examined<'a> {
    line: &'a Line,
    config: &'a ManagerConfig,
    prefix: &'a str,
    part: Part,
    roles: &'a Roles,
    groups: &'a [String],
    times: &'a [Times],
}

impl Examined<'_> {
    async fn examine(&self, findings: &mut Findings) -> std::io::Result<()> {
        let (line, name) = (self.line, self.config.bucket.as_str());
        server::check(line, self.config, findings)?;
        if self.part != Part::Operator {
            server::user(line, findings).await?;
        }
        let trial = Trial {
            line,
            bucket: name,
            admin: self.config.admin.enabled.then_some(self.prefix),
            part: self.part,
            roles: self.roles,
            groups: self.groups,
        };
        let left = if self.part == Part::Operator {
            findings.skipped("bucket", "an operator needs none")?;
            Vec::new()
        } else {
            self.bucket(&trial, findings).await?
        };
        trial.messages(findings).await?;
        let whose = match self.part {
            Part::Operator => Whose::Named(None),
            _ => Whose::Read,
        };
        fleet::check(line, self.config, self.prefix, whose, &left, findings).await
    }

    /// Returns the roles that nobody claims.
    async fn bucket(
        &self,
        trial: &Trial<'_>,
        findings: &mut Findings,
    ) -> std::io::Result<Vec<Left>> {
        let (line, name) = (self.line, self.config.bucket.as_str());
        let found = bucket::check(line, name, self.roles.named(), findings).await?;
        server::limits(line, findings).await?;
        let Some(found) = found else {
            return Ok(Vec::new());
        };
        let readable = trial.reading(findings).await?;
        let seen = if readable {
            groups::read(self.config, findings).await?
        } else {
            None
        };
        let candidate = self.part == Part::Candidate;
        let mut written = None;
        if candidate {
            if self.groups.is_empty() || !self.roles.made_up {
                let standing: Vec<_> = found.roles().map(String::as_str).collect();
                written = trial.writing(&standing, findings).await?;
            }
            trial.owning(seen.as_ref(), findings).await?;
            let standing = seen.iter().flat_map(|seen| seen.groups.keys());
            let first = self.groups.iter().chain(standing).next();
            bucket::max_age_of_groups(first, &found, findings)?;
        }
        if readable || written.is_some() {
            pace::round_trips(line, name, written, self.times, findings).await?;
        }
        if candidate {
            for times in self.times {
                bucket::max_age_against(&times.role, times.settings.ttl, &found, findings)?;
                pace::tolerance(times, &found, findings)?;
            }
        }
        pace::survives(&found, findings)?;
        let left = if readable {
            records::check(line, name, &found, findings).await?
        } else {
            Vec::new()
        };
        if let Some(seen) = &seen {
            groups::check(seen, self.groups, findings)?;
        }
        Ok(left)
    }
}
