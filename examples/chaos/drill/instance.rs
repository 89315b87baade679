//! One instance: a process of its own, with a handler for each role that tells what it does.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::ConnectOptions;
use nats_elect::{
    BoxError, EventsConfig, FencingToken, LastWillConfig, MemberConfig, RoleConfig, RoleHandler,
    RoleManager, StepDown, StopOptions, Term,
};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tracing_subscriber::EnvFilter;

use super::Problem;
use super::history::What;
use super::ledger::{Entry, Ledger};
use super::plan::{Role, Sabotage};
use super::shards::counter::Counter;
use super::shards::{PACE, Shards};
use ::drill::Moment;
use ::drill::journal::Journal;

/// The environment variable with an instance's orders.
pub const ORDERS: &str = "NATS_ELECT_CHAOS_ORDERS";
/// How long handlers and NATS may take at the end.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// Longer than any fault lasts: an instance that is started in the middle of one waits.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two looks at the lease.
const TICK: Duration = Duration::from_millis(5);
/// A piece of work each so many looks.
const WORK_EVERY: u64 = 4;
/// How long reports of terms are kept.
const KEEP: Duration = Duration::from_secs(3600);
/// Handlers take up to two of these to wind down, and lead meanwhile.
const WIND_DOWN: Duration = Duration::from_millis(100);

/// All that an instance is told.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Orders {
    pub instance: String,
    pub process: u32,
    pub servers: Vec<String>,
    pub bucket: String,
    pub replicas: usize,
    pub roles: Vec<Role>,
    /// Nothing if it takes part in no group.
    pub shards: Option<Membership>,
    pub history: PathBuf,
    pub ledgers: PathBuf,
    pub sabotage: Option<Sabotage>,
    /// Whether it has a companion.
    pub last_will: bool,
    /// Whether terms are reported, and the reports kept for a while.
    pub publish: bool,
}

/// What an instance is told of the group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Membership {
    pub shards: u32,
    pub ttl: Duration,
    pub journal: PathBuf,
}

/// The instance that the environment describes, until it is stopped.
pub fn main() -> Result<(), Problem> {
    let orders = std::env::var(ORDERS).map_err(|_| "this is no command for people")?;
    let orders: Orders = serde_json::from_str(&orders)?;
    let history = Arc::new(Journal::create(&orders.history)?);
    history.write(What::Started {
        instance: orders.instance.clone(),
        process: orders.process,
    });
    tracing_subscriber::fmt()
        .with_env_filter(
            EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("nats_elect=info")),
        )
        .with_ansi(false)
        .with_writer(io::stderr)
        .init();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(run(&orders, &history))
}

async fn run(orders: &Orders, history: &Arc<Journal>) -> Result<(), Problem> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut commands = commands();
    let terms = Arc::new(AtomicU32::new(0));
    let mut builder = RoleManager::builder()
        .servers(orders.servers.join(","))
        .bucket(&orders.bucket)
        .bucket_auto_create()
        .replicas(orders.replicas)
        .start_timeout(START_TIMEOUT)
        .instance_id(&orders.instance);
    builder = if orders.last_will {
        // The nodes tell of no other ways to them either, which would lead around the faults.
        builder.last_will(LastWillConfig::on())
    } else {
        builder.connect_options(ConnectOptions::new().ignore_discovered_servers())
    };
    if orders.publish {
        builder = builder.events(EventsConfig::default().keep(KEEP));
    }
    for role in &orders.roles {
        let worker = Worker {
            role: role.name.clone(),
            orders: orders.clone(),
            history: Arc::clone(history),
            terms: Arc::clone(&terms),
        };
        builder = builder.role(&role.name, RoleConfig::default().ttl(role.ttl), worker);
    }
    if let Some(of) = &orders.shards {
        let counter = Counter {
            pace: PACE,
            journal: Arc::new(Journal::create(&of.journal)?),
        };
        builder = builder
            .member(MemberConfig::default().ttl(of.ttl))
            .group(Shards::group(of.shards, counter));
    }
    let manager = tokio::select! {
        started = builder.start() => started?,
        _ = terminate.recv() => return Ok(()),
    };
    history.write(What::Standing);
    loop {
        tokio::select! {
            _ = terminate.recv() => break,
            command = commands.recv() => match command {
                Some(role) => {
                    let role = manager.role(&role)?;
                    tokio::spawn(async move { role.step_down(StepDown::any()).await });
                }
                // Nobody is left to live for.
                None => break,
            },
        }
    }
    let stopped = manager
        .stop(StopOptions::default().timeout(STOP_TIMEOUT / 2))
        .await;
    if let Err(error) = stopped {
        // As it must be for one that is cut off: its leases run out.
        tracing::info!(%error, "stopped, and freed nothing");
    }
    history.write(What::Stopped);
    Ok(())
}

/// Lines of standard input: each names a role to step down from. Ends with the process that holds
/// the other end.
fn commands() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    // A thread of its own: tokio would wait for its blocking read at the end of the runtime.
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

/// The handler of a role.
struct Worker {
    role: String,
    orders: Orders,
    history: Arc<Journal>,
    /// Numbers the terms of this process.
    terms: Arc<AtomicU32>,
}

impl RoleHandler for Worker {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let number = self.terms.fetch_add(1, Ordering::Relaxed);
        let mut shift = Shift::begin(self, number, self.token_of(&term))?;
        while !term.is_cancelled() {
            if !shift.look(&term)? {
                break;
            }
            term.run_until_cancelled(tokio::time::sleep(TICK)).await;
        }
        // There is a lease to finish under, and nobody else may lead before this has ended.
        let wind_down = WIND_DOWN * (number % 3);
        let cancelled = Moment::now();
        while Moment::now().since(cancelled) < wind_down && shift.look(&term)? {
            tokio::time::sleep(TICK).await;
        }
        self.history.write(What::Ended(number));
        if self.orders.sabotage == Some(Sabotage::Overlap) {
            tokio::spawn(shift.go_on());
        }
        Ok(())
    }
}

impl Worker {
    fn token_of(&self, term: &Term) -> FencingToken {
        let mut token = term.fencing_token();
        if self.orders.sabotage == Some(Sabotage::Token) {
            token.sequence = u64::MAX - token.sequence;
        }
        token
    }
}

/// What one term has done.
struct Shift {
    number: u32,
    token: FencingToken,
    instance: String,
    sabotage: Option<Sabotage>,
    history: Arc<Journal>,
    ledger: Ledger,
    looks: u64,
    /// The last piece of work; none before the first look.
    done: Option<u64>,
}

impl Shift {
    fn begin(worker: &Worker, number: u32, token: FencingToken) -> io::Result<Self> {
        worker.history.write(What::Leading {
            term: number,
            role: worker.role.clone(),
            token,
        });
        Ok(Self {
            number,
            token,
            instance: worker.orders.instance.clone(),
            sabotage: worker.orders.sabotage,
            history: Arc::clone(&worker.history),
            ledger: Ledger::open(&worker.orders.ledgers, &worker.role)?,
            looks: 0,
            done: None,
        })
    }

    /// Looks whether the term is valid, and if so acts as the leader. The order is what makes the
    /// history exact: the clock first, then the question. Between the answer and the work this
    /// process may be paused for any time.
    fn look(&mut self, term: &Term) -> io::Result<bool> {
        let at = Moment::now();
        if !term.is_valid() {
            return Ok(false);
        }
        self.act(at)?;
        Ok(true)
    }

    fn act(&mut self, at: Moment) -> io::Result<()> {
        self.history.write_at(at, What::Valid(self.number));
        let done = match self.done {
            Some(done) => done,
            None => self.ledger.begin(&self.entry(at, None))?,
        };
        self.done = Some(done);
        if self.looks.is_multiple_of(WORK_EVERY) {
            let number = done + 1;
            let skipped = self.sabotage == Some(Sabotage::Work) && number.is_multiple_of(100);
            if !skipped {
                self.ledger.append(&self.entry(at, Some(number)))?;
            }
            self.done = Some(number);
            self.history.write(What::Worked {
                term: self.number,
                number,
            });
        }
        self.looks += 1;
        Ok(())
    }

    fn entry(&self, at: Moment, number: Option<u64>) -> Entry {
        Entry {
            at,
            token: self.token,
            number,
            instance: self.instance.clone(),
        }
    }

    /// Sabotage: what an application does that spawns its work and forgets about it.
    async fn go_on(mut self) {
        for _ in 0..600 {
            if self.act(Moment::now()).is_err() {
                return;
            }
            tokio::time::sleep(TICK).await;
        }
    }
}
