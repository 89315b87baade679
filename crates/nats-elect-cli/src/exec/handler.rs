//! Leading, by running a command.

use std::io;
use std::time::Duration;

use nats_elect::{BoxError, LeaderInfo, RoleHandler, Term};
use rustix::process::Signal;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Instant;
use super::alarm::Alarm;
use super::gate::Gate;
use super::guarded::{End, Guarded, Program};
use super::listener::CommandDown;
use super::waiting;

/// When a command that ended is started again, within the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Restart {
    /// It is not; --on-exit says what happens then
    Never,
    /// If it failed: a code other than 0, or a signal
    OnFailure,
    /// However it ended
    Always,
}

/// What happens when the command has ended by itself and is not started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnExit {
    /// Free the role and exit with the command's code
    Exit,
    /// Free the role, stay out for the role's cool-down, then take part in the election again
    Resign,
}

/// What happens when leadership was lost or given up, and the command has been ended for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnLoss {
    /// Take part in the election again
    Stand,
    /// Exit with code 1, for a supervisor that starts it anew
    Exit,
}

/// How a command is run.
#[derive(Clone, Debug)]
pub struct Conduct {
    pub restart: Restart,
    pub restart_delay: Duration,
    pub max_restart_delay: Duration,
    pub on_exit: OnExit,
    pub on_loss: OnLoss,
    /// What the command is told to stop by, and how long it may take until it is killed.
    pub signal: Signal,
    pub kill_after: Duration,
    /// How long before the end of the lease the command is killed: by `exec`, and by the guard. The
    /// second is the smaller. Both are for machines that stand still for a moment just then:
    /// whatever is late by less than this is not too late.
    pub margin: Duration,
    pub guard_margin: Duration,
}

/// Why `exec` has done its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The command ended by itself.
    Ended(End),
    /// Leadership of this role was lost, and its command has been ended.
    Lost(String),
}

/// Runs the command for each term of a role.
#[derive(Clone)]
pub struct RunCommand {
    pub role: String,
    pub bucket: String,
    /// Its number, if the role is one of several slots.
    pub slot: Option<u16>,
    /// Passed by this handler before it runs the command.
    pub gate: Gate,
    pub program: Program,
    pub conduct: Conduct,
    /// Known once the manager has started.
    pub instance: watch::Receiver<Option<String>>,
    /// Signals to pass on.
    pub passed_on: broadcast::Sender<Signal>,
    /// Somebody lost patience: kill instead of waiting.
    pub kill_now: CancellationToken,
    /// How the last run ended, and when; nothing while one goes on.
    pub last: watch::Sender<Option<(End, Instant)>>,
    pub done: mpsc::UnboundedSender<Done>,
}

/// What became of one run.
enum Run {
    /// The command ended by itself.
    Ended(End),
    /// The term did.
    Over,
}

/// Tells of the loss of leadership when it is dropped: also if `lead` is, for the lease was over
/// before this process noticed.
struct Loss<'a>(Option<&'a RunCommand>);

impl Drop for Loss<'_> {
    fn drop(&mut self) {
        if let Some(of) = self.0 {
            let _ = of.done.send(Done::Lost(of.role.clone()));
        }
    }
}

/// Tells, when it is dropped, that the command was killed, if it did not end by itself: also if
/// `run` is dropped, for the lease was over before this process noticed.
struct Killed<'a>(&'a watch::Sender<Option<(End, Instant)>>);

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        self.0.send_if_modified(|last| {
            let ended = last.is_some();
            last.get_or_insert((End::Killed(9), Instant::now()));
            !ended
        });
    }
}

impl RoleHandler for RunCommand {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        // Dropped last, when nothing of the command is left.
        let Some(_pass) = self.gate.enter(&self.role) else {
            tracing::debug!(
                role = self.role,
                "given back: the command runs for another role"
            );
            return Ok(());
        };
        let mut instance = self.instance.clone();
        let Ok(Some(instance)) = instance.wait_for(Option::is_some).await.as_deref().cloned()
        else {
            return Ok(());
        };
        let program = self.program_of(&term, &instance);
        let down = CommandDown::new(&self.role, &instance, &self.bucket);
        let mut delay = self.conduct.restart_delay;
        let exits = self.conduct.on_loss == OnLoss::Exit;
        let mut loss = Loss(exits.then_some(self));
        let end = loop {
            let begun = Instant::now();
            let end = match self.run(&program, &term).await {
                Ok(Run::Over) => return Ok(()),
                Ok(Run::Ended(end)) => end,
                Err(error) => {
                    loss.0 = None;
                    return Err(error.into());
                }
            };
            tracing::info!(role = self.role, ?end, "the command ended");
            let again = match self.conduct.restart {
                Restart::Never => false,
                Restart::OnFailure => !end.is_success(),
                Restart::Always => true,
            };
            if !again {
                break end;
            }
            // One that ran for long begins anew.
            if begun.plus(self.conduct.max_restart_delay).is_over() {
                delay = self.conduct.restart_delay;
            }
            let _down = (!end.is_success()).then(|| down.begins());
            if term
                .run_until_cancelled(tokio::time::sleep(delay))
                .await
                .is_none()
            {
                return Ok(());
            }
            delay = (delay * 2).min(self.conduct.max_restart_delay);
        };
        loss.0 = None;
        if self.conduct.on_exit == OnExit::Exit {
            let _ = self.done.send(Done::Ended(end));
        }
        if end.is_success() {
            Ok(())
        } else {
            Err(format!("the command failed with code {}", end.code()).into())
        }
    }

    async fn on_leader_change(&self, leader: Option<LeaderInfo>) {
        if let Some(leader) = leader.filter(|leader| !leader.is_self && !self.gate.is_in()) {
            waiting::tell(&self.role, &leader);
        }
    }
}

impl RunCommand {
    /// The command, and what it is told about its term. The lease token is no part of it: that is a
    /// secret.
    fn program_of(&self, term: &Term, instance: &str) -> Program {
        let token = term.fencing_token();
        let mut program = self.program.clone();
        program.environment.extend([
            ("NATS_ELECT_ROLE", term.role().to_owned()),
            ("NATS_ELECT_INSTANCE", instance.to_owned()),
            ("NATS_ELECT_BUCKET", self.bucket.clone()),
            ("NATS_ELECT_FENCING_TOKEN", token.to_string()),
        ]);
        let slot = self.slot.map(|slot| ("NATS_ELECT_SLOT", slot.to_string()));
        program.environment.extend(slot);
        program
    }

    /// Runs the command once, until it ends or the term does. When this returns, or is dropped,
    /// nothing of it is left.
    async fn run(&self, program: &Program, term: &Term) -> io::Result<Run> {
        let conduct = &self.conduct;
        let mut changes = term.lease_changes();
        if term.is_cancelled() {
            return Ok(Run::Over);
        }
        self.last.send_replace(None);
        let starting = Guarded::start(program, || lease_end(term).minus(conduct.guard_margin));
        let mut command = starting.await?;
        let _killed = Killed(&self.last);
        // What came before was not for this command.
        let mut passed_on = self.passed_on.subscribe();
        tracing::info!(role = self.role, "the command runs");
        let mut deadline = Alarm::at(lease_end(term).minus(conduct.margin));
        let mut stopping = false;
        // Set once the command has been told to stop.
        let mut patience = Alarm::at(Instant(u64::MAX));
        loop {
            tokio::select! {
                biased;
                // Before the alarm: a lease that was renewed while this thread was held up is not
                // over.
                () = changes.next() => {
                    command.extend(lease_end(term).minus(conduct.guard_margin));
                    deadline.set(lease_end(term).minus(conduct.margin));
                }
                () = deadline.rings() => return Ok(Run::Over),
                () = patience.rings(), if stopping => {
                    tracing::warn!(role = self.role, "the command did not stop in time: killing it");
                    return Ok(Run::Over);
                }
                () = self.kill_now.cancelled() => return Ok(Run::Over),
                end = command.ended() => {
                    self.last.send_replace(Some((end, Instant::now())));
                    // It may have been killed by its guard, for a lease that was over before this
                    // process noticed.
                    let over = stopping
                        || term.is_cancelled()
                        || lease_end(term).minus(conduct.margin).is_over();
                    return Ok(if over { Run::Over } else { Run::Ended(end) });
                }
                () = term.cancelled(), if !stopping => {
                    stopping = true;
                    command.signal(conduct.signal);
                    // One that was stopped could not heed it.
                    command.signal(Signal::CONT);
                    patience.set(Instant::now().plus(conduct.kill_after));
                }
                signal = passed_on.recv() => if let Ok(signal) = signal {
                    command.signal(signal);
                },
            }
        }
    }
}

/// When the lease ends as it is now. The clock is read first: a pause between the two readings
/// makes it earlier, never later.
fn lease_end(term: &Term) -> Instant {
    let now = Instant::now();
    now.plus(term.remaining())
}
