//! Processes that follow orders, and tell what happens: a line of JSON for each.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::Problem;

/// The variable with the purpose of a process.
const PURPOSE: &str = "NATS_ELECT_PURPOSE";

/// Processes of this program, by number. Dropping them kills them.
pub struct Driven<E> {
    processes: BTreeMap<usize, Child>,
    /// How many there were, with those that ended.
    born: usize,
    tell: mpsc::Sender<(usize, E)>,
    told: mpsc::Receiver<(usize, E)>,
}

impl<E: DeserializeOwned + Send + 'static> Default for Driven<E> {
    fn default() -> Self {
        let (tell, told) = mpsc::channel();
        Self {
            processes: BTreeMap::new(),
            born: 0,
            tell,
            told,
        }
    }
}

impl<E: DeserializeOwned + Send + 'static> Driven<E> {
    /// How many processes there were so far: the number of the next one.
    pub const fn born(&self) -> usize {
        self.born
    }

    /// Starts one more.
    pub fn start(&mut self, purpose: &impl Serialize) -> Result<usize, Problem> {
        let number = self.born;
        let mut child = Command::new(std::env::current_exe()?)
            .env(PURPOSE, serde_json::to_string(purpose)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
        let tell = self.tell.clone();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                // A kill may cut the last one short.
                if let Ok(event) = serde_json::from_str(&line) {
                    let _ = tell.send((number, event));
                }
            }
        });
        self.processes.insert(number, child);
        self.born += 1;
        Ok(number)
    }

    /// The numbers of those that were not ended.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.processes.keys().copied()
    }

    /// The process ids of these.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.values().map(Child::id).collect()
    }

    /// Gives an order.
    pub fn order(&mut self, number: usize, order: &impl Serialize) -> Result<(), Problem> {
        let process = self.processes.get_mut(&number).ok_or("no such process")?;
        let input = process.stdin.as_mut().ok_or("no input")?;
        Ok(writeln!(input, "{}", serde_json::to_string(order)?)?)
    }

    /// Waits for what any of them tells next.
    pub fn next(&self, patience: Duration) -> Result<(usize, E), RecvTimeoutError> {
        self.told.recv_timeout(patience)
    }

    /// Gives one no more orders: it ends. It has ended when the caller waits for it.
    pub fn stop(&mut self, number: usize) -> Result<Child, Problem> {
        let mut process = self.processes.remove(&number).ok_or("no such process")?;
        drop(process.stdin.take());
        Ok(process)
    }

    /// Kills one.
    pub fn kill(&mut self, number: usize) -> Result<(), Problem> {
        let mut process = self.processes.remove(&number).ok_or("no such process")?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }
}

impl<E> Drop for Driven<E> {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The purpose of this process, if it is a driven one.
pub fn purpose<P: DeserializeOwned>() -> Option<P> {
    let purpose = std::env::var(PURPOSE).ok()?;
    Some(serde_json::from_str(&purpose).expect("a purpose of this program"))
}

/// The orders as they come. At their end this is done, before the channel closes.
pub fn orders<O: DeserializeOwned + Send + 'static>(
    at_end: impl FnOnce() + Send + 'static,
) -> UnboundedReceiver<O> {
    let (pass, orders) = unbounded_channel();
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = pass.send(serde_json::from_str(&line).expect("an order"));
        }
        at_end();
    });
    orders
}

/// Tells the driver. If it is gone, so is this process.
pub fn tell(event: &impl Serialize) {
    let mut line = serde_json::to_string(event).expect("plain values");
    line.push('\n');
    if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
        std::process::exit(0);
    }
}
