//! `nats-elect serve` beside the drill: the process, and what is seen of it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use nats_elect::FencingToken;
use nats_elect_testing::NatsCluster;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::time::{interval, timeout};

use super::Problem;
use super::clock::Moment;
use super::history::Writer;
use super::plan::{BUCKET, Plan};
use super::watch::{Told, watch_on};

/// The file with all that was seen.
pub const SIGHTS: &str = "onlooker.jsonl";
/// The pause between two rounds of questions.
const ROUND: Duration = Duration::from_millis(250);
/// No answer for so long is none.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a stream of events is read. Then it is resumed, as after a lost connection.
const STREAM: Duration = Duration::from_secs(60);
const AGAIN: Duration = Duration::from_millis(50);
const MEMORY: Duration = Duration::from_secs(5);

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
        round: u64,
        asked: Moment,
        role: String,
        instance: String,
        token: Option<FencingToken>,
    },
    /// A round of questions is over.
    Round { asked: usize, unanswered: usize },
    /// Memory of `serve` that is resident, in KiB.
    Memory { kib: u64 },
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
    child: Child,
    runtime: Runtime,
}

impl Onlooker {
    /// Starts `serve` and looks at it, and at the bucket, until it is stopped.
    pub fn start(program: &Path, plan: &Plan, cluster: &NatsCluster) -> Result<Self, Problem> {
        let log = File::create(plan.log_of("serve"))?;
        let mut child = Command::new(program)
            .args(["serve", BUCKET, "--listen", "127.0.0.1:0", "--server"])
            .arg(cluster.urls())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let pid = child.id();
        let stdout = child.stdout.take();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let onlooker = Self { child, runtime };
        let mut line = String::new();
        BufReader::new(stdout.ok_or("it has no output")?).read_line(&mut line)?;
        let address = line.trim().strip_prefix("http://");
        let address = address.ok_or("serve did not start: see serve.log")?;
        let address: Arc<str> = address.into();
        let writer = Arc::new(Writer::create(&plan.out.join(SIGHTS))?);
        let told = Arc::new(Told::new(Arc::clone(&writer)));
        let runtime = &onlooker.runtime;
        for node in cluster.nodes() {
            runtime.spawn(watch_on(node.url(), Arc::clone(&told)));
        }
        runtime.spawn(follow_events(Arc::clone(&address), Arc::clone(&writer)));
        let roles = plan.roles.iter();
        let pairs = roles.flat_map(|role| {
            let instances = plan.instance_names().into_iter();
            instances.map(|instance| (role.name.clone(), instance))
        });
        runtime.spawn(ask(address, pairs.collect(), Arc::clone(&writer)));
        runtime.spawn(measure(pid, writer));
        Ok(onlooker)
    }

    /// Ends it. Returns what is wrong if it has ended already.
    pub fn stop(mut self) -> Option<String> {
        let ended = self.child.try_wait().ok().flatten();
        ended.map(|status| format!("serve ended with {status}: see serve.log"))
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Follows the stream of events, and resumes it where it ended.
async fn follow_events(address: Arc<str>, writer: Arc<Writer>) {
    let mut last = None;
    loop {
        let _ = timeout(STREAM, read_events(&address, &mut last, &writer)).await;
        tokio::time::sleep(AGAIN).await;
    }
}

async fn read_events(address: &str, last: &mut Option<String>, writer: &Writer) -> io::Result<()> {
    let mut stream = TcpStream::connect(address).await?;
    let after = last.as_ref();
    let after = after.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
    let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: {address}\r\n{after}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut lines = tokio::io::BufReader::new(stream).lines();
    let (mut id, mut kind) = (String::new(), String::new());
    // Between the chunks of the body nothing looks like these fields.
    while let Some(line) = lines.next_line().await? {
        if let Some(it) = line.strip_prefix("id: ") {
            it.clone_into(&mut id);
        } else if let Some(it) = line.strip_prefix("event: ") {
            it.clone_into(&mut kind);
        } else if let Some(it) = line.strip_prefix("data: ") {
            let data = serde_json::from_str(it).unwrap_or_default();
            let event = event_of(&kind, &data).ok_or_else(|| {
                eprintln!("chaos: serve told an event that can't be read: {kind} {it}");
                io::ErrorKind::InvalidData
            })?;
            writer.write(Sight::Event {
                id: id.clone(),
                event,
            });
            *last = Some(id.clone());
        }
    }
    Ok(())
}

fn event_of(kind: &str, data: &Value) -> Option<Event> {
    let text = |field: &str| data[field].as_str().map(ToOwned::to_owned);
    Some(match kind {
        "hello" => Event::Hello,
        "reload" => Event::Reload,
        "change" => Event::Change {
            role: text("role")?,
            to: serde_json::from_value(data["to"].clone()).ok()?,
            cause: text("cause")?,
        },
        "view" => Event::View {
            current: data["current"].as_bool()?,
        },
        "history" if data["event"] == "term_started" => Event::Started {
            role: text("role")?,
            instance: text("instance_id")?,
            incarnation: text("incarnation")?,
            token: serde_json::from_value(data["fencing_token"].clone()).ok()?,
        },
        _ => Event::Other,
    })
}

/// Asks for all pairs of roles and instances, all at a time, again and again.
async fn ask(address: Arc<str>, pairs: Vec<(String, String)>, writer: Arc<Writer>) {
    let mut rounds = interval(ROUND);
    for round in 0.. {
        rounds.tick().await;
        let questions = pairs.iter().map(async |(role, instance)| {
            let asked = Moment::now();
            let path = format!("/api/v1/leader/{role}/{instance}");
            let answer = timeout(PATIENCE, get(&address, &path)).await;
            let Ok(Ok((status, body))) = answer else {
                return false;
            };
            if status == 200 {
                let token = serde_json::from_value(body["fencing_token"].clone());
                writer.write(Sight::Leads {
                    round,
                    asked,
                    role: role.clone(),
                    instance: instance.clone(),
                    token: token.unwrap_or_default(),
                });
            }
            status == 200 || status == 503
        });
        let answers = join_all(questions).await;
        writer.write(Sight::Round {
            asked: answers.len(),
            unanswered: answers.iter().filter(|answered| !**answered).count(),
        });
    }
}

/// Status and body of an answer.
async fn get(address: &str, path: &str) -> io::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    let (Some(status), Some(body)) = (status, body) else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    Ok((status, serde_json::from_str(body)?))
}

/// Samples the memory of a process, where the system tells it.
async fn measure(pid: u32, writer: Arc<Writer>) {
    let mut samples = interval(MEMORY);
    loop {
        samples.tick().await;
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mut lines = status.lines();
        let resident = lines.find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|it| it.trim().strip_suffix(" kB"));
        if let Some(kib) = kib.and_then(|it| it.parse().ok()) {
            writer.write(Sight::Memory { kib });
        }
    }
}
