//! What a shell asks while somebody types: names of roles, instances and contexts.

use std::env;
use std::ffi::OsString;
use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use futures::TryStreamExt;
use nats_elect::admin::AdminClient;
use nats_elect::{GroupName, RoleName};

use crate::cli::{Cli, Shared};
use crate::context;
use crate::exit::{Code, Failure};
use crate::operating::operating;

/// The variable by which the script of a shell says that it asks. No other program sets it.
pub const VARIABLE: &str = "NATS_ELECT_COMPLETE";

/// Nobody waits for longer for a name.
const BOUND: Duration = Duration::from_secs(1);
/// Instances are waited for until none has answered for 400 ms.
const ANSWERS: Duration = Duration::from_millis(900);

/// Answers a shell, if it is one that asks. Says nothing about errors: they would stand in the line
/// that is typed.
pub fn answered() -> Option<ExitCode> {
    let asked = CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(env::args_os(), env::current_dir().ok().as_deref());
    match asked {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// The command line, with where names come from.
fn command() -> clap::Command {
    with_names(Cli::command())
}

fn with_names(command: clap::Command) -> clap::Command {
    command
        .mut_args(|arg| match arg.get_id().as_str() {
            "role" | "roles" => arg.add(ArgValueCandidates::new(roles)),
            "group" | "groups" => arg.add(ArgValueCandidates::new(groups)),
            "instance" | "to" => arg.add(ArgValueCandidates::new(instances)),
            "context" => arg.add(ArgValueCandidates::new(contexts)),
            _ => arg,
        })
        .mut_subcommands(with_names)
}

fn roles() -> Vec<CompletionCandidate> {
    // No fence records and no data.
    keys("", |key| RoleName::new(key).is_ok())
}

fn groups() -> Vec<CompletionCandidate> {
    keys("_group.g.", |key| GroupName::new(key).is_ok())
}

/// The keys of one more token that begin so, without that beginning.
fn keys(beginning: &str, is_one: fn(&str) -> bool) -> Vec<CompletionCandidate> {
    asked(async |shared| {
        let read = async |client, name: String| {
            let bucket = shared.bucket_of(client, &name).await?;
            let prefix = format!("{}{beginning}", bucket.prefix);
            let subjects = bucket.stream.info_with_subjects(format!("{prefix}*")).await;
            let subjects = subjects.map_err(|error| unread(&error))?;
            let keys = subjects.map_ok(|(subject, _)| subject[prefix.len()..].to_owned());
            keys.try_collect::<Vec<_>>()
                .await
                .map_err(|error| unread(&error))
        };
        let mut keys = shared.reading(read).await?;
        keys.retain(|key| is_one(key));
        Ok(keys)
    })
}

fn instances() -> Vec<CompletionCandidate> {
    asked(async |shared| {
        let ask = async |admin: AdminClient| Ok(admin.instances(ANSWERS).await?);
        let found = operating(&shared.config()?, shared.whose(), ask).await?;
        Ok(found.into_iter().map(|it| it.instance_id).collect())
    })
}

fn contexts() -> Vec<CompletionCandidate> {
    candidates(context::names())
}

/// Asks NATS as the line that is typed says, for the bound at most.
fn asked<F>(ask: impl FnOnce(Shared) -> F) -> Vec<CompletionCandidate>
where
    F: Future<Output = Result<Vec<String>, Failure>>,
{
    let Some(mut shared) = typed() else {
        return Vec::new();
    };
    shared.timeout = Some(BOUND);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let found = runtime.block_on(async { tokio::time::timeout(BOUND, ask(shared)).await });
    // The look-up of an address can't be ended, and is not waited for.
    runtime.shutdown_background();
    match found {
        Ok(Ok(names)) => candidates(names),
        _ => Vec::new(),
    }
}

/// Names that a shell takes as they are. Others are left out: an instance chooses its id.
fn candidates(names: Vec<String>) -> Vec<CompletionCandidate> {
    let is_plain = |name: &String| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
        !name.starts_with('-') && name.chars().all(allowed)
    };
    let mut names: Vec<_> = names.into_iter().filter(is_plain).collect();
    names.sort();
    names.dedup();
    names.into_iter().map(CompletionCandidate::new).collect()
}

fn unread(error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Code::Unreachable, error.to_string())
}

/// The options that every command has.
#[derive(Debug, Parser)]
#[command(name = "nats-elect")]
struct Typed {
    #[command(flatten)]
    shared: Shared,
}

/// The options of the connection in the line so far, and in the environment.
fn typed() -> Option<Shared> {
    // The shell's words come after the first `--`, the program's name first.
    let words = env::args_os().skip_while(|word| word != "--").skip(2);
    let words = connecting(words.take_while(|word| word != "--"));
    let name = OsString::from("nats-elect");
    let typed = Typed::try_parse_from([name].into_iter().chain(words));
    typed.ok().map(|typed| typed.shared)
}

/// Those of the words that every command understands.
fn connecting(mut words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let command = Typed::command();
    let find = |name: &str| {
        let is_it = |arg: &&clap::Arg| match name.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => arg.get_short().is_some_and(|it| name == format!("-{it}")),
        };
        command.get_arguments().find(is_it)
    };
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let Some(text) = word.to_str() else { continue };
        let (name, has_value) = match text.split_once('=') {
            Some((name, _)) => (name, true),
            None => (text, false),
        };
        let Some(arg) = find(name) else { continue };
        let awaits = arg.get_action().takes_values() && !has_value;
        found.push(word);
        if awaits {
            found.extend(words.next());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_line_the_options_of_the_connection_are_taken() {
        let line = "inspect --server nats://a -b bucket --wait 3s --context=prod --tlsfirst sch";
        let words = connecting(line.split(' ').map(OsString::from));
        let expected = "--server nats://a -b bucket --context=prod --tlsfirst";
        let expected: Vec<_> = expected.split(' ').map(OsString::from).collect();
        assert_eq!(words, expected);
        assert_eq!(connecting(["--server".into()].into_iter()), ["--server"]);
    }

    #[test]
    fn a_name_that_a_shell_or_the_command_would_read_otherwise_is_left_out() {
        let names = [
            "node-1",
            "$(reboot)",
            "a b",
            "--yes",
            "~root",
            "ä",
            "x;y",
            "h:1",
        ];
        let shown = candidates(names.map(ToOwned::to_owned).into());
        let shown: Vec<_> = shown.iter().map(CompletionCandidate::get_value).collect();
        assert_eq!(shown, ["h:1", "node-1"]);
    }
}
