//! A process that leads a role, with a companion, until something ends it.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nats_elect::{
    LastWillConfig, LastWillStatus, ManagerConfig, RoleConfig, RoleManager, StopOptions, Term,
    handler_fn,
};
use nats_elect_signing::{SigningBuilder, SigningKey};
use nats_elect_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::bound::Bond;
use crate::clock::Stamp;
use crate::groups;
use crate::notes::{Notes, PACE};
use crate::stage::SOON;

const ORDERS: &str = "NATS_ELECT_TEST_VICTIM";

#[derive(Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "one switch for each wish")]
pub struct Orders {
    pub config: ManagerConfig,
    pub roles: Vec<String>,
    /// Whether it takes part in a group of shards.
    pub has_shards: bool,
    pub ttl: Duration,
    /// Where the handlers note when one of them acted last.
    pub acts: PathBuf,
    /// Signs what it leads with.
    pub signing_seed: Option<String>,
    /// It has no input, and is not to take that for the end of the test.
    pub is_deaf: bool,
    /// Nobody may look into it, and it gets no privileges.
    pub is_private: bool,
    /// Whether the handler starts processes of its own, which act as well.
    pub has_bound: bool,
}

/// How a process comes to be a victim.
#[derive(Clone, Default)]
pub struct Birth {
    /// The words before the program, such as those of a shell that sets a limit.
    pub through: Vec<String>,
    /// Whether the handler starts processes of its own.
    pub has_bound: bool,
}

impl Birth {
    /// By a script, with the program as its `$0`.
    pub fn through(words: &[&str]) -> Self {
        Self {
            through: words.iter().map(ToString::to_string).collect(),
            ..Self::default()
        }
    }
}

/// The process, seen from the outside.
pub struct Victim {
    child: Child,
    acts: PathBuf,
    has_bound: bool,
}

impl Orders {
    pub fn new(config: &ManagerConfig, role: &str, ttl: Duration, folder: &Path) -> Self {
        let last_will = LastWillConfig::on();
        Self {
            config: config.clone().last_will(last_will).instance_id("victim"),
            roles: vec![role.to_owned()],
            has_shards: false,
            ttl,
            acts: folder.join(role),
            signing_seed: None,
            is_deaf: false,
            is_private: false,
            has_bound: false,
        }
    }

    /// The file that exists once the process leads and its companion is ready.
    fn leads(&self) -> PathBuf {
        self.acts.with_extension("leads")
    }

    /// All files with notes of acts.
    fn all_acts(acts: &Path, has_bound: bool) -> Vec<PathBuf> {
        let bound = Bond::ALL.into_iter().filter(|_| has_bound);
        let bound = bound.map(|bond| bond.acts(acts));
        bound.chain([acts.to_path_buf()]).collect()
    }
}

/// The file that exists once a handler has ended.
fn ended(acts: &Path) -> PathBuf {
    acts.with_extension("ended")
}

impl Victim {
    /// Starts it, and waits until it leads and its companion is ready.
    pub async fn start(config: &ManagerConfig, role: &str, ttl: Duration, folder: &Path) -> Self {
        Self::of(&Orders::new(config, role, ttl, folder)).await
    }

    /// As `start`, with all that can be chosen.
    pub async fn born(
        birth: Birth,
        config: &ManagerConfig,
        role: &str,
        ttl: Duration,
        folder: &Path,
    ) -> Self {
        let orders = Orders {
            has_bound: birth.has_bound,
            ..Orders::new(config, role, ttl, folder)
        };
        let program = std::env::current_exe().expect("this program");
        let Some((first, others)) = birth.through.split_first() else {
            return Self::of(&orders).await;
        };
        Self::run(Command::new(first).args(others).arg(program), &orders).await
    }

    pub async fn of(orders: &Orders) -> Self {
        let program = std::env::current_exe().expect("this program");
        Self::run(&mut Command::new(program), orders).await
    }

    /// Starts it by this command.
    pub async fn run(command: &mut Command, orders: &Orders) -> Self {
        // An earlier process may have left it.
        let _ = std::fs::remove_file(orders.leads());
        let child = command
            .env(ORDERS, serde_json::to_string(orders).expect("orders"))
            .stdin(Stdio::piped())
            .spawn()
            .expect("a process");
        let mut victim = Self {
            child,
            acts: orders.acts.clone(),
            has_bound: orders.has_bound,
        };
        eventually(SOON, "leadership of the process", async || {
            let ended = victim.child.try_wait().expect("its state");
            assert_eq!(ended, None, "it has ended");
            orders.leads().exists().then_some(())
        })
        .await;
        victim
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

    /// Waits until its handler has ended, as far as it knows.
    pub async fn has_ended(&self) {
        eventually(SOON, "the handler's end", async || {
            ended(&self.acts).exists().then_some(())
        })
        .await;
    }

    /// Checks that its handler has ended, and the processes of that, when the next one started.
    pub fn acts_were_before(&self, started: Stamp) {
        for acts in Orders::all_acts(&self.acts, self.has_bound) {
            let last = Notes::last(&acts);
            let overlap = last.since(started);
            let acts = acts.display();
            assert!(last < started, "two at once for {overlap:?}: {acts}");
        }
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
    #[cfg(target_os = "linux")]
    if orders.is_private {
        let private = rustix::process::DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(private).expect("privacy");
        rustix::thread::set_no_new_privs(true).expect("no privileges");
    }
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
    let leads = orders.leads();
    let acts = &orders.acts;
    let notes = Arc::new(Notes::at(acts));
    let pace = PACE * u32::try_from(orders.roles.len()).expect("a few");
    let handler = || {
        let (notes, acts) = (Arc::clone(&notes), acts.clone());
        let has_bound = orders.has_bound;
        handler_fn(move |term: Term| {
            let (notes, acts) = (Arc::clone(&notes), acts.clone());
            let bound = has_bound.then(|| Bond::ALL.map(|bond| bond.begin(&acts)));
            async move {
                let _tell = TellEnd(acts);
                loop {
                    // The clock is read before the look at the lease.
                    let now = Stamp::now();
                    if !term.is_valid() || term.is_cancelled() {
                        break;
                    }
                    notes.write(now);
                    tokio::time::sleep(pace).await;
                }
                drop(bound);
                Ok(())
            }
        })
    };
    let mut builder = RoleManager::builder().config(orders.config.clone());
    for role in &orders.roles {
        builder = builder.role(role, RoleConfig::default().ttl(orders.ttl), handler());
    }
    if orders.has_shards {
        builder = builder.group(groups::of_victim(&notes));
    }
    if let Some(seed) = &orders.signing_seed {
        let key = SigningKey::from_seed(seed);
        builder = builder.signing_key(key.expect("a key"));
    }
    let manager = builder.start().await.expect("a manager");
    let roles = orders
        .roles
        .iter()
        .map(|role| manager.role(role).expect("the role"));
    let roles: Vec<_> = roles.collect();
    eventually(
        SOON,
        "leadership with a companion that is ready",
        async || {
            let is_ready = manager.last_will() == Some(LastWillStatus::Ready);
            let leads = roles.iter().all(nats_elect::RoleHandle::is_leader);
            let has_share = !orders.has_shards || groups::has_share(&manager);
            (is_ready && leads && has_share).then_some(())
        },
    )
    .await;
    for acts in Orders::all_acts(acts, orders.has_bound) {
        eventually(SOON, "an act", async || {
            let notes = std::fs::metadata(&acts);
            notes.is_ok_and(|it| it.len() > 0).then_some(())
        })
        .await;
    }
    File::create(leads).expect("a file");
    let order = tokio::task::spawn_blocking(move || {
        let mut order = String::new();
        let _ = std::io::stdin().read_line(&mut order);
        if orders.is_deaf {
            std::thread::sleep(SOON * 2);
        }
        order
    });
    match order.await.expect("no panic").trim() {
        "abort" => std::process::abort(),
        "exit" => std::process::exit(3),
        "exec" => {
            use std::os::unix::process::CommandExt;
            panic!("{}", Command::new("sleep").arg("600").exec());
        }
        "panic" => {
            // As a program does that was built with `panic = "abort"`, if this one was not.
            #[cfg(panic = "unwind")]
            std::panic::set_hook(Box::new(|_| std::process::abort()));
            panic!("as ordered");
        }
        "no memory" | "out of memory" => take_all_memory(),
        "await a companion" => {}
        _ => manager.stop(StopOptions::default()).await.expect("a stop"),
    }
}

/// Also where the handler's future is dropped.
struct TellEnd(PathBuf);

impl Drop for TellEnd {
    fn drop(&mut self) {
        let _ = File::create(ended(&self.0));
    }
}

fn take_all_memory() {
    let mut taken = Vec::new();
    loop {
        taken.push(std::hint::black_box(vec![1_u8; 4 << 20]));
    }
}
