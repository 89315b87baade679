//! The control plane under observation: instances in processes of their own.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::instance::{ORDERS, Orders};

const SOON: Duration = Duration::from_secs(30);

/// A process with an instance. It ends when this is dropped.
pub struct Process {
    pub id: String,
    /// Where its metrics are.
    pub address: SocketAddr,
    child: Child,
    told: Receiver<String>,
}

impl Process {
    pub fn start(id: &str, url: &str) -> Self {
        let orders = Orders {
            url: url.to_owned(),
            id: id.to_owned(),
        };
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "prometheus::instance::an_instance"])
            .args(["--ignored", "--nocapture"])
            .env(ORDERS, serde_json::to_string(&orders).expect("orders"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start an instance");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (tell, told) = channel();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(line) = line.strip_prefix('@') {
                    let _ = tell.send(line.to_owned());
                }
            }
        });
        let mut process = Self {
            id: id.to_owned(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            child,
            told,
        };
        let ready = process.told();
        let port = ready.strip_prefix("metrics ").expect("a port");
        process.address.set_port(port.parse().expect("a port"));
        process
    }

    /// Has it step down from a role in favour of that instance, and returns what it says to that.
    pub fn step_down(&mut self, role: &str, to: &str) -> String {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{role} {to}").expect("a living instance");
        self.told()
    }

    /// Kills it as a power cut would.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("reap");
    }

    pub fn pause(&self) {
        kill_process(Pid::from_child(&self.child), Signal::STOP).expect("a living instance");
    }

    pub fn resume(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("a living instance");
    }

    fn told(&self) -> String {
        self.told
            .recv_timeout(SOON)
            .expect("a word of the instance")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
