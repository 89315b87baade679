//! `nats-elect serve` beside the drill: the process, and what is seen of it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nats_elect::FencingToken;
use nats_elect_testing::{NatsCluster, TcpProxy};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{interval, timeout};

use super::asking::{ask, follow_events, read_nothing};
use super::plan::{BUCKET, Plan};
use super::watch::{Told, watch_on};
use super::{Problem, runtime};
use ::drill::Moment;
use ::drill::journal::Journal;
use ::drill::usage::memory;

/// The file with all that was seen.
pub const SIGHTS: &str = "onlooker.jsonl";
const MEMORY: Duration = Duration::from_secs(5);
/// How long `serve` is left alone between two disturbances.
const REST: Duration = Duration::from_secs(40);

/// What was seen. The moment of its line is when it was received.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sight {
    /// NATS told the drill what stands under a role's key. It was not seen before.
    Told {
        role: String,
        revision: u64,
        leader: Option<Leader>,
    },
    /// NATS had told the drill nothing at all since then.
    Blind { since: Moment },
    /// An event of `serve`. The events of one start are numbered.
    Event { id: String, event: Event },
    /// `serve` answered 200: this instance leads.
    Leads {
        asked: Moment,
        role: String,
        instance: String,
        token: Option<FencingToken>,
    },
    /// A round of questions is over.
    Round { asked: usize, unanswered: usize },
    /// Memory of `serve` that is resident, in KiB.
    Memory { kib: u64 },
    /// That was done to `serve` itself, from then until now.
    Disturbed { how: Disturbance, since: Moment },
}

/// What is done to `serve` itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// It stands still (SIGSTOP).
    Paused,
    /// Nothing passes between it and NATS, and nothing is closed.
    CutOff,
    /// Its connections to NATS are reset, and new ones refused.
    Reset,
}

impl Disturbance {
    const ALL: [Self; 3] = [Self::Paused, Self::CutOff, Self::Reset];

    const fn lasts(self) -> Duration {
        Duration::from_secs(match self {
            Self::Paused => 4,
            Self::CutOff => 10,
            Self::Reset => 3,
        })
    }
}

/// An event of `serve`, as far as it is judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Hello,
    Reload,
    Change {
        role: String,
        to: Option<Leader>,
        cause: String,
    },
    View {
        current: bool,
    },
    Started {
        role: String,
        instance: String,
        incarnation: String,
        token: FencingToken,
    },
    Other,
}

/// A process that leads. Others than ours tell no incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    #[serde(rename = "instance_id")]
    pub id: String,
    pub incarnation: Option<String>,
}

/// The process. Dropping it kills it.
pub struct Onlooker {
    serve: Serve,
    stop: watch::Sender<bool>,
    /// What ends by itself once it is told to stop.
    ending: Vec<JoinHandle<()>>,
    runtime: Runtime,
}

struct Serve(Child);

impl Onlooker {
    /// Starts `serve` and looks at it, and at the bucket, until it is stopped.
    pub fn start(program: &Path, plan: &Plan, cluster: &NatsCluster) -> Result<Self, Problem> {
        let proxies = cluster.nodes().iter();
        let proxies = proxies.map(|node| TcpProxy::start(node.url()));
        let proxies: Vec<_> = proxies.collect::<Result<_, _>>()?;
        let servers: Vec<_> = proxies.iter().map(TcpProxy::url).collect();
        let log = File::create(plan.log_of("serve"))?;
        let mut child = Command::new(program)
            .args(["serve", BUCKET, "--listen", "127.0.0.1:0", "--server"])
            .arg(servers.join(","))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let stdout = child.stdout.take();
        let serve = Serve(child);
        let runtime = runtime()?;
        let mut line = String::new();
        BufReader::new(stdout.ok_or("it has no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://");
        let address = address.ok_or("serve did not start: see serve.log")?;
        let address: Arc<str> = address.into();
        let writer = Arc::new(Journal::create(&plan.out.join(SIGHTS))?);
        let told = Arc::new(Told::new(Arc::clone(&writer)));
        for node in cluster.nodes() {
            runtime.spawn(watch_on(node.url(), Arc::clone(&told)));
        }
        runtime.spawn(follow_events(Arc::clone(&address), Arc::clone(&writer)));
        runtime.spawn(read_nothing(Arc::clone(&address)));
        runtime.spawn(measure(serve.0.id(), Arc::clone(&writer)));
        let roles = plan.roles.iter();
        let pairs = roles.flat_map(|role| {
            let instances = plan.instance_names().into_iter();
            instances.map(|instance| (role.name.clone(), instance))
        });
        let (stop, stopped) = watch::channel(false);
        let pairs = pairs.collect();
        let asking = ask(address, pairs, Arc::clone(&writer), stopped.clone());
        let disturbing = disturb(Pid::from_child(&serve.0), proxies, writer, stopped);
        let ending = vec![runtime.spawn(asking), runtime.spawn(disturbing)];
        Ok(Self {
            serve,
            stop,
            ending,
            runtime,
        })
    }

    /// Ends it when the last question is answered. Returns what is wrong if it has ended already.
    pub fn stop(mut self) -> Option<String> {
        self.stop.send_replace(true);
        for task in self.ending {
            if let Err(error) = self.runtime.block_on(task) {
                return Some(format!("serve can't be watched: {error}"));
            }
        }
        let ended = self.serve.0.try_wait().ok().flatten();
        ended.map(|status| format!("serve ended with {status}: see serve.log"))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does one thing after the other to `serve`, until it is told to stop.
async fn disturb(
    serve: Pid,
    proxies: Vec<TcpProxy>,
    writer: Arc<Journal>,
    mut stopped: watch::Receiver<bool>,
) {
    for how in Disturbance::ALL.into_iter().cycle() {
        if timeout(REST, stopped.wait_for(|it| *it)).await.is_ok() {
            return;
        }
        let since = Moment::now();
        match how {
            Disturbance::Paused => drop(kill_process(serve, Signal::STOP)),
            Disturbance::CutOff => proxies.iter().for_each(TcpProxy::black_hole),
            Disturbance::Reset => proxies.iter().for_each(TcpProxy::cut),
        }
        tokio::time::sleep(how.lasts()).await;
        match how {
            Disturbance::Paused => drop(kill_process(serve, Signal::CONT)),
            Disturbance::CutOff | Disturbance::Reset => {
                proxies.iter().for_each(TcpProxy::restore);
            }
        }
        writer.write(Sight::Disturbed { how, since });
    }
}

/// Samples the memory of a process, where the system tells it.
async fn measure(pid: u32, writer: Arc<Journal>) {
    let mut samples = interval(MEMORY);
    loop {
        samples.tick().await;
        if let Ok(kib) = memory(pid) {
            writer.write(Sight::Memory { kib: kib.into() });
        }
    }
}
