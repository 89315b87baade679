//! The commands, each in a file of its own: its options, its help, and what it does.

#[cfg(unix)]
pub mod agent;
pub mod candidates;
pub mod check;
pub mod completions;
pub mod create_bucket;
pub mod doctor;
pub mod end_lease;
#[cfg(unix)]
pub mod exec;
pub mod group;
pub mod history;
pub mod inspect;
pub mod ls;
pub mod orders;
pub mod permissions;
pub mod retire;
pub mod serve;
pub mod step_down;
pub mod top;
pub mod verify;
pub mod watch;

#[cfg(unix)]
use crate::cli::Inner;
use crate::cli::{Command, GroupCommand, RoleCommand, Shared};
use crate::connect::block_on;
use crate::exit::{Failure, Outcome};
use crate::output::Output;

/// Does what `exec` started this process for.
#[cfg(unix)]
pub fn run_inner(inner: &Inner) -> Outcome {
    match inner {
        Inner::ExecGuard(guard) => guard.run(),
        Inner::ExecStarter(starter) => starter.run(),
    }
}

/// Does what was asked.
pub fn run(command: Command, shared: &Shared, output: Output) -> Outcome {
    if shared.domain.is_some() && !command.takes_domain() {
        let what = "--domain is for commands that ask instances and do not read the bucket";
        return Err(Failure::usage(what).advice("connect to a server of that domain"));
    }
    match command {
        Command::Candidates(candidates) => block_on(candidates.run(shared, output)),
        Command::Check(check) => check.run(output),
        Command::CreateBucket(create) => block_on(create.run(shared, output)),
        Command::Doctor(doctor) => block_on(doctor.run(shared, output)),
        Command::Group(GroupCommand::Ls(ls)) => block_on(ls.run(shared, output)),
        Command::Group(GroupCommand::Show(show)) => block_on(show.run(shared, output)),
        Command::Group(GroupCommand::Explain(explain)) => block_on(explain.run(shared, output)),
        Command::Group(GroupCommand::Plan(plan)) => block_on(plan.run(shared, output)),
        Command::Group(GroupCommand::Move(transfer)) => block_on(transfer.run(shared, output)),
        Command::Group(GroupCommand::Drain(drain)) => block_on(drain.run(shared, output)),
        Command::Group(GroupCommand::Grow(grow)) => block_on(grow.run(shared, output)),
        Command::History(history) => block_on(history.run(shared, output)),
        Command::Inspect(inspect) => block_on(inspect.run(shared, output)),
        Command::Ls(ls) => block_on(ls.run(shared, output)),
        Command::Serve(serve) => block_on(serve.run(shared, output)),
        Command::Top(top) => block_on(top.run(shared, output)),
        Command::StepDown(down) => block_on(down.run(shared, output)),
        Command::Pause(pause) => block_on(pause.run(shared, output)),
        Command::Resume(resume) => block_on(resume.run(shared, output)),
        Command::Cordon(cordon) => block_on(cordon.run(shared, output)),
        Command::EndLease(end) => block_on(end.run(shared, output)),
        Command::Role(RoleCommand::Retire(retire)) => block_on(retire.run(shared, output)),
        Command::Verify(verify) => block_on(verify.run(shared, output)),
        Command::Watch(watch) => block_on(watch.run(shared, output)),
        #[cfg(unix)]
        Command::Exec(exec) => block_on(exec.run(shared)),
        #[cfg(unix)]
        Command::Agent(agent) => block_on(agent.run(shared)),
        Command::Permissions(permissions) => permissions.run(shared, output),
        Command::Completions(completions) => completions.run(),
        Command::Man(man) => man.run(),
    }
}
