//! A process that leads a role, with a companion, until something ends it.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nats_elect::{
    LastWillConfig, LastWillStatus, ManagerConfig, RoleConfig, RoleManager, StopOptions, Term,
    handler_fn,
};
use nats_elect_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::stage::SOON;

const ORDERS: &str = "NATS_ELECT_TEST_VICTIM";

#[derive(Serialize, Deserialize)]
pub struct Orders {
    pub config: ManagerConfig,
    pub role: String,
    pub ttl: Duration,
    /// Where the handler notes when it acted last.
    pub acts: PathBuf,
}

/// The process, seen from the outside.
pub struct Victim {
    child: Child,
    acts: PathBuf,
}

impl Victim {
    /// Starts it, and waits until it leads and its companion is ready.
    pub async fn start(config: &ManagerConfig, role: &str, ttl: Duration, folder: &Path) -> Self {
        let acts = folder.join(role);
        let orders = Orders {
            config: config
                .clone()
                .last_will(LastWillConfig::on())
                .instance_id("victim"),
            role: role.to_owned(),
            ttl,
            acts: acts.clone(),
        };
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .env(ORDERS, serde_json::to_string(&orders).expect("orders"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = child.stdout.take().expect("its output");
        let led = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line).expect("a line");
            line
        });
        assert_eq!(led.await.expect("no panic").trim(), "leading");
        Self { child, acts }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it lives");
    }

    /// Kills it, as the kernel does. Returns when.
    pub fn kill(&mut self) -> Stamp {
        let at = Stamp::now();
        self.child.kill().expect("it lives");
        self.child.wait().expect("its end");
        at
    }

    /// Has it do something.
    pub fn order(&mut self, order: &str) -> Stamp {
        let at = Stamp::now();
        let stdin = self.child.stdin.as_mut().expect("its input");
        writeln!(stdin, "{order}").expect("it listens");
        at
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().expect("its end")
    }

    /// When its handler acted last.
    pub fn last_act(&self) -> Stamp {
        let mut stamp = [0; 8];
        let file = File::open(&self.acts).expect("its notes");
        file.read_exact_at(&mut stamp, 0).expect("a note");
        Stamp::from_nanos(u64::from_le_bytes(stamp))
    }

    /// The process of its companion, other than this one.
    pub async fn companion(&self, not: Option<Pid>) -> Pid {
        eventually(SOON, "a companion", async || {
            children(self.id())
                .into_iter()
                .find(|pid| Some(*pid) != not)
        })
        .await
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The living child processes of a process.
pub fn children(of: u32) -> Vec<Pid> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    let children = tasks.flat_map(|task| {
        let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let pids: Vec<_> = text
            .split_whitespace()
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect();
        pids
    });
    children.collect()
}

pub fn is_one() -> bool {
    std::env::var_os(ORDERS).is_some()
}

/// The process itself.
pub fn run() {
    let orders = std::env::var(ORDERS).expect("orders");
    let orders: Orders = serde_json::from_str(&orders).expect("orders");
    // The companion must hold neither.
    let socket = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(lead(orders));
    drop(socket);
}

async fn lead(orders: Orders) {
    let notes = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&orders.acts)
        .expect("a file");
    let notes = std::sync::Arc::new(notes);
    let handler = handler_fn(move |term: Term| {
        let notes = std::sync::Arc::clone(&notes);
        async move {
            while term.is_valid() && !term.is_cancelled() {
                let stamp = Stamp::now().as_nanos().to_le_bytes();
                notes.write_all_at(&stamp, 0).expect("a note");
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            Ok(())
        }
    });
    let manager = RoleManager::builder()
        .config(orders.config)
        .role(&orders.role, RoleConfig::default().ttl(orders.ttl), handler)
        .start()
        .await
        .expect("a manager");
    let role = manager.role(&orders.role).expect("the role");
    eventually(
        SOON,
        "leadership with a companion that is ready",
        async || {
            let is_ready = manager.last_will() == Some(LastWillStatus::Ready);
            (is_ready && role.is_leader()).then_some(())
        },
    )
    .await;
    println!("leading");
    let order = tokio::task::spawn_blocking(|| {
        let mut order = String::new();
        let _ = std::io::stdin().read_line(&mut order);
        order
    });
    match order.await.expect("no panic").trim() {
        "abort" => std::process::abort(),
        "exit" => std::process::exit(3),
        "exec" => {
            use std::os::unix::process::CommandExt;
            panic!("{}", Command::new("sleep").arg("600").exec());
        }
        // As a program does that was built with `panic = "abort"`.
        "panic" => {
            std::panic::set_hook(Box::new(|_| std::process::abort()));
            panic!("as ordered");
        }
        "await a companion" => {}
        _ => manager.stop(StopOptions::default()).await.expect("a stop"),
    }
}
