//! One instance: a process of its own, with a handler for each role that tells what it does.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use nats_elect::{
    BoxError, EventsConfig, FencingToken, LastWillConfig, MemberConfig, RoleConfig, RoleHandler,
    RoleManager, StepDown, StopOptions, Term,
};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use super::Problem;
use super::plan::{Role, Sabotage};
use super::shards::counter::Counter;
use super::shards::{PACE, Shards};
use ::drill::Moment;
use ::drill::driven::orders as orders_of_parent;
use ::drill::journal::{Event, Journal, What};

/// The environment variable with an instance's orders.
pub const ORDERS: &str = "NATS_ELECT_CHAOS_ORDERS";
/// How long handlers and NATS may take at the end.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// Longer than any fault lasts: an instance that is started in the middle of one waits.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two looks at the lease.
const TICK: Duration = Duration::from_millis(10);
/// How late a false end is.
const LATE: Duration = Duration::from_secs(3);
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
    pub journal: PathBuf,
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

/// The instance that these orders describe, until it is stopped.
pub fn main(orders: &str) -> Result<(), Problem> {
    let orders: Orders = serde_json::from_str(orders)?;
    let journal = Arc::new(Journal::create(&orders.journal)?);
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
        .block_on(run(&orders, &journal))
}

async fn run(orders: &Orders, journal: &Arc<Journal>) -> Result<(), Problem> {
    let mut terminate = signal(SignalKind::terminate())?;
    // Each names a role to step down from.
    let mut commands = orders_of_parent::<String>(|| {});
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
    for (unit, role) in (0..).zip(&orders.roles) {
        let worker = Worker {
            unit,
            sabotage: orders.sabotage,
            counter: Counter {
                pace: PACE,
                journal: Arc::clone(journal),
            },
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
    let stop = StopOptions::default().timeout(STOP_TIMEOUT / 2);
    if let Err(error) = manager.stop(stop).await {
        // As it must be for one that is cut off: its leases run out.
        tracing::info!(%error, "stopped, and freed nothing");
    }
    Ok(())
}

/// The handler of a role: it counts like that of a shard, and tells that its term is valid.
struct Worker {
    unit: u32,
    sabotage: Option<Sabotage>,
    counter: Counter,
}

impl RoleHandler for Worker {
    async fn lead(&self, term: Term) -> Result<(), BoxError> {
        let token = term.fencing_token();
        if self.sabotage == Some(Sabotage::Token) {
            let sequence = u64::MAX - token.sequence;
            let greater = FencingToken { sequence, ..token };
            self.lie(Moment::now(), greater, What::Began);
            self.lie(Moment::now(), greater, What::Ended);
        }
        self.work(&term).await;
        if self.sabotage == Some(Sabotage::Overlap) {
            self.lie(Moment::now() + LATE, token, What::Ended);
        }
        Ok(())
    }
}

impl Worker {
    async fn work(&self, term: &Term) {
        let page = self.counter.journal.begin(self.unit, term);
        let count = async {
            // Leads on while NATS takes no counts.
            while self.counter.count(&page, term).await.is_err() {
                tokio::time::sleep(PACE).await;
            }
        };
        let look = async {
            while term.is_valid() {
                page.write(What::Working);
                tokio::time::sleep(TICK).await;
            }
        };
        term.run_until_cancelled(async { tokio::join!(count, look) })
            .await;
        // There is a lease to finish under, and nobody else may lead before this has ended.
        let wind_down = WIND_DOWN * u32::try_from(term.fencing_token().sequence % 3).unwrap_or(0);
        let cancelled = Moment::now();
        while Moment::now().since(cancelled) < wind_down && term.is_valid() {
            page.write(What::Working);
            tokio::time::sleep(TICK).await;
        }
        if self.sabotage == Some(Sabotage::Work) {
            page.write(What::Counted(u64::MAX));
        }
    }

    /// Writes down what is not so.
    fn lie(&self, at: Moment, token: FencingToken, what: What) {
        let event = Event::Term {
            unit: self.unit,
            token,
            until: Some(at),
            what,
        };
        self.counter.journal.write_at(at, event);
    }
}
