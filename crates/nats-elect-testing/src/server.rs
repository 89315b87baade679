//! One private server.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tempfile::TempDir;

use super::TestingError;
use super::binary::Binary;
use super::data;
use super::guard::Guard;
use super::monitor;
use super::ports::Port;
use std::time::Instant;

pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(30);
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
pub(super) const POLL: Duration = Duration::from_millis(5);
const START_ATTEMPTS: usize = 5;

/// A private `nats-server` process on loopback, stopped on drop.
///
/// It has `JetStream` with file storage in a temporary folder, unless the builder says otherwise,
/// and a monitoring port. The folder is in `TMPDIR` if that is set, else in memory (`/dev/shm`) where
/// Linux has a GiB of room for it. Killing, stopping and restarting keep the port and the data.
/// Dropping removes everything. If the process that holds this value dies without dropping it, the server
/// dies too.
///
/// All methods block. See the [crate](crate) for the consequences in an async test.
#[derive(Debug)]
pub struct NatsServer {
    binary: Binary,
    client: Port,
    monitor: Port,
    /// Kept only so that no other server of this process gets it.
    _route: Option<Port>,
    config: Config,
    /// `None` while the server is down.
    process: Option<Child>,
    paused: AtomicBool,
    // Dropped before the folder, which the guard removes too.
    guard: Guard,
    folder: TempDir,
}

/// The settings of a [`NatsServer`]. [`NatsServer::builder`] makes it.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `start`"]
pub struct NatsServerBuilder {
    port: Option<u16>,
    config: Config,
}

/// The settings that the server reads from its configuration file and command line, apart from its
/// ports.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) name: String,
    pub(super) jetstream: bool,
    /// The `cluster` block, if the server is a node of a cluster.
    pub(super) cluster: Option<String>,
    pub(super) extra: String,
}

impl NatsServerBuilder {
    /// Runs the server without `JetStream`. Use it to see the client's reaction when `JetStream` is
    /// missing.
    pub fn without_jetstream(mut self) -> Self {
        self.config.jetstream = false;
        self
    }

    /// Appends text to the server's configuration file: accounts, permissions, TLS, limits.
    ///
    /// A later call appends further text. If the text repeats a setting of this crate, the text
    /// wins. Do not set ports.
    pub fn config(mut self, text: &str) -> Self {
        self.config.extra.push_str(text);
        self.config.extra.push('\n');
        self
    }

    /// Listens for clients on this port instead of a free one. Starting fails if the port is taken.
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server and waits until it serves clients and, where it has it, `JetStream`.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no usable `nats-server`, the server rejects its configuration,
    /// a chosen port is taken, or the server is not ready within 30 seconds.
    pub fn start(self) -> Result<NatsServer, TestingError> {
        let mut attempt = 1;
        loop {
            let client = match self.port {
                Some(port) => Port::chosen(port),
                None => Port::free()?,
            };
            let mut server = NatsServer::prepare(client, None, self.config.clone())?;
            match server.launch().and_then(|()| server.wait_until_healthy()) {
                // Another process took a port first that was free during the check.
                Err(_)
                    if attempt < START_ATTEMPTS && server.lost_a_port() && self.port.is_none() =>
                {
                    attempt += 1;
                }
                outcome => return outcome.map(|()| server),
            }
        }
    }
}

impl NatsServer {
    /// Starts a server with `JetStream` on a free port and waits until it is ready.
    ///
    /// # Errors
    ///
    /// The same as [`NatsServerBuilder::start`].
    pub fn start() -> Result<Self, TestingError> {
        Self::builder().start()
    }

    /// Returns a builder for a server with other settings.
    pub fn builder() -> NatsServerBuilder {
        NatsServerBuilder {
            port: None,
            config: Config {
                name: "nats".to_owned(),
                jetstream: true,
                cluster: None,
                extra: String::new(),
            },
        }
    }

    pub(super) fn prepare(
        client: Port,
        route: Option<Port>,
        config: Config,
    ) -> Result<Self, TestingError> {
        let folder = tempfile::Builder::new()
            .prefix("nats-server-")
            .tempdir_in(data::parent())
            .map_err(TestingError::io("cannot make a temporary folder"))?;
        Ok(Self {
            binary: Binary::find()?,
            client,
            monitor: Port::free()?,
            _route: route,
            config,
            process: None,
            paused: AtomicBool::new(false),
            guard: Guard::start(folder.path())?,
            folder,
        })
    }

    /// Returns the address to which clients connect: `nats://127.0.0.1:<port>`. It is the same for
    /// the life of this value.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port())
    }

    /// Returns the client port.
    pub fn port(&self) -> u16 {
        self.client.number()
    }

    /// Returns the base of the server's monitoring pages: `http://127.0.0.1:<port>`.
    pub fn monitor_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.monitor.number())
    }

    /// Returns the process id of the server itself, or `None` while it is down.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// Returns the major, minor and patch number of the program.
    pub fn version(&self) -> (u64, u64, u64) {
        self.binary.version
    }

    /// Returns the name of the server in its cluster and its logs.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns everything that the server has logged since its first start. A restart appends.
    pub fn log(&self) -> String {
        fs::read(self.log_file())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// Returns whether the process lives. A paused server does.
    pub fn is_running(&self) -> bool {
        self.child_pid().is_some_and(|pid| {
            // Do not reap the process here. It must keep its own pid until then.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            matches!(waitid(WaitId::Pid(pid), options), Ok(None))
        })
    }

    /// Returns whether the server runs and is not paused.
    pub(super) fn answers(&self) -> bool {
        self.is_running() && !self.paused.load(Ordering::Relaxed)
    }

    /// Kills the server as a power cut would (`SIGKILL`), and returns when it is gone. Does nothing
    /// if it is down.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.process.take() {
            // The call can only fail if the child was reaped, and only this type does that.
            let _ = child.kill();
            self.guard.forget();
            let _ = child.wait();
        }
        self.paused.store(false, Ordering::Relaxed);
    }

    /// Stops the server in an orderly way (`SIGTERM`), and returns when it is gone. Does nothing if
    /// it is down.
    ///
    /// # Errors
    ///
    /// Returns an error if the server has not ended after 15 seconds. It is killed then.
    pub fn terminate(&mut self) -> Result<(), TestingError> {
        if let Some(pid) = self.child_pid() {
            // Do not call `signal`: the server may have ended by itself, which is the desired
            // result. A frozen process ends once it goes on.
            let _ = kill_process(pid, Signal::TERM);
            let _ = kill_process(pid, Signal::CONT);
        }
        self.wait_for_exit(STOP_TIMEOUT).map(drop)
    }

    /// Announces a lame-duck shutdown (`SIGUSR2`) and returns at once.
    ///
    /// The server hands over its Raft leaderships, notifies its clients, goes on for a second and
    /// closes them one by one. Then it ends. [`NatsServer::wait_for_exit`] waits for that.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is down.
    pub fn lame_duck(&self) -> Result<(), TestingError> {
        self.signal(Signal::USR2, "lame_duck")
    }

    /// Waits until the process has ended and returns its exit status, or `None` if it was down
    /// already.
    ///
    /// # Errors
    ///
    /// Returns an error if the process still runs after `timeout`. It is killed then.
    pub fn wait_for_exit(&mut self, timeout: Duration) -> Result<Option<ExitStatus>, TestingError> {
        let deadline = Instant::now() + timeout;
        while self.is_running() {
            if Instant::now() >= deadline {
                let error = self.timed_out("its end", timeout);
                self.kill();
                return Err(error);
            }
            thread::sleep(POLL);
        }
        self.paused.store(false, Ordering::Relaxed);
        self.guard.forget();
        match self.process.take() {
            Some(mut child) => child
                .wait()
                .map(Some)
                .map_err(TestingError::io("cannot wait for nats-server")),
            None => Ok(None),
        }
    }

    /// Starts the server again on the same port with the same data, after an orderly stop if it
    /// still runs.
    ///
    /// The method returns when the server serves clients. A server that stands alone serves
    /// `JetStream` then, too. A node of a cluster may need its peers for that: see
    /// [`NatsCluster::wait_until_ready`](super::NatsCluster::wait_until_ready).
    ///
    /// # Errors
    ///
    /// Returns an error if the server does not end, or is not ready within 30 seconds.
    pub fn restart(&mut self) -> Result<(), TestingError> {
        self.terminate()?;
        self.launch()?;
        if self.config.cluster.is_some() {
            self.wait_for("its listening for clients", |server| {
                monitor::accepts(server.port())
            })
        } else {
            self.wait_until_healthy()
        }
    }

    /// Freezes the process (`SIGSTOP`) and returns when it stands still. Connections stay open, and
    /// the server answers nothing.
    ///
    /// # Errors
    ///
    /// Returns an error if the server is down.
    pub fn pause(&self) -> Result<(), TestingError> {
        self.signal(Signal::STOP, "pause")?;
        self.paused.store(true, Ordering::Relaxed);
        if let Some(pid) = self.child_pid() {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            waitid(WaitId::Pid(pid), options)
                .map_err(io::Error::from)
                .map_err(TestingError::io("cannot wait for nats-server to pause"))?;
        }
        Ok(())
    }

    /// Lets a paused process go on (`SIGCONT`).
    ///
    /// # Errors
    ///
    /// Returns an error if the server is down.
    pub fn resume(&self) -> Result<(), TestingError> {
        self.signal(Signal::CONT, "resume")?;
        self.paused.store(false, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn monitor_port(&self) -> u16 {
        self.monitor.number()
    }

    /// Starts the process without waiting for anything.
    pub(super) fn launch(&mut self) -> Result<(), TestingError> {
        let config_file = self.folder.path().join("nats.conf");
        fs::write(&config_file, self.config_text())
            .map_err(TestingError::io("cannot write the server's configuration"))?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_file())
            .map_err(TestingError::io("cannot open the server's log"))?;
        let errors = log
            .try_clone()
            .map_err(TestingError::io("cannot open the server's log"))?;
        let mut command = Command::new(&self.binary.path);
        command.arg("--config").arg(config_file);
        if self.config.jetstream {
            // Use options instead of configuration. A `jetstream` block in the caller's text may
            // then tune the rest.
            command
                .arg("--jetstream")
                .arg("--store_dir")
                .arg(self.folder.path().join("data"));
        }
        let child = command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // Ctrl-C ends the test first, and its guard then ends the server.
            .process_group(0)
            .spawn()
            .map_err(TestingError::io("cannot start nats-server"))?;
        let pid = child.id();
        self.process = Some(child);
        self.guard.watch(pid)
    }

    /// Waits until the server reports itself as healthy and accepts clients.
    pub(super) fn wait_until_healthy(&mut self) -> Result<(), TestingError> {
        self.wait_for("its readiness", |server| {
            monitor::is_healthy(server.monitor_port()) && monitor::accepts(server.port())
        })
    }

    fn wait_for(
        &mut self,
        what: &str,
        condition: impl Fn(&Self) -> bool,
    ) -> Result<(), TestingError> {
        let deadline = Instant::now() + READY_TIMEOUT;
        while !condition(self) {
            if !self.is_running() {
                let status = self.wait_for_exit(Duration::ZERO)?;
                return Err(TestingError::Exited {
                    status: status.map_or_else(|| "no status".to_owned(), |it| it.to_string()),
                    log: self.log_tail(),
                });
            }
            if Instant::now() >= deadline {
                return Err(self.timed_out(what, READY_TIMEOUT));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Returns whether the log says that another process has one of the server's ports.
    pub(super) fn lost_a_port(&self) -> bool {
        self.log().contains("address already in use")
    }

    pub(super) fn timed_out(&self, what: &str, waited: Duration) -> TestingError {
        TestingError::TimedOut {
            what: format!("{what} ({} on port {})", self.name(), self.port()),
            waited,
            log: self.log_tail(),
        }
    }

    fn log_tail(&self) -> String {
        const LINES: usize = 30;
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }

    fn signal(&self, signal: Signal, operation: &'static str) -> Result<(), TestingError> {
        match self.child_pid() {
            Some(pid) if self.is_running() => kill_process(pid, signal)
                .map_err(io::Error::from)
                .map_err(TestingError::io("cannot signal nats-server")),
            _ => Err(TestingError::NotRunning {
                port: self.port(),
                operation,
            }),
        }
    }

    fn child_pid(&self) -> Option<Pid> {
        self.process.as_ref().map(Pid::from_child)
    }

    fn log_file(&self) -> PathBuf {
        self.folder.path().join("nats.log")
    }

    fn config_text(&self) -> String {
        let mut text = format!(
            "server_name: \"{}\"\nlisten: \"127.0.0.1:{}\"\nhttp: \"127.0.0.1:{}\"\n",
            self.config.name,
            self.client.number(),
            self.monitor.number()
        );
        // The shortest duration that the server accepts, and a grace period that a test can wait
        // for.
        text.push_str("lame_duck_duration: \"30s\"\nlame_duck_grace_period: \"1s\"\n");
        if let Some(cluster) = &self.config.cluster {
            let _ = writeln!(text, "{cluster}");
        }
        text.push_str(&self.config.extra);
        text
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        self.kill();
    }
}
