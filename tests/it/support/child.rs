//! Instances in processes of their own, to be killed, paused and cut off.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use nats_elect::{
    BoxError, FencingToken, Group, MemberConfig, Overrun, RoleManager, StepDown, Storage, Term,
    handler_fn,
};
use nats_elect_testing::eventually;
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::clock::Stamp;
use super::journal::{Journal, RecordedTerm, Running};
use super::member::GROUP;
use super::{BUCKET, ROLE, SOON, leased_for};

const ORDERS: &str = "NATS_ELECT_TEST_CHILD";
/// A thread that looks at its clock all the time and sees it jump so far was not running meanwhile.
const GAP: Duration = Duration::from_millis(250);

/// What a child does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    pub url: String,
    pub id: String,
    pub ttl: Duration,
    pub overrun: Overrun,
    pub work: Work,
    /// Whether it takes part in the group of most tests, with one shard, in place of the role.
    pub is_member: bool,
    /// The test that is the child's own program: it calls [`run`].
    pub program: String,
}

/// What a child's handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Ends when it is told to.
    Obey,
    /// Blocks its thread and acts all the time, whatever it is told.
    Block,
}

/// What a child tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Told {
    Started(String, FencingToken, u64),
    /// The handler is still at it.
    Acted(u64),
    Ended(u64),
    /// What the program tells besides.
    Noted(String),
    /// The process had stood still for that long; what it then thought of its leadership.
    Resumed {
        gap: Duration,
        is_leader: bool,
    },
}

/// An instance in a process of its own. Its handler is in the journal like any other.
pub struct ChildInstance {
    child: Child,
    heard: Arc<Mutex<Heard>>,
    hearing: thread::JoinHandle<()>,
}

#[derive(Default)]
struct Heard {
    running: Option<Running>,
    last_act: Option<Stamp>,
    resumed: Vec<(Duration, bool)>,
    notes: Vec<String>,
}

impl Orders {
    pub fn new(id: &str, url: impl Into<String>, ttl: Duration) -> Self {
        Self {
            url: url.into(),
            id: id.to_owned(),
            ttl,
            overrun: Overrun::Abort,
            work: Work::Obey,
            is_member: false,
            program: "support::child::child_process".to_owned(),
        }
    }
}

impl ChildInstance {
    pub fn start(orders: &Orders, journal: &Journal) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", &orders.program])
            .args(["--ignored", "--nocapture"])
            .env(ORDERS, serde_json::to_string(orders).expect("orders"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start a child");
        let heard = Arc::<Mutex<Heard>>::default();
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (id, journal, ears) = (orders.id.clone(), journal.clone(), Arc::clone(&heard));
        let hearing = thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if let Some(told) = line.strip_prefix('@') {
                    let told = serde_json::from_str(told).expect("a child's word");
                    ears.lock().expect("no panic").hear(told, &id, &journal);
                }
            }
        });
        Self {
            child,
            heard,
            hearing,
        }
    }

    /// Kills it as a power cut would, and returns when that was.
    pub fn kill(&mut self) -> Stamp {
        let at = Stamp::now();
        self.child.kill().expect("kill");
        self.child.wait().expect("reap");
        if let Some(running) = self.heard.lock().expect("no panic").running.take() {
            running.end_at(Stamp::now());
        }
        at
    }

    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    pub fn step_down(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "step down").expect("a living child");
    }

    /// Waits for its end, and returns with what and when its handler acted last.
    pub async fn exited(&mut self) -> (ExitStatus, Stamp) {
        let status = eventually(SOON, "the child's end", async || {
            self.child.try_wait().expect("a child")
        })
        .await;
        eventually(SOON, "its last word", async || {
            self.hearing.is_finished().then_some(())
        })
        .await;
        let mut heard = self.heard.lock().expect("no panic");
        let acted = heard.last_act.expect("a handler that acted");
        if let Some(running) = heard.running.take() {
            running.end_at(acted);
        }
        (status, acted)
    }

    /// Waits until it has found that it had stood still for at least that long, and returns what it
    /// then thought of its leadership at its first look.
    pub async fn resumed_after(&self, pause: Duration) -> bool {
        eventually(SOON, "a word of the resumed child", async || {
            let heard = self.heard.lock().expect("no panic");
            let mut resumed = heard.resumed.iter();
            resumed.find(|(gap, _)| *gap >= pause).map(|found| found.1)
        })
        .await
    }

    /// What it noted so far.
    pub fn notes(&self) -> Vec<String> {
        self.heard.lock().expect("no panic").notes.clone()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("a living child");
    }
}

impl Drop for ChildInstance {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Heard {
    fn hear(&mut self, told: Told, id: &str, journal: &Journal) {
        match told {
            Told::Started(role, fencing_token, start) => {
                self.running = Some(journal.enter_term(RecordedTerm {
                    role,
                    instance: id.to_owned(),
                    fencing_token,
                    start: Stamp::from_nanos(start),
                    end: None,
                    term: None,
                }));
            }
            Told::Acted(at) => self.last_act = Some(Stamp::from_nanos(at)),
            Told::Ended(end) => {
                if let Some(running) = self.running.take() {
                    running.end_at(Stamp::from_nanos(end));
                }
            }
            Told::Noted(note) => self.notes.push(note),
            Told::Resumed { gap, is_leader } => self.resumed.push((gap, is_leader)),
        }
    }
}

/// Not a test: the child.
#[test]
#[ignore = "run by other tests in a process of its own"]
fn child_process() {
    run(perform);
}

async fn perform(term: Term, work: Work) {
    match work {
        Work::Obey => term.cancelled().await,
        Work::Block => loop {
            tell(&Told::Acted(Stamp::now().as_nanos()));
            thread::sleep(Duration::from_millis(1));
        },
    }
}

/// Whether this process is a child.
pub fn is_ordered() -> bool {
    std::env::var_os(ORDERS).is_some()
}

/// Tells the parent something.
pub fn note(note: String) {
    tell(&Told::Noted(note));
}

/// Obeys the parent in this process, with this handler. Does nothing if the test harness started
/// it.
pub fn run<F, Fut>(handler: F)
where
    F: Fn(Term, Work) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    run_by(ORDERS, |orders| obey(orders, handler));
}

/// Obeys the parent's orders in the variable of this name. Does nothing if the test harness started
/// this process.
pub fn run_by<O: DeserializeOwned, Fut: Future<Output = ()>>(
    variable: &str,
    obey: impl FnOnce(O) -> Fut,
) {
    let Ok(orders) = std::env::var(variable) else {
        return;
    };
    let orders = serde_json::from_str(&orders).expect("orders");
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(obey(orders));
}

async fn obey<F, Fut>(orders: Orders, handler: F)
where
    F: Fn(Term, Work) -> Fut + Copy + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let work = orders.work;
    let handler = handler_fn(move |term| lead(term, move |term| handler(term, work)));
    let builder = RoleManager::builder()
        .servers(&orders.url)
        .bucket(BUCKET)
        .bucket_auto_create()
        .storage(Storage::Memory)
        .instance_id(&orders.id);
    if orders.is_member {
        let lease = MemberConfig::default().ttl(orders.ttl);
        let shard = Group::sharded(GROUP, 1, handler);
        let _member = builder.member(lease).group(shard).start().await;
        // Until the parent ends it.
        return std::future::pending().await;
    }
    let settings = leased_for(orders.ttl).overrun(orders.overrun);
    let manager = builder.role(ROLE, settings, handler).start().await;
    let manager = manager.expect("start");
    let role = manager.role(ROLE).expect("the role");
    let watched = role.clone();
    thread::spawn(move || {
        let mut last = Stamp::now();
        loop {
            let now = Stamp::now();
            let is_leader = watched.is_leader();
            if now.since(last) >= GAP {
                let gap = now.since(last);
                tell(&Told::Resumed { gap, is_leader });
            }
            last = now;
            thread::sleep(Duration::from_millis(1));
        }
    });
    let (order, mut orders) = tokio::sync::mpsc::unbounded_channel();
    // Ends with the parent, which holds the other end.
    thread::spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            let _ = order.send(line);
        }
    });
    while let Some(order) = orders.recv().await {
        assert_eq!(order, "step down");
        let role = role.clone();
        tokio::spawn(async move { role.step_down(StepDown::any()).await });
    }
    std::process::exit(0);
}

async fn lead<Fut>(term: Term, handler: impl FnOnce(Term) -> Fut) -> Result<(), BoxError>
where
    Fut: Future<Output = ()>,
{
    tell(&Told::Started(
        term.role().to_owned(),
        term.fencing_token(),
        Stamp::now().as_nanos(),
    ));
    let _end = TellEnd;
    handler(term).await;
    Ok(())
}

struct TellEnd;

impl Drop for TellEnd {
    fn drop(&mut self) {
        tell(&Told::Ended(Stamp::now().as_nanos()));
    }
}

fn tell(told: &Told) {
    let line = serde_json::to_string(told).expect("a word");
    // In one piece, past the test harness: other threads tell things too.
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(format!("\n@{line}\n").as_bytes());
    let _ = out.flush();
}
