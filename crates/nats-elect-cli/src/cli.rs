//! What can be typed.

use std::env;
use std::io::Write;
use std::process::ExitCode;

use clap::builder::styling::{AnsiColor, Styles};
use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

#[cfg(unix)]
use crate::commands::{agent, exec};
use crate::commands::{
    candidates, check, completions, create_bucket, doctor, end_lease, group, history, inspect, ls,
    orders, permissions, retire, serve, step_down, top, verify, watch,
};
use crate::connect::block_on;
use crate::exit::{Code, Failure, Outcome};

use crate::options::Shared;
use crate::output::Output;

const ABOUT: &str = "Leader election over NATS: inspect it, operate it, run commands under it";

const LONG_ABOUT: &str = "\
Leader election over NATS: inspect it, operate it, run commands under it.

The instances of an application elect one leader for each role. They meet in a JetStream \
Key-Value bucket, one key per role. This command shows such elections, checks their configuration \
and their bucket, operates running instances, and runs a command only while it leads a role.";

/// Few need them, and not each day.
const RARE: &str = "\
Rare commands: end-lease, role retire, verify: see `nats-elect help COMMAND`";

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
`exec`) go on trying for --timeout.";

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
        let command = Self::command().mut_args(|arg| {
            let connects = arg.get_help_heading() == Some("Connection");
            arg.hide_short_help(connects)
        });
        let read = command.clone().try_get_matches();
        let read = read.and_then(|matches| Self::from_arg_matches(&matches));
        read.map_err(|error| {
            // What the environment says counts as something typed.
            if error.kind() == ErrorKind::MissingSubcommand && env::args_os().len() == 1 {
                let mut command = command;
                let _ = write!(std::io::stderr(), "{}", command.render_help());
                return ExitCode::from(Code::Usage as u8);
            }
            // If nobody hears it, the exit code still tells.
            let _ = error.print();
            ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Code::Usage as u8))
        })
    }
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
    /// Stop instances from taking new terms
    ///
    /// A paused instance goes on leading, but takes no new term until it is resumed. To make it hand
    /// over its roles, use `cordon`. The latest order counts. A warning on stderr says if no instance
    /// that answers could take a role over from a leader that fails.
    ///
    /// The process keeps the order in memory: an instance that restarts is not paused.
    #[command(after_long_help = orders::more("  nats-elect pause node-1\n  nats-elect pause node-1 --role scheduler --role metrics"))]
    Pause(orders::Target),
    /// Let instances take part in elections again, after `pause` or `cordon`
    ///
    /// They take part at once, also if their terms kept failing. But a cool-down, or a hold-off of
    /// `step-down`, goes on until its time is over. What `step-down --to` gave them can be taken by a higher
    /// priority again.
    #[command(after_long_help = orders::more("  nats-elect resume node-1\n  nats-elect resume --all-instances"))]
    Resume(orders::Target),
    /// Make instances hand over their roles and take no new terms, for maintenance
    ///
    /// The instance is paused. It also winds down each role that it leads and frees it, for an instance
    /// that is ready to take it if there is one. The command waits for that, as long as the handlers may
    /// take, and shows the result for each role. A warning on stderr says if no instance that answers
    /// could take a role over then. With --all-instances nobody leads.
    ///
    /// Without --role units of groups move away, too. `nats-elect group drain` waits for them.
    ///
    /// The process keeps the order in memory: an instance that restarts is not paused. That suits a
    /// restart. For longer work stop the instance as well, or `resume` it at the end.
    #[command(after_long_help = orders::more("  nats-elect cordon node-1\n  nats-elect cordon 1c9e5b1e-3d0a-4c5f-9b43-0d6c8b6f8a11\n\nThe last one names an incarnation, for one of several processes that have the same id."))]
    Cordon(orders::Target),
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
    Move(group::transfer::Move),
    Drain(group::drain::Drain),
    Grow(group::grow::Grow),
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
                    GroupCommand::Explain(_) | GroupCommand::Move(_) | GroupCommand::Drain(_)
                )
        )
    }

    /// Does what was asked.
    pub fn run(self, shared: &Shared, output: Output) -> Outcome {
        if shared.connection.domain.is_some() && !self.takes_domain() {
            let what = "--domain is for commands that ask instances and do not read the bucket";
            return Err(Failure::usage(what).advice("connect to a server of that domain"));
        }
        match self {
            Self::Candidates(candidates) => block_on(candidates.run(shared, output)),
            Self::Check(check) => check.run(output),
            Self::CreateBucket(create) => block_on(create.run(shared, output)),
            Self::Doctor(doctor) => block_on(doctor.run(shared, output)),
            Self::Group(GroupCommand::Ls(ls)) => block_on(ls.run(shared, output)),
            Self::Group(GroupCommand::Show(show)) => block_on(show.run(shared, output)),
            Self::Group(GroupCommand::Explain(explain)) => block_on(explain.run(shared, output)),
            Self::Group(GroupCommand::Move(transfer)) => block_on(transfer.run(shared, output)),
            Self::Group(GroupCommand::Drain(drain)) => block_on(drain.run(shared, output)),
            Self::Group(GroupCommand::Grow(grow)) => block_on(grow.run(shared, output)),
            Self::History(history) => block_on(history.run(shared, output)),
            Self::Inspect(inspect) => block_on(inspect.run(shared, output)),
            Self::Ls(ls) => block_on(ls.run(shared, output)),
            Self::Serve(serve) => block_on(serve.run(shared, output)),
            Self::Top(top) => block_on(top.run(shared, output)),
            Self::StepDown(down) => block_on(down.run(shared, output)),
            Self::Pause(target) => block_on(target.order(orders::Order::Pause, shared, output)),
            Self::Resume(target) => block_on(target.order(orders::Order::Resume, shared, output)),
            Self::Cordon(target) => block_on(target.order(orders::Order::Cordon, shared, output)),
            Self::EndLease(end) => block_on(end.run(shared, output)),
            Self::Role(RoleCommand::Retire(retire)) => block_on(retire.run(shared, output)),
            Self::Verify(verify) => verify.run(output),
            Self::Watch(watch) => block_on(watch.run(shared, output)),
            #[cfg(unix)]
            Self::Exec(exec) => block_on(exec.run(shared)),
            #[cfg(unix)]
            Self::Agent(agent) => block_on(agent.run(shared)),
            Self::Permissions(permissions) => permissions.run(shared, output),
            Self::Completions(completions) => completions.run(Cli::command()),
        }
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
