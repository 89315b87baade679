//! The manager's side: it starts the companion, tells it of each term, and starts another one when
//! it has died.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use rustix::net::send;
use tokio::sync::oneshot;
use tracing::Span;

use super::handed::{NO_SIGNAL, hand_over};
use super::surroundings;
use super::told::{FromCompanion, SetUp, ToCompanion, line_of};
use super::{ARGUMENT, is_initialised};
use crate::backoff::Backoff;
use crate::clock;
use crate::limits;
use crate::metrics::InstanceLabels;
use crate::model::bequests::{Bequests, LastWillStatus, Lease, Will};
use crate::model::config::ManagerConfig;
use crate::role::Instance;
use nats_elect_core::text::printable;

/// The pause before a companion that died is replaced.
const RESTART: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));
/// A companion that lived so long was no failure of the start.
const SETTLED: Duration = Duration::from_secs(60);
/// How long a companion may take to say that it watches, and to read.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the kernel may take to end a companion, for nobody to wait longer. What is held up in
/// the kernel, as on a dead disk, ends later.
const LAST_MOMENT: Duration = Duration::from_secs(1);

/// What is wrong with a process that never said that it watches.
const NO_COMPANION: &str = "its process did not answer: its program must call `nats_elect::last_will::init()` first in `main`";

/// The handle on the thread that keeps the companion. When it is dropped, the companion ends.
pub(crate) struct Keeper {
    happened: Sender<Happened>,
    bequests: Arc<Bequests>,
}

enum Happened {
    /// The terms have changed.
    Changed,
    /// The companion with this number told something.
    Told(u64, FromCompanion),
    /// The companion with this number has closed its output.
    Ended(u64),
    Stop(Option<oneshot::Sender<()>>),
}

/// The work of the thread.
struct Keeping {
    program: Option<PathBuf>,
    setup: String,
    /// Through which the end of a term's work is told.
    ends: Option<OwnedFd>,
    /// What all companions hold one end of, and this process and its forks the other.
    life: (PipeReader, PipeWriter),
    span: Span,
    labels: InstanceLabels,
    bequests: Arc<Bequests>,
    happened: Receiver<Happened>,
    tell: Sender<Happened>,
    companions: u64,
    /// Receives one message: that the first companion watches, or why there is none.
    started: Option<oneshot::Sender<Result<(), String>>>,
}

struct Companion {
    number: u64,
    process: Child,
    pipe: UnixStream,
    watches: bool,
}

/// Why a companion is served no longer.
enum End {
    Died(String),
    Stopped(Option<oneshot::Sender<()>>),
}

impl Keeper {
    /// Starts a companion. Returns when it watches over this process.
    ///
    /// # Errors
    /// Returns why there can't be a companion.
    pub async fn start(
        config: &ManagerConfig,
        instance: &Instance,
        ends: Option<OwnedFd>,
    ) -> Result<Self, String> {
        let program = config.last_will.program.clone();
        startable(program.is_some())?;
        for trouble in surroundings::trouble() {
            instance
                .span()
                .in_scope(|| tracing::warn!("`last_will`: {trouble}"));
        }
        let (happened, happenings) = mpsc::channel();
        let changed = happened.clone();
        let bequests = Arc::new(Bequests::new(move || {
            let _ = changed.send(Happened::Changed);
        }));
        let setup = ToCompanion::Setup(Box::new(SetUp {
            parent: std::process::id(),
            is_private: is_private(),
            instance_id: instance.id.as_str().to_owned(),
            config: config.clone(),
        }));
        let (started, watches) = oneshot::channel();
        let keeping = Keeping {
            program,
            setup: line_of(&setup),
            ends,
            life: io::pipe().map_err(|error| limits::in_words(&error))?,
            span: instance.span(),
            labels: InstanceLabels::new(instance.id.as_str(), instance.bucket.as_str()),
            bequests: Arc::clone(&bequests),
            happened: happenings,
            tell: happened.clone(),
            companions: 0,
            started: Some(started),
        };
        // From here on dropping it ends the thread.
        let keeper = Self { happened, bequests };
        thread::Builder::new()
            .name("nats-elect-will".into())
            .spawn(move || keeping.run())
            .map_err(|error| limits::in_words(&error))?;
        watches.await.map_err(|_| "its thread died")??;
        Ok(keeper)
    }

    /// Where the elections note their terms.
    pub fn bequests(&self) -> Arc<Bequests> {
        Arc::clone(&self.bequests)
    }

    pub fn status(&self) -> LastWillStatus {
        self.bequests.companion()
    }

    /// Ends the companion.
    pub async fn stop(&self) {
        let (reply, stopped) = oneshot::channel();
        let _ = self.happened.send(Happened::Stop(Some(reply)));
        let _ = stopped.await;
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.happened.send(Happened::Stop(None));
    }
}

/// Checks that a companion would not be another instance of the application.
fn startable(has_program: bool) -> Result<(), String> {
    let first = std::env::args_os().nth(1);
    if first.is_some_and(|first| first == ARGUMENT) {
        return Err(
            "this process was started as a companion, and its program does not call `nats_elect::last_will::init()` first in `main`"
                .into(),
        );
    }
    if has_program || is_initialised() {
        return Ok(());
    }
    Err(
        "call `nats_elect::last_will::init()` first in `main`, or set `last_will.program` to the path of the command `nats-elect`"
            .into(),
    )
}

impl Keeping {
    fn run(mut self) {
        let span = self.span.clone();
        let _entered = span.enter();
        let mut failures = 0;
        loop {
            let begun = clock::now();
            let end = match self.companion() {
                Ok(companion) => self.serve(companion),
                Err(error) => {
                    let error = limits::in_words(&error);
                    End::Died(format!("it could not be started: {error}"))
                }
            };
            self.status_is(LastWillStatus::Absent);
            let why = match end {
                End::Stopped(reply) => return drop(reply),
                End::Died(why) => why,
            };
            if let Some(started) = self.started.take() {
                let _ = started.send(Err(why));
                return;
            }
            if clock::now().since(begun) >= SETTLED {
                failures = 0;
            }
            let pause = RESTART.spread_after(failures);
            failures += 1;
            self.labels.last_will_ended();
            tracing::warn!(
                ?pause,
                "the companion process of `last_will` has ended ({}): another one is started; until then a crash takes as long as without it",
                printable(&why)
            );
            let until = clock::now() + pause;
            loop {
                match self.happened.recv_timeout(until.since(clock::now())) {
                    Ok(Happened::Stop(_)) | Err(RecvTimeoutError::Disconnected) => return,
                    Err(RecvTimeoutError::Timeout) => break,
                    Ok(_) => {}
                }
            }
        }
    }

    fn companion(&mut self) -> io::Result<Companion> {
        let (pipe, theirs) = UnixStream::pair()?;
        pipe.set_write_timeout(Some(PATIENCE))?;
        let mut command = self.command()?;
        for (name, _) in std::env::vars_os() {
            // It is told everything through the pipe.
            if name.to_string_lossy().starts_with("NATS_") {
                command.env_remove(name);
            }
        }
        let process = command
            .arg(ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::piped())
            // It may outlive this process, and must not hold its outputs open.
            .stderr(Stdio::null())
            // What is typed at a terminal is not for it.
            .process_group(0)
            .spawn()?;
        self.companions += 1;
        let mut companion = Companion {
            number: self.companions,
            process,
            pipe,
            watches: false,
        };
        if let Err(error) = self.introduce(&mut companion) {
            companion.kill();
            return Err(error);
        }
        Ok(companion)
    }

    fn introduce(&self, companion: &mut Companion) -> io::Result<()> {
        let number = companion.number;
        if let Some(output) = companion.process.stdout.take() {
            let tell = self.tell.clone();
            thread::Builder::new().spawn(move || hear(output, number, &tell))?;
        }
        let ends = self.ends.as_ref().map(AsFd::as_fd);
        hand_over(&companion.pipe, self.life.0.as_fd(), ends)?;
        companion.tell(&self.setup)
    }

    fn command(&self) -> io::Result<Command> {
        if let Some(program) = &self.program {
            return Ok(Command::new(program));
        }
        let own = std::env::current_exe()?;
        if cfg!(target_os = "linux") {
            // The very program that runs, even if its file was replaced meanwhile.
            let mut command = Command::new("/proc/self/exe");
            command.arg0(own);
            return Ok(command);
        }
        Ok(Command::new(own))
    }

    fn serve(&mut self, mut companion: Companion) -> End {
        let begun = clock::now();
        let mut why = None;
        let end = loop {
            let left = if companion.watches {
                Duration::MAX
            } else {
                (begun + PATIENCE).since(clock::now())
            };
            match self.happened.recv_timeout(left) {
                Ok(Happened::Told(number, told)) if number == companion.number => match told {
                    FromCompanion::Watching => {
                        companion.watches = true;
                        self.bequests.start_over();
                        self.status_is(LastWillStatus::Watching);
                        if let Some(started) = self.started.take() {
                            let _ = started.send(Ok(()));
                        }
                    }
                    FromCompanion::Failed(reason) => why = Some(reason),
                    FromCompanion::Connected => self.status_is(LastWillStatus::Ready),
                    FromCompanion::Disconnected(reason) => {
                        self.status_is(LastWillStatus::Watching);
                        tracing::debug!(
                            "the companion process of `last_will` has no bucket: {}",
                            printable(&reason)
                        );
                    }
                },
                Ok(Happened::Ended(number)) if number == companion.number => {
                    let unknown = if companion.watches {
                        "it was killed, or it crashed"
                    } else {
                        NO_COMPANION
                    };
                    break End::Died(why.unwrap_or_else(|| unknown.to_owned()));
                }
                Ok(Happened::Stop(reply)) => break End::Stopped(reply),
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break End::Stopped(None),
                Err(RecvTimeoutError::Timeout) => {
                    break End::Died(NO_COMPANION.to_owned());
                }
            }
            if companion.watches
                && let Err(error) = companion.learn(self.bequests.changes())
            {
                break End::Died(format!("it does not listen: {error}"));
            }
        };
        let ended = companion.kill();
        if matches!(end, End::Stopped(_)) {
            let _ = ended.recv_timeout(LAST_MOMENT);
        }
        end
    }

    fn status_is(&self, status: LastWillStatus) {
        self.bequests.companion_is(status);
        self.labels.last_will(status == LastWillStatus::Ready);
    }
}

impl Companion {
    /// Tells it what has changed.
    fn learn(&mut self, changes: Vec<(Lease, Option<Will>)>) -> io::Result<()> {
        let told = changes.into_iter().map(|(lease, will)| {
            line_of(&match will {
                Some(will) => ToCompanion::Will(lease, will),
                None => ToCompanion::Forget(lease),
            })
        });
        self.tell(&told.collect::<String>())
    }

    fn tell(&mut self, lines: &str) -> io::Result<()> {
        let mut left = lines.as_bytes();
        while !left.is_empty() {
            match send(&self.pipe, left, NO_SIGNAL) {
                Ok(sent) => left = &left[sent..],
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Ends it, if it has not ended, and has a thread take leave of it. Nothing is left for it to do,
    /// so it is not asked: it may be stopped, or hang. Returns a channel that closes with its end.
    fn kill(mut self) -> Receiver<()> {
        let (lives, ended) = mpsc::channel();
        // If somebody else has waited for it, its id may be that of another process.
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.process.kill();
            let _ = thread::Builder::new().spawn(move || {
                let _ = self.process.wait();
                drop(lives);
            });
        }
        ended
    }
}

/// Whether other processes may not look into this one.
fn is_private() -> bool {
    #[cfg(target_os = "linux")]
    return !matches!(
        rustix::process::dumpable_behavior(),
        Ok(rustix::process::DumpableBehavior::Dumpable)
    );
    #[cfg(not(target_os = "linux"))]
    false
}

/// Passes on what a companion tells, and that its output is closed.
fn hear(output: ChildStdout, number: u64, tell: &Sender<Happened>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Ok(told) = serde_json::from_str(&line) {
            let _ = tell.send(Happened::Told(number, told));
        }
    }
    let _ = tell.send(Happened::Ended(number));
}
