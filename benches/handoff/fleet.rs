//! Instances in this process, each with its own thread and connection, and what they tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::join_all;
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use nats_elect::{Error, RoleConfig, RoleHandler, RoleManager, StepDown, Term, handler_fn};
use tokio::sync::mpsc;

use crate::clock::Moment;
use crate::nats::Nats;

/// A handler that started: on which instance, and when.
pub struct Started {
    pub instance: usize,
    pub at: Moment,
}

/// Instances that stand for one role after the other.
pub struct Fleet {
    managers: Vec<RoleManager>,
    tell: Tell,
    started: mpsc::UnboundedReceiver<Started>,
    ended: mpsc::UnboundedReceiver<Moment>,
}

/// Where handlers tell of their starts and ends.
#[derive(Clone)]
struct Tell {
    started: mpsc::UnboundedSender<Started>,
    ended: mpsc::UnboundedSender<Moment>,
}

impl Fleet {
    /// Connects so many instances; they take part in no election yet.
    pub async fn start(nats: &Nats, bucket: &str, instances: usize) -> Self {
        let (tell_start, started) = mpsc::unbounded_channel();
        let (tell_end, ended) = mpsc::unbounded_channel();
        let tell = Tell {
            started: tell_start,
            ended: tell_end,
        };
        let mut managers = Vec::new();
        for number in 0..instances {
            managers.push(connect(nats, bucket, number).await);
        }
        Self {
            managers,
            tell,
            started,
            ended,
        }
    }

    /// All stand for a role; returns who leads it, once everyone knows.
    pub async fn stand(&mut self, role: &str, config: &RoleConfig) -> usize {
        let standing = (0..self.managers.len()).map(|number| self.stand_one(number, role, config));
        join_all(standing).await;
        let leader = self.started.recv().await.expect("a leader").instance;
        self.settle(role, leader).await;
        leader
    }

    async fn stand_one(&self, number: usize, role: &str, config: &RoleConfig) {
        let manager = &self.managers[number];
        let handler = leading(number, self.tell.clone());
        manager
            .add_role(role, config.clone(), handler)
            .await
            .expect("a role");
    }

    /// All follow whoever leads the role already, under this name.
    pub async fn follow(&mut self, role: &str, config: &RoleConfig, leader: &str) {
        let standing = (0..self.managers.len()).map(|number| self.stand_one(number, role, config));
        join_all(standing).await;
        self.settle_on(role, leader).await;
    }

    /// All leave a role.
    pub async fn leave(&mut self, role: &str) {
        let leaving = self
            .managers
            .iter()
            .map(|manager| manager.remove_role(role));
        for left in join_all(leaving).await {
            left.expect("it stood");
        }
        while self.started.try_recv().is_ok() {}
    }

    /// The leader leaves the role: from the call until the next handler starts. Returns the next
    /// leader too, once everyone knows it.
    pub async fn hand_off(&mut self, role: &str, leader: usize) -> (Duration, usize) {
        let began = Moment::now();
        let leaving = self.managers[leader].remove_role(role);
        let (left, next) = tokio::join!(leaving, self.started.recv());
        left.expect("it led");
        let next = next.expect("a leader");
        self.settle_without(role, next.instance, leader).await;
        (next.at.since(began), next.instance)
    }

    /// The leader hands the role to the next instance, by name. Returns the time from the call, and
    /// from the end of the old handler, until the new one starts.
    pub async fn hand_to_next(&mut self, role: &str, leader: usize) -> (Duration, Duration, usize) {
        let next = (leader + 1) % self.managers.len();
        let handle = self.managers[leader].role(role).expect("it stands");
        let began = loop {
            while self.ended.try_recv().is_ok() {}
            let began = Moment::now();
            match handle.step_down(StepDown::to(name(next))).await {
                Ok(_) => break began,
                // It led not long ago.
                Err(Error::SuccessorRefused { .. }) => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        let ended = self.ended.recv().await.expect("an end");
        let started = self.started.recv().await.expect("a leader");
        self.settle(role, started.instance).await;
        let (whole, gap) = (started.at.since(began), started.at.since(ended));
        (whole, gap, started.instance)
    }

    /// An instance that left a role stands for it again.
    pub async fn rejoin(&self, role: &str, config: &RoleConfig, number: usize) {
        self.stand_one(number, role, config).await;
        let handle = self.managers[number].role(role).expect("it stands");
        handle.wait_for_leader().await.expect("somebody leads");
    }

    /// The next handler that starts.
    pub async fn next_start(&mut self) -> Started {
        self.started.recv().await.expect("a leader")
    }

    async fn settle(&self, role: &str, leader: usize) {
        self.settle_on(role, &name(leader)).await;
    }

    async fn settle_on(&self, role: &str, leader: &str) {
        self.settle_where(role, leader, None).await;
    }

    async fn settle_without(&self, role: &str, leader: usize, left: usize) {
        self.settle_where(role, &name(leader), Some(left)).await;
    }

    async fn settle_where(&self, role: &str, leader: &str, left: Option<usize>) {
        for (number, manager) in self.managers.iter().enumerate() {
            if Some(number) == left {
                continue;
            }
            let handle = manager.role(role).expect("it stands");
            while handle
                .leader()
                .is_none_or(|known| known.instance_id != leader)
            {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

async fn connect(nats: &Nats, bucket: &str, number: usize) -> RoleManager {
    RoleManager::builder()
        .servers(nats.urls())
        .bucket(bucket)
        .bucket_auto_create()
        .replicas(nats.replicas())
        .instance_id(name(number))
        .start()
        .await
        .expect("a manager")
}

fn name(number: usize) -> String {
    format!("node-{number}")
}

fn leading(instance: usize, tell: Tell) -> impl RoleHandler {
    handler_fn(move |term: Term| {
        let _ = tell.started.send(Started {
            instance,
            at: Moment::now(),
        });
        let tell = tell.clone();
        async move {
            term.cancelled().await;
            let _ = tell.ended.send(Moment::now());
            Ok(())
        }
    })
}

/// Counts claims, from the metrics that every instance of this process records.
#[derive(Clone, Debug, Default)]
pub struct Claims {
    won: Arc<AtomicU64>,
    lost: Arc<AtomicU64>,
}

impl Claims {
    /// Installs itself for the whole process.
    pub fn install() -> Self {
        let claims = Self::default();
        // Only the first one counts; there is only one.
        let _ = metrics::set_global_recorder(claims.clone());
        claims
    }

    /// Claims that somebody else's came before.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Recorder for Claims {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "election_acquire_attempts_total" {
            return Counter::noop();
        }
        let status = key.labels().find(|label| label.key() == "status");
        Counter::from_arc(match status.map(metrics::Label::value) {
            Some("confirmed") => Arc::clone(&self.won),
            _ => Arc::clone(&self.lost),
        })
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
