//! A process of an instance, behind a network that can fail.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use nats_elect_testing::TcpProxy;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde::Serialize;

use crate::Problem;
use crate::journal::line_of;

/// One instance: its ways to NATS, and its process while it lives. Dropping it kills that.
pub struct Node {
    /// The name of the instance.
    pub name: String,
    /// Its ways to NATS, one for each server.
    pub proxies: Vec<TcpProxy>,
    /// How many processes it has had.
    pub process: u32,
    child: Option<Child>,
    /// What all its processes write to standard error.
    log: PathBuf,
}

impl Node {
    /// Opens its ways to these servers. No process runs yet.
    pub fn new<'a>(
        name: &str,
        servers: impl IntoIterator<Item = &'a str>,
        log: PathBuf,
    ) -> Result<Self, Problem> {
        let proxies = servers.into_iter().map(TcpProxy::start);
        Ok(Self {
            name: name.to_owned(),
            proxies: proxies.collect::<Result<_, _>>()?,
            process: 0,
            child: None,
            log,
        })
    }

    /// Where it reaches NATS.
    pub fn urls(&self) -> Vec<String> {
        self.proxies.iter().map(TcpProxy::url).collect()
    }

    /// Starts its next process.
    pub fn start(&mut self, command: &mut Command) -> io::Result<()> {
        let mut log = File::options();
        let log = log.create(true).append(true).open(&self.log)?;
        let child = command
            // For orders. Only this process holds it open: its end tells the child to end, too.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            // Ctrl-C is for this process. And a group whose parent is gone is woken by the system
            // if it stands still.
            .process_group(0)
            .spawn()?;
        self.process += 1;
        self.child = Some(child);
        Ok(())
    }

    /// Whether it has a process.
    pub const fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// Kills it as a power cut would, and returns when it is gone.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        let mut child = self.child.take().ok_or_else(no_process)?;
        child.kill()?;
        child.wait()
    }

    /// Lets it stand still (`SIGSTOP`), and returns when it does.
    pub fn pause(&self) -> io::Result<()> {
        let pid = self.signal(Signal::STOP)?;
        let options = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), options)?;
        Ok(())
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) -> io::Result<Pid> {
        let pid = Pid::from_child(self.child.as_ref().ok_or_else(no_process)?);
        kill_process(pid, signal)?;
        Ok(pid)
    }

    /// Gives it an order, on a line of standard input. See [`orders`](crate::driven::orders).
    pub fn order(&mut self, order: &impl Serialize) -> io::Result<()> {
        let child = self.child.as_mut();
        let stdin = child.and_then(|child| child.stdin.as_mut());
        stdin.ok_or_else(no_process)?.write_all(&line_of(order)?)
    }

    /// How its process ended, once it has.
    pub fn exited(&mut self) -> io::Result<Option<ExitStatus>> {
        let exited = match &mut self.child {
            Some(child) => child.try_wait()?,
            None => None,
        };
        if exited.is_some() {
            self.child = None;
        }
        Ok(exited)
    }

    /// The last line of its log.
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.trim_end().lines().last().unwrap_or_default().to_owned()
    }
}

fn no_process() -> io::Error {
    io::Error::other("it does not run")
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
