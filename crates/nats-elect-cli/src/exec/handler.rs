//! Leading, by running a command.

use std::io;
use std::sync::Weak;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use nats_elect::duration::rounded;
use nats_elect::{BoxError, EndCause, Event, LeaderInfo, RoleHandler, RoleManager, Term};
use rustix::process::{Pid, Signal};
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::Instant;
use super::alarm::Alarm;
use super::guarded::{End, Guarded, Program};
use super::listener::CommandDown;
use super::report::{self, Kill};
use super::turns::Turns;

/// The longest pause before a restart, unless a longer one was asked for.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

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
    pub on_exit: OnExit,
    pub on_loss: OnLoss,
    /// The signal that tells the command to stop.
    pub signal: Signal,
    /// How long before the end of its lease a term is wound down.
    pub stop_budget: Duration,
}

/// Why `exec` has done its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The command ended by itself.
    Ended(End),
    /// Leadership of this role was lost, and its command has been ended.
    Lost(String),
}

/// Runs the command for each term of a role, or of a slot.
#[derive(Clone)]
pub struct RunCommand {
    /// Of a slot, once it has one, with the slot's number.
    pub role: String,
    pub bucket: String,
    /// One is taken for each term.
    pub turns: Turns,
    pub program: Program,
    pub conduct: Conduct,
    /// Whether it does not wait for its first term.
    pub tries: bool,
    /// Known once it has started.
    pub manager: watch::Receiver<Option<Weak<RoleManager>>>,
    /// Signals to pass on.
    pub passed_on: broadcast::Sender<Signal>,
    /// Somebody lost patience: kill instead of waiting.
    pub kill_now: CancellationToken,
    /// How the last run ended, and when; nothing while one goes on.
    pub last: watch::Sender<Option<(End, Instant)>>,
    pub done: mpsc::UnboundedSender<Done>,
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

/// Tells, when it is dropped, that the command is killed, if it did not end by itself: also if
/// `run` is dropped, for the lease was over before this process noticed.
struct Killed<'a> {
    of: &'a RunCommand,
    kill: Kill,
    cause: Option<EndCause>,
}

impl Drop for Killed<'_> {
    fn drop(&mut self) {
        let is_killed = self.of.last.send_if_modified(|last| {
            let ended = last.is_some();
            last.get_or_insert((End::Killed(9), Instant::now()));
            !ended
        });
        if is_killed {
            report::kills(&self.of.role, self.kill, self.cause);
        }
    }
}

impl RoleHandler for RunCommand {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        // Dropped last, when nothing of the command is left. A slot that this instance had before may
        // still be winding down.
        let Some(Some(_turn)) = term.run_until_cancelled(self.turns.take()).await else {
            return Ok(());
        };
        self.of(&term).lead_once(term).await
    }

    async fn on_leader_change(&self, leader: Option<LeaderInfo>) {
        if let Some(leader) = leader.filter(|leader| !leader.is_self && self.waits()) {
            report::waiting(&self.role, &leader);
        }
    }
}

impl RunCommand {
    /// Whether it waits for a term. One that does not wait for the first ends instead.
    pub fn waits(&self) -> bool {
        self.turns.are_free() && (!self.tries || self.turns.were_taken())
    }

    /// How the last run of the command ended, if it is over and was not forgotten.
    pub fn last_end(&self) -> Option<End> {
        self.last.borrow().map(|(end, _)| end)
    }

    /// Forgets how the last run ended, if that was longer ago.
    pub fn forget_runs_before(&self, age: Duration) {
        let is_old = |(_, at): &mut (End, Instant)| at.plus(age).is_over();
        self.last
            .send_if_modified(|last| last.take_if(is_old).is_some());
    }

    /// The handler of a term's role or slot.
    fn of(&self, term: &Term) -> Self {
        let mut of = self.clone();
        if let Some(slot) = slot(term) {
            of.role = format!("{}-{slot}", self.role);
        }
        of
    }

    async fn lead_once(&self, term: Term) -> Result<(), BoxError> {
        let mut manager = self.manager.clone();
        let started = manager.wait_for(Option::is_some).await;
        let started = started.ok().and_then(|manager| manager.as_ref()?.upgrade());
        let Some(manager) = started else {
            return Ok(());
        };
        let instance = manager.instance_id().to_owned();
        let mut ends = Ends::of(&manager, &self.role);
        drop(manager);
        let program = self.program_of(&term, &instance);
        let down = CommandDown::new(&self.role, &instance, &self.bucket);
        let longest_delay = LONGEST_DELAY.max(self.conduct.restart_delay);
        let mut delay = self.conduct.restart_delay;
        let exits = self.conduct.on_loss == OnLoss::Exit;
        let mut loss = Loss(exits.then_some(self));
        let mut has_run = false;
        let end = loop {
            let begun = Instant::now();
            let tell = |command| {
                report::started(&self.role, command, term.fencing_token(), !has_run);
            };
            // Dropped before the next run: with that a line about the end would be no longer true.
            let (end, _guarded) = match self.run(&program, &term, &mut ends, tell).await {
                Ok(None) => return Ok(()),
                Ok(Some(ended)) => ended,
                Err(error) => {
                    loss.0 = None;
                    return Err(error.into());
                }
            };
            let again = match self.conduct.restart {
                Restart::Never => false,
                Restart::OnFailure => !end.is_success(),
                Restart::Always => true,
            };
            if !again {
                report::ended(&self.role, end, "");
                break end;
            }
            has_run = true;
            // One that ran for long begins anew.
            if begun.plus(longest_delay).is_over() {
                delay = self.conduct.restart_delay;
            }
            let next = format!(", next start in {}", rounded(delay));
            report::ended(&self.role, end, &next);
            let _down = (!end.is_success()).then(|| down.begins());
            if term
                .run_until_cancelled(tokio::time::sleep(delay))
                .await
                .is_none()
            {
                report::leadership_ends(&self.role, ends.cause(), false);
                return Ok(());
            }
            delay = (delay * 2).min(longest_delay);
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

    /// The command, and what it is told about its term. The lease token is no part of it: that is a
    /// secret.
    fn program_of(&self, term: &Term, instance: &str) -> Program {
        let token = term.fencing_token();
        let mut program = self.program.clone();
        program.environment.extend([
            ("NATS_ELECT_ROLE", self.role.clone()),
            ("NATS_ELECT_INSTANCE", instance.to_owned()),
            ("NATS_ELECT_BUCKET", self.bucket.clone()),
            ("NATS_ELECT_FENCING_TOKEN", token.to_string()),
        ]);
        let slot = slot(term).map(|slot| ("NATS_ELECT_SLOT", slot.to_string()));
        program.environment.extend(slot);
        program
    }

    /// Runs the command once, until it ends or the term does. When this returns, or is dropped,
    /// nothing of it is left. Returns how the command ended, if it did so by itself. Where there is a
    /// companion, its guard stays: it tells of the end if this process dies before the next run.
    async fn run(
        &self,
        program: &Program,
        term: &Term,
        ends: &mut Ends,
        started: impl FnOnce(Pid) + Send,
    ) -> io::Result<Option<(End, Option<Guarded>)>> {
        let conduct = &self.conduct;
        // How long before the end of the lease the command is killed: by `exec`, and by the guard. The
        // second is the smaller. Both are for machines that stand still for a moment just then:
        // whatever is late by less than this is not too late.
        let margin = conduct.stop_budget / 4;
        let guard_margin = conduct.stop_budget / 5;
        let mut changes = term.lease_changes();
        if term.is_cancelled() {
            return Ok(None);
        }
        self.last.send_replace(None);
        let kill_at = || lease_end(term).minus(guard_margin);
        let starting = Guarded::start(program, term, kill_at);
        let (mut command, pid) = starting.await?;
        started(pid);
        let mut killed = Killed {
            of: self,
            kill: Kill::LeaseOver,
            cause: None,
        };
        // What came before was not for this command.
        let mut passed_on = self.passed_on.subscribe();
        let mut deadline = Alarm::at(lease_end(term).minus(margin));
        let mut stopping = false;
        // Set once the command has been told to stop.
        let mut patience = Alarm::at(Instant(u64::MAX));
        loop {
            tokio::select! {
                biased;
                // Before the alarm: a lease that was renewed while this thread was held up is not
                // over.
                Some(()) = changes.next() => {
                    command.extend(kill_at());
                    deadline.set(lease_end(term).minus(margin));
                }
                () = deadline.rings() => {
                    // Also if it was told to stop a moment before.
                    killed.kill = Kill::LeaseOver;
                    killed.cause = ends.cause();
                    return Ok(None);
                }
                () = patience.rings(), if stopping => return Ok(None),
                () = self.kill_now.cancelled() => {
                    killed.kill = Kill::Asked;
                    return Ok(None);
                }
                end = command.ended() => {
                    self.last.send_replace(Some((end, Instant::now())));
                    // It may have been killed by its guard, for a lease that was over before this
                    // process noticed.
                    let over = stopping
                        || term.is_cancelled()
                        || lease_end(term).minus(margin).is_over();
                    if over {
                        // Its guard may have been the first to notice.
                        let late = if stopping { "" } else { "; its lease was over" };
                        report::ended(&self.role, end, late);
                        return Ok(None);
                    }
                    return Ok(Some((end, program.last_will.is_some().then_some(command))));
                }
                () = term.cancelled(), if !stopping => {
                    stopping = true;
                    killed.kill = Kill::TooSlow;
                    report::leadership_ends(&self.role, ends.cause(), true);
                    command.signal(conduct.signal);
                    // One that was stopped could not heed it.
                    command.signal(Signal::CONT);
                    patience.set(Instant::now().plus(conduct.stop_budget.saturating_sub(margin)));
                }
                signal = passed_on.recv() => if let Ok(signal) = signal {
                    command.signal(signal);
                },
            }
        }
    }
}

/// The number of the slot, from 1 on, if the term is one's. Slots are the shards of a group.
fn slot(term: &Term) -> Option<u32> {
    term.shard().map(|shard| shard + 1)
}

/// Why terms of a role end.
struct Ends(Option<Box<dyn Stream<Item = Event> + Send + Unpin>>);

impl Ends {
    /// From now on.
    fn of(manager: &RoleManager, role: &str) -> Self {
        let handle = manager.role(role).ok();
        Self(handle.map(|handle| Box::new(handle.events()) as _))
    }

    /// Why the term ended, or is ending. That is known before the term is cancelled.
    fn cause(&mut self) -> Option<EndCause> {
        let events = self.0.as_mut()?;
        let mut last = None;
        while let Some(Some(event)) = events.next().now_or_never() {
            if let Event::TermEnding { cause, .. } = event {
                last = Some(cause);
            }
        }
        last
    }
}

/// When the lease ends as it is now. The clock is read first: a pause between the two readings
/// makes it earlier, never later.
fn lease_end(term: &Term) -> Instant {
    let now = Instant::now();
    now.plus(term.remaining())
}
