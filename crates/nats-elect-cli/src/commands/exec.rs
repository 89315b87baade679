//! `exec`: a command that runs only while this instance leads.

mod configuration;

use std::ffi::OsString;
use std::io;
use std::iter;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use nats_elect::duration::exact;
use nats_elect::{ManagerConfig, RoleManager, RoleManagerBuilder, StopOptions, Takeover};
use rustix::process::Signal;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::exec::alarm::Alarm;
use crate::exec::guarded::{End, Program};
use crate::exec::handler::{Done, OnExit, OnLoss, Restart, RunCommand};
use crate::exec::listener::{self, Listener};
use crate::exec::signals::{Asked, Signals};
use crate::exec::spared::Spared;
use crate::exec::turns::Turns;
use crate::exec::waiting::{is_taken, tell_of_slots};
use crate::exec::{Instant, killing, report};
use crate::exit::{Code, Failure, Outcome};
use crate::instance_options::InstanceOptions;
use crate::options::{Shared, duration};
use crate::text::joined;
use configuration::{Role, signal, takeover};

/// A command that ended so shortly before a signal has heard it first, from a supervisor that
/// signals all processes of a service.
const ANSWER: Duration = Duration::from_secs(1);
/// How long NATS may take to be told, beyond the command's own end.
const RELEASE_TIME: Duration = Duration::from_secs(5);
/// How much later than the manager itself this process gives up.
const GRACE: Duration = Duration::from_secs(1);

const USAGE: &str = "\
nats-elect exec [OPTIONS] --role <ROLE>... -- <COMMAND> [ARGUMENT]...
       nats-elect exec [OPTIONS] --config <FILE> -- <COMMAND> [ARGUMENT]...";

const AFTER: &str = "\
The environment of the command:
  NATS_ELECT_ROLE, NATS_ELECT_INSTANCE, NATS_ELECT_BUCKET
  NATS_ELECT_SLOT              with --slots the number of the slot, from 1 on; the role is ROLE-1 then
  NATS_ELECT_FENCING_TOKEN     as text greater than the tokens of all earlier terms

Signals: TERM and INT, and HUP if stdin is a terminal, end the command, free the role and exit; a \
second one kills the command. Other signals go to the command's process group: QUIT, USR1, USR2, \
WINCH, and HUP otherwise.

Exit codes: the command's own; 128 + n if signal n ended it, or if signal n came while no command \
ran; 126 if it can't be run, 127 if it does not exist; 1 if leadership was lost and --on-loss is \
exit; 75 if leadership did not come, with --try or --wait-timeout. With several roles it is the code \
of the command that ended first, or after a signal the greatest. Before a command has run: 1 to 5 \
as for every command of nats-elect.

Examples:
  nats-elect exec --role scheduler -- ./scheduler --port 8080
  nats-elect exec --role backup --restart on-failure -- sh -c 'while backup; do sleep 60; done'
  nats-elect exec --config elect.toml --role metrics --on-exit resign -- ./metrics
  nats-elect exec --config app.toml --table app.elect --role metrics -- ./metrics
  nats-elect exec --role nightly --try --quiet -- ./backup || [ $? = 75 ]
  nats-elect exec --role mail --role billing -- sh -c './jobs --only $NATS_ELECT_ROLE'
  nats-elect exec --role worker --slots 3 -- sh -c './worker --shard $NATS_ELECT_SLOT'";

/// Run a command only while this instance leads a role
///
/// This instance takes part in the role's election, and starts the command when it leads. At the end of the term
/// the command's process group gets SIGTERM. Processes that still run shortly before the lease ends
/// are killed. The role is freed only when all have ended. So at most one instance runs the command
/// at a time, in whatever language the command is written.
///
/// A guard process knows the end of the lease. It kills the command at that time, and when this
/// process ends. So the command does not outlive its lease if this process is killed, paused or cut
/// off from NATS. docs/cli.md lists the exceptions.
///
/// The command's standard input is that of exec, or empty if that is a terminal or if there are
/// several roles. On Linux, child processes that leave the process group end with the command. On
/// other systems they are out of reach.
#[derive(Debug, Args)]
#[command(after_long_help = AFTER, override_usage = USAGE)]
pub struct Exec {
    /// The role to lead. With several (--role A --role B) the command runs once for each role that
    /// is led. May be omitted if --config has exactly one role
    #[arg(
        short,
        long = "role",
        value_name = "ROLE",
        required_unless_present = "config"
    )]
    roles: Vec<String>,

    #[command(flatten)]
    instance: InstanceOptions,

    /// Have any one of so many slots of the role, so that at most that many instances run the
    /// command at once. The slots are the units of the group ROLE: slot 1 is unit 0. The ttl is 3s to
    /// 60s then
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=100))]
    slots: Option<u16>,

    /// End with code 75 if leadership did not come within this time of the start. The wait for later
    /// terms has no limit
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "try_once")]
    wait_timeout: Option<Duration>,

    /// End with code 75 instead of waiting, if another instance leads
    #[arg(long = "try")]
    try_once: bool,

    /// Report only warnings and errors, and end with code 75 without a message
    #[arg(short, long)]
    quiet: bool,

    /// How long a lease lasts without renewal [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    ttl: Option<Duration>,

    /// The priority of this instance: higher is preferred [default: 0]
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i64>,

    /// Whether to take the role from a leader of lower priority: never or cooperative
    #[arg(long, value_name = "HOW", value_parser = takeover)]
    takeover: Option<Takeover>,

    /// How long before the end of its lease a term is wound down. The command gets three quarters
    /// of that time to end [default: a fifth of the ttl, at most 3s]
    #[arg(long, visible_alias = "grace", value_name = "TIME", value_parser = duration)]
    stop_budget: Option<Duration>,

    /// The signal that tells the command to end
    #[arg(long, value_name = "NAME", value_parser = signal, default_value = "TERM")]
    signal: Signal,

    /// Keep a companion process, which frees the role at once when this process was killed and its
    /// command has ended. Without it the next leader waits for the end of the lease. Linux only
    #[arg(long)]
    last_will: bool,

    /// Serve health and metrics over HTTP at this address, such as 127.0.0.1:9464: /livez, /readyz,
    /// /leaderz/ROLE and /metrics. There is no TLS and no authentication
    #[arg(long, value_name = "IP:PORT", env = listener::VARIABLE)]
    listen: Option<SocketAddr>,

    /// Whether a command that ended is started again while this instance leads
    #[arg(long, value_enum, default_value = "never")]
    restart: Restart,

    /// How long to wait before the first restart. It doubles each time, up to 30s
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1s")]
    restart_delay: Duration,

    /// The action after the command has ended and is not started again
    #[arg(long, value_enum, default_value = "exit")]
    on_exit: OnExit,

    /// The action after leadership was lost or handed over
    #[arg(long, value_enum, default_value = "stand")]
    on_loss: OnLoss,

    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Why `exec` ends.
enum Why {
    Done(Done),
    Signal(Signal),
    /// Leadership did not come in time.
    NotLed(Failure),
}

impl Exec {
    /// The log filter without `-v`.
    pub fn logs(&self) -> String {
        // One replica may be all that there is, and not to be told at each start: `doctor` tells.
        let warnings = "warn,async_nats=off,nats_elect::one_replica=error";
        if self.quiet {
            warnings.into()
        } else {
            format!("{warnings},{}", report::LOGS)
        }
    }

    /// The name of the command's program, which is the application.
    fn program(&self) -> String {
        let program = self.command.first().map(Path::new);
        let name = program.and_then(Path::file_name).unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    pub async fn run(self, shared: &Shared) -> Outcome {
        let begun = Instant::now();
        let (mut manager, roles) = self.configuration(shared)?;
        if let Some(longest) = self.wait_timeout {
            manager.start_timeout = manager.start_timeout.min(longest);
        }
        let patience = manager.start_timeout;
        let stop_budget = roles.iter().map(|role| role.conduct.stop_budget).max();
        // Before anything takes part in an election: it may fail.
        let listener = self.listen.map(|it| Listener::bind(it, "--listen"));
        let listener = listener.transpose()?;
        let others = Spared::new(killing::adopt_orphans()?);
        let mut signals = Signals::new()?;
        let builder = RoleManager::builder().program(self.program());
        let (builder, last_will) = with_last_will(builder, &manager)?;
        let (running, known) = watch::channel(None);
        let (done, mut is_done) = mpsc::unbounded_channel();
        let passed_on = broadcast::Sender::new(16);
        let kill_now = CancellationToken::new();
        let program = Program {
            command: self.command.clone().into(),
            environment: Vec::new(),
            has_stdin: roles.len() == 1,
            spared: others,
            last_will,
        };
        let of_role = |role: &Role| RunCommand {
            role: role.name.clone(),
            bucket: manager.bucket.clone(),
            turns: Turns::new(),
            program: program.clone(),
            conduct: role.conduct.clone(),
            tries: self.try_once,
            manager: known.clone(),
            passed_on: passed_on.clone(),
            kill_now: kill_now.clone(),
            last: watch::Sender::new(None),
            done: done.clone(),
        };
        let runs: Vec<_> = roles.iter().map(of_role).collect();
        let builder = roles
            .into_iter()
            .zip(&runs)
            .fold(builder.config(manager), |builder, (role, run)| {
                role.begin(builder, self.slots, run.clone())
            });
        let starting = builder.start();
        let manager = tokio::select! {
            started = starting => Arc::new(started?),
            signal = asked_to_stop(&mut signals) => return Ok(by_signal(signal)),
        };
        if let Some(listener) = listener {
            listener.answer(manager.probe())?;
        }
        running.send_replace(Some(Arc::downgrade(&manager)));

        let why = {
            let mut telling = pin!(self.tell_of_slots(&runs, &manager));
            let mut in_vain = pin!(self.not_led(&runs, &manager, begun, patience));
            loop {
                tokio::select! {
                    Some(done) = is_done.recv() => break Why::Done(done),
                    asked = signals.next() => match asked {
                        Asked::PassOn(signal) => drop(passed_on.send(signal)),
                        Asked::Stop(signal) => break Why::Signal(signal),
                    },
                    failure = &mut in_vain => break Why::NotLed(failure),
                    () = &mut telling => {}
                }
            }
        };
        if let Why::Signal(signal) = why {
            report::stops(signal);
        }
        // A run that ended long before this did not end for it.
        for run in &runs {
            run.forget_runs_before(ANSWER);
        }
        let timeout = stop_budget.unwrap_or_default() + RELEASE_TIME;
        let heed = |asked| match asked {
            Asked::PassOn(signal) => drop(passed_on.send(signal)),
            Asked::Stop(_) => kill_now.cancel(),
        };
        free_roles(&manager, timeout, &mut signals, heed).await;
        // A supervisor's signal to all processes of a service may have ended a command before this
        // process received it.
        let told = iter::from_fn(|| is_done.try_recv().ok()).filter_map(|done| match done {
            Done::Ended(end) => Some(end),
            Done::Lost(_) => None,
        });
        let ends = runs.iter().filter_map(RunCommand::last_end).chain(told);
        let end = ends.max_by_key(|end| end.code());
        match why {
            Why::NotLed(_) if self.quiet => Ok(Code::NotLed as u8),
            why => outcome(why, end),
        }
    }

    /// Tells of the slots, if there are some. It never ends.
    async fn tell_of_slots(&self, runs: &[RunCommand], manager: &RoleManager) {
        match (self.slots, runs) {
            (Some(slots), [run]) => tell_of_slots(manager, run, slots.into()).await,
            _ => std::future::pending().await,
        }
    }

    /// Waits until the first term did not come, if there is a limit to that. After that no command
    /// is started any more.
    async fn not_led(
        &self,
        runs: &[RunCommand],
        manager: &RoleManager,
        begun: Instant,
        patience: Duration,
    ) -> Failure {
        // There is no such limit to several.
        let [run] = runs else {
            return std::future::pending().await;
        };
        let what = if self.try_once {
            if !is_taken(manager, &run.role, patience).await {
                let patience = exact(patience);
                format!("the election was not decided within {patience}")
            } else if self.slots.is_some() {
                "all slots are taken".to_owned()
            } else {
                "the role is taken".to_owned()
            }
        } else if let Some(longest) = self.wait_timeout {
            Alarm::at(begun.plus(longest)).rings().await;
            let longest = exact(longest);
            format!("leadership did not come within {longest}")
        } else {
            return std::future::pending().await;
        };
        if !run.turns.end_unless_taken() {
            return std::future::pending().await;
        }
        let leaders = manager.status().into_iter().filter_map(|(role, status)| {
            let leader = crate::seen::name(&status.leader?);
            Some(format!("{leader} leads {role}"))
        });
        let what = format!("{what}: {}", joined(leaders));
        Failure::new(Code::NotLed, what.trim_end_matches(": "))
    }
}

/// If there is to be a companion, it waits for what the guards tell through the pipe.
fn with_last_will(
    builder: RoleManagerBuilder,
    manager: &ManagerConfig,
) -> Result<(RoleManagerBuilder, Option<Arc<OwnedFd>>), Failure> {
    if !manager.last_will.enabled {
        return Ok((builder, None));
    }
    // Elsewhere the ends of a command's processes can't be confirmed.
    if !cfg!(target_os = "linux") {
        let what = "`last_will` is on: here `exec` can't confirm that all processes of the command have ended";
        return Err(Failure::usage(what).advice("it works on Linux"));
    }
    let (ends, tell) = io::pipe()?;
    let builder = builder.last_will_after(ends.into());
    Ok((builder, Some(Arc::new(tell.into()))))
}

/// What `exec` ends with. `end` is how the command ended last, the worst of several.
fn outcome(why: Why, end: Option<End>) -> Outcome {
    match (why, end) {
        (Why::Done(Done::Ended(end)), _) | (Why::Signal(_), Some(end)) => Ok(end.code()),
        (Why::Signal(signal), None) => Ok(by_signal(signal)),
        (Why::Done(Done::Lost(role)), _) => Err(Failure::failed(format!(
            "leadership of {role} was lost, and its command has ended"
        ))),
        (Why::NotLed(failure), _) => Err(failure),
    }
}

/// Ends all terms, and frees their roles.
async fn free_roles(
    manager: &RoleManager,
    timeout: Duration,
    signals: &mut Signals,
    heed: impl Fn(Asked),
) {
    let stop = manager.stop(StopOptions::default().timeout(timeout));
    // The manager has its own thread for that; if it is held up, the time is over all the same.
    let mut stopping = pin!(tokio::time::timeout(timeout + GRACE, stop));
    let stopped = loop {
        tokio::select! {
            stopped = &mut stopping => break stopped,
            asked = signals.next() => heed(asked),
        }
    };
    // Not by the output, which waits until it is read.
    match stopped {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "not every role was freed"),
        Err(_) => tracing::warn!("not every role was freed: an election did not answer"),
    }
}

async fn asked_to_stop(signals: &mut Signals) -> Signal {
    loop {
        if let Asked::Stop(signal) = signals.next().await {
            report::stops(signal);
            return signal;
        }
    }
}

fn by_signal(signal: Signal) -> u8 {
    128 + u8::try_from(signal.as_raw()).unwrap_or(0)
}
