//! `doctor`: whether elections can be held, and what they would survive.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nats_elect::{GroupName, RoleConfig, RoleName};

use crate::config_file::ConfigFile;
use crate::doctor::examined::{Examined, Part, Roles, Times};
use crate::doctor::findings::Findings;
use crate::exit::{Code, Failure, Outcome};
use crate::line::Line;
use crate::options::{Shared, duration};
use crate::output::Output;

/// A name that nobody gives a role.
const MADE_UP: &str = "nats-elect-doctor";

const EXAMPLES: &str = "\
Examples:
  nats-elect doctor                              for a role with the default ttl of 15s
  nats-elect doctor --config elect.toml          for the roles and groups of a configuration
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
    /// The application's configuration, with its roles, its groups, its times and its connection
    #[arg(long, value_name = "FILE", conflicts_with = "ttl")]
    config: Option<PathBuf>,

    /// The table of --config that has the settings, such as app.elect [default: the whole file]
    #[arg(long, value_name = "TABLE", requires = "config")]
    table: Option<String>,

    /// Compare with the times of a role with this ttl [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,

    /// Try the permissions for this role; may be repeated [default: the roles of --config, else a
    /// made-up role]
    #[arg(short, long = "role", value_name = "ROLE")]
    roles: Vec<RoleName>,

    /// Check the bucket and the permissions for this group, too; may be repeated. No made-up role is
    /// tried then [default: the groups of --config]
    #[arg(short, long = "group", value_name = "GROUP")]
    groups: Vec<GroupName>,

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
    /// An operator may not read the bucket.
    pub fn reads_bucket(&self) -> bool {
        self.part != Part::Operator
    }

    pub async fn run(self, shared: &Shared, output: Output) -> Outcome {
        let mut file = ConfigFile::read(self.config.as_deref(), self.table.as_deref())?;
        if let Some(file) = &mut file {
            file.config = std::mem::take(&mut file.config).with_env()?;
        }
        let times = self.times(file.as_ref())?;
        let roles = self.roles(file.as_ref())?;
        let groups = self.groups(file.as_ref())?;
        let config = match file.filter(|file| file.has_manager) {
            Some(file) => shared.patient(file.config.manager)?,
            None => shared.config()?,
        };
        let prefix = &config.admin.subject_prefix;
        let answers =
            (self.part == Part::Operator).then(|| format!("{prefix}.{}._answer", config.bucket));
        let mut findings = Findings::new(output);
        match Line::connect(&config, answers).await {
            Ok(line) => {
                let examined = Examined {
                    line: &line,
                    config: &config,
                    part: self.part,
                    roles: &roles,
                    groups: &groups,
                    times: &times,
                    operates: shared.whose(),
                };
                examined.examine(&mut findings).await;
            }
            Err(failure) if failure.code == Code::Usage => return Err(failure),
            Err(failure) => {
                let advice = failure.advice.unwrap_or_else(|| {
                    "docs/security.md describes authentication and encryption".into()
                });
                findings.fail("connection", failure.what, advice);
            }
        }
        findings.sum_up(self.strict)
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

    fn groups(&self, file: Option<&ConfigFile>) -> Result<Vec<String>, Failure> {
        let mut names: Vec<_> = self.groups.iter().map(ToString::to_string).collect();
        if let Some(file) = file.filter(|_| names.is_empty()) {
            for (name, config) in &file.config.groups {
                GroupName::new(name)?;
                let broken = |error| Failure::usage(format!("groups.{name}: {error}"));
                config.validate().map_err(broken)?;
                names.push(name.clone());
            }
        }
        Ok(names)
    }

    fn roles(&self, file: Option<&ConfigFile>) -> Result<Roles, Failure> {
        let mut names: Vec<_> = self.roles.iter().map(ToString::to_string).collect();
        if let Some(file) = file.filter(|_| names.is_empty()) {
            for name in file.config.roles.keys() {
                RoleName::new(name)?;
                names.push(name.clone());
            }
        }
        let made_up = names.is_empty();
        if made_up {
            names.push(MADE_UP.to_owned());
        }
        Ok(Roles { names, made_up })
    }
}
