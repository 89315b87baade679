//! What can be typed.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};
/// Parses a duration like `1500ms`, `15s` or `1m 30s`.
pub use nats_elect::duration::parse as duration;

#[cfg(unix)]
use crate::commands::{agent, exec};
use crate::commands::{
    candidates, check, completions, create_bucket, doctor, end_lease, group, history, inspect, ls,
    orders, permissions, retire, serve, step_down, top, verify, watch,
};
use crate::exit::Code;
use crate::output::{Format, Output};

const ABOUT: &str = "Leader election over NATS: inspect it, operate it, run commands under it";

const LONG_ABOUT: &str = "\
Leader election over NATS: inspect it, operate it, run commands under it.

The instances of an application elect one leader for each role. They meet in a JetStream \
Key-Value bucket, one key per role. This command shows such elections, checks their configuration \
and their bucket, operates running instances, and runs a command only while it leads a role.";

/// Few need them, and not each day.
const RARE: &str = "\
Rare commands: end-lease, role retire, verify, man: see `nats-elect help COMMAND`";

const AFTER: &str = "\
Exit codes:
  0  success
  1  failure for a reason that is not listed below
  2  the command line or a configuration breaks a rule
  3  not found: no leader, no proof, no bucket, no context
  4  refused: credentials, a permission, a request, a proof that is not valid
  5  NATS or an instance did not answer in time
`exec` ends with the code of its command: see `nats-elect exec --help`.

How to connect: options override environment variables, and those override the context of the \
`nats` command. The context is the one that --context or NATS_CONTEXT names, else the selected one. \
The default address is nats://127.0.0.1:4222. The variables are NATS_URL, NATS_USER, NATS_PASSWORD, \
NATS_TOKEN, NATS_CREDS, NATS_NKEY, NATS_CERT, NATS_KEY, NATS_CA and NATS_TLS_FIRST. Setting one \
authentication method clears the others.

A command fails at once if no address takes a connection. Commands that follow (`watch`, `top`, \
`history --follow`, `exec`) go on trying for --timeout.";

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// All of the command line.
#[derive(Debug, Parser)]
#[command(
    name = "nats-elect", version, about = ABOUT, long_about = LONG_ABOUT, after_help = RARE,
    after_long_help = format!("{RARE}\n\n{AFTER}"), styles = STYLES, max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub shared: Shared,
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line. Prints the help or the error if there is one, and returns the exit
    /// code then.
    pub fn read() -> Result<Self, ExitCode> {
        let color = if is_said("--no-color") {
            ColorChoice::Never
        } else {
            ColorChoice::Auto
        };
        let command = Self::command().color(color).mut_args(|arg| {
            let connects = arg.get_help_heading() == Some("Connection");
            arg.hide_short_help(connects)
        });
        let read = command.clone().try_get_matches();
        let read = read.and_then(|matches| Self::from_arg_matches(&matches));
        #[cfg(unix)]
        let read = read.map_err(exec::with_separator);
        read.map_err(|error| {
            // What the environment says counts as something typed.
            if error.kind() == ErrorKind::MissingSubcommand && env::args_os().len() == 1 {
                let mut command = command;
                let _ = write!(std::io::stderr(), "{}", command.render_help());
                return ExitCode::from(Code::Usage as u8);
            }
            report(&with_tip(error))
        })
    }
}

/// Whether an option stands on the command line, also if what else stands there is wrong.
fn is_said(option: &str) -> bool {
    own_words().any(|word| word == option)
}

/// Whether a program reads the output, also if the command line is wrong otherwise.
fn wants_data() -> bool {
    let is_data = |form: &str| form == "json" || form == "yaml";
    let own: Vec<_> = own_words().filter_map(|it| it.into_string().ok()).collect();
    let in_one = |word: &String| {
        let form = word.strip_prefix("--output=").or(word.strip_prefix("-o"));
        word == "--json" || form.is_some_and(is_data)
    };
    let in_two = |words: &[String]| matches!(&*words[0], "-o" | "--output") && is_data(&words[1]);
    own.iter().any(in_one) || own.windows(2).any(in_two)
}

/// The words that are not of the command that `exec` runs.
fn own_words() -> impl Iterator<Item = OsString> {
    env::args_os().skip(1).take_while(|word| word != "--")
}

/// Names the commands that others have for what was typed.
fn with_tip(mut error: clap::Error) -> clap::Error {
    let typed = error.get(ContextKind::InvalidArg);
    let one = |it: &ContextValue| matches!(it, ContextValue::String(it) if it == "--instance" || it == "-i");
    if typed.is_some_and(one) {
        // Whoever typed `--instance` means one.
        error.remove(ContextKind::SuggestedArg);
        let tip = "one instance is named without an option, like `node-1`";
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let ours: &[&str] = match word.as_str() {
        "status" | "show" | "get" | "leader" | "leaders" | "roles" => &["ls", "candidates"],
        "members" | "instances" | "nodes" => &["candidates"],
        "describe" | "info" => &["inspect"],
        "groups" | "units" | "shards" | "owners" => &["group"],
        "failover" | "switchover" | "handover" | "transfer" => &["step-down"],
        "drain" | "uncordon" | "unpause" => &["cordon", "resume", "group"],
        _ => return error,
    };
    let ours = ours.iter().map(ToString::to_string).collect();
    error.insert(
        ContextKind::SuggestedSubcommand,
        ContextValue::Strings(ours),
    );
    error
}

fn report(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && wants_data() {
        let text = error.to_string();
        let what = text.split("\n\nUsage:").next().unwrap_or(&text);
        let what = what.strip_prefix("error: ").unwrap_or(what);
        let what: Vec<_> = what.split_whitespace().collect();
        let advice = "`--help` lists the commands; after a command it lists its options";
        Output::bare(true).failure(Code::Usage.word(), &what.join(" "), Some(advice));
    } else {
        // If nobody hears it, the exit code still tells.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Usage as u8))
}

/// What is asked for: a file each in `commands`.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[cfg(unix)]
    Exec(exec::Exec),
    #[cfg(unix)]
    Agent(agent::Agent),
    Ls(ls::Ls),
    Watch(watch::Watch),
    Inspect(inspect::Inspect),
    Candidates(candidates::Candidates),
    History(history::History),
    Top(top::Top),
    Serve(serve::Serve),
    StepDown(step_down::StepDown),
    Pause(orders::Pause),
    Resume(orders::Resume),
    Cordon(orders::Cordon),
    #[command(hide = true)]
    EndLease(end_lease::EndLease),
    /// Show and operate groups: their members, and who owns their units
    #[command(
        subcommand,
        after_long_help = "Examples:\n  nats-elect group ls\n  nats-elect group show partitions\n  nats-elect group explain partitions 17\n  nats-elect group move partitions 17 node-2\n  nats-elect group drain node-1\n  nats-elect group grow partitions 512"
    )]
    Group(GroupCommand),
    /// Remove a role that is no longer used
    #[command(
        subcommand,
        hide = true,
        after_long_help = "Examples:\n  nats-elect role retire scheduler"
    )]
    Role(RoleCommand),
    Check(check::Check),
    CreateBucket(create_bucket::CreateBucket),
    Doctor(doctor::Doctor),
    Permissions(permissions::Permissions),
    #[command(hide = true)]
    Verify(verify::Verify),
    Completions(completions::Completions),
    #[command(hide = true)]
    Man(completions::Man),
}

/// What can be done to a role as a whole.
#[derive(Debug, Subcommand)]
pub enum RoleCommand {
    Retire(retire::Retire),
}

/// Commands that show groups, move their units, and change their number of shards.
#[derive(Debug, Subcommand)]
pub enum GroupCommand {
    Ls(group::ls::Ls),
    Show(group::show::Show),
    Explain(group::explain::Explain),
    Plan(group::plan::Plan),
    Move(group::transfer::Move),
    Drain(group::drain::Drain),
    Grow(group::grow::Grow),
}

/// What `exec` starts by itself and nobody types: help and completions know nothing of it.
#[cfg(unix)]
#[derive(Debug, Parser)]
pub enum Inner {
    ExecGuard(exec::ExecGuard),
    ExecStarter(exec::ExecStarter),
}

impl Command {
    /// Whether it asks instances of a bucket that it does not read: two buckets may have one name.
    pub fn takes_domain(&self) -> bool {
        if let Self::Doctor(doctor) = self {
            return !doctor.reads_bucket();
        }
        matches!(
            self,
            Self::Candidates(_)
                | Self::StepDown(_)
                | Self::Pause(_)
                | Self::Resume(_)
                | Self::Cordon(_)
                | Self::Group(
                    GroupCommand::Explain(_)
                        | GroupCommand::Plan(_)
                        | GroupCommand::Move(_)
                        | GroupCommand::Drain(_)
                )
        )
    }

    /// Returns the log filter without `-v`; nothing may be logged if there is none. Commands that
    /// only look on print what matters themselves; the library's warnings are for leaders.
    pub fn logs(&self) -> Option<String> {
        match self {
            #[cfg(unix)]
            Self::Exec(exec) => Some(exec.logs()),
            #[cfg(unix)]
            Self::Agent(_) => Some("warn,async_nats=off,nats_elect=info".into()),
            // On its screen.
            Self::Top(top) if top.takes_stderr() => None,
            // It runs for long, and nobody else tells that its bucket is out of reach.
            Self::Serve(_) => {
                let own =
                    "nats_elect::serve=warn,nats_elect::health=warn,nats_elect::observer=warn";
                Some(format!("error,async_nats=off,{own}"))
            }
            _ => Some("error,async_nats=off".into()),
        }
    }
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Shared {
    /// The address of NATS, or several addresses separated by commas [env: NATS_URL]
    #[arg(
        short,
        long,
        global = true,
        value_name = "URL",
        help_heading = "Connection"
    )]
    pub server: Option<String>,

    /// The context of the `nats` command to connect with
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "NATS_CONTEXT",
        hide_env_values = true,
        help_heading = "Connection"
    )]
    pub context: Option<String>,

    /// The user's name [env: NATS_USER]
    #[arg(long, global = true, value_name = "NAME", help_heading = "Connection")]
    pub user: Option<String>,

    /// The user's password. Other users of this machine can see it here: prefer the environment [env:
    /// NATS_PASSWORD]
    #[arg(
        long,
        global = true,
        value_name = "SECRET",
        help_heading = "Connection"
    )]
    pub password: Option<String>,

    /// A token. Other users of this machine can see it here: prefer the environment [env:
    /// NATS_TOKEN]
    #[arg(
        long,
        global = true,
        value_name = "SECRET",
        help_heading = "Connection"
    )]
    pub token: Option<String>,

    /// A file with a user's JWT and seed [env: NATS_CREDS]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub creds: Option<PathBuf>,

    /// A file with the seed of a user's nkey [env: NATS_NKEY]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub nkey: Option<PathBuf>,

    /// A PEM file with this client's certificate [env: NATS_CERT]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub tlscert: Option<PathBuf>,

    /// A PEM file with that certificate's private key [env: NATS_KEY]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub tlskey: Option<PathBuf>,

    /// A PEM file with the certificate authorities to trust [env: NATS_CA]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub tlsca: Option<PathBuf>,

    /// Start TLS before the server's greeting [env: NATS_TLS_FIRST]
    #[arg(long, global = true, help_heading = "Connection")]
    pub tlsfirst: bool,

    /// The prefix of reply subjects
    #[arg(
        long,
        global = true,
        value_name = "PREFIX",
        help_heading = "Connection"
    )]
    pub inbox_prefix: Option<String>,

    /// The Key-Value bucket of the elections [default: leaders]
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        env = "NATS_ELECT_BUCKET",
        help_heading = "Connection"
    )]
    pub bucket: Option<String>,

    /// The prefix of the instances' admin subjects [default: nats-elect-admin]
    #[arg(
        long,
        global = true,
        value_name = "PREFIX",
        env = "NATS_ELECT_ADMIN__SUBJECT_PREFIX",
        help_heading = "Connection"
    )]
    pub admin_prefix: Option<String>,

    /// The JetStream domain of the bucket, if instances of two buckets of one name answer. For
    /// commands that ask instances and do not read the bucket
    #[arg(long, global = true, value_name = "NAME", help_heading = "Connection")]
    pub domain: Option<String>,

    /// How long to wait for NATS and for answers, like 500ms or 10s [default: 5s; 30s for `exec`,
    /// which waits for NATS when it starts]
    #[arg(long, global = true, value_name = "TIME", env = "NATS_TIMEOUT", value_parser = duration, help_heading = "Connection")]
    pub timeout: Option<Duration>,

    /// The form of results on stdout. With json and yaml errors on stderr are JSON
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        default_value = "table",
        help_heading = "Output"
    )]
    pub output: Format,

    /// The same as --output json
    #[arg(
        long,
        global = true,
        conflicts_with = "output",
        help_heading = "Output"
    )]
    pub json: bool,

    /// Use no colours [env: NO_COLOR, CLICOLOR, CLICOLOR_FORCE]
    #[arg(long, global = true, help_heading = "Output")]
    pub no_color: bool,

    /// Log to stderr; more with each v
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, CommandFactory, Id};

    use super::Cli;

    /// The value of such an option would count as that of the global one, too.
    #[test]
    fn no_command_has_an_option_of_the_name_of_a_global_one() {
        fn check(command: &Command, global: &[&str]) {
            for inner in command.get_subcommands() {
                for argument in inner.get_arguments() {
                    let id = argument.get_id().as_str();
                    assert!(!global.contains(&id), "{}: {id}", inner.get_name());
                }
                check(inner, global);
            }
        }
        let all = Cli::command();
        let global = all.get_arguments().filter(|it| it.is_global_set());
        let global: Vec<_> = global.map(Arg::get_id).map(Id::as_str).collect();
        assert!(global.contains(&"timeout"), "{global:?}");
        check(&all, &global);
    }
}
