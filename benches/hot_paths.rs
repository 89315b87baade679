//! The operations of applications and elections that happen all the time:
//! `cargo bench --bench hot_paths`.
//!
//! `is_leader` is shown beside one reading of the clock, its floor; a step of the core beside
//! nothing, since there is no I/O in it: compare it with the round trips in `peers`.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use async_nats::jetstream::kv;
use async_nats::jetstream::stream::StorageType;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use nats_elect::{
    LeaderProof, LeaseToken, MAX_SKEW, RoleConfig, RoleHandle, RoleManager, SigningKey, Term,
    TrustedKeys, handler_fn,
};
use nats_elect_core::heirs::Heirs;
use nats_elect_core::record::{Content, Entry, FenceEntry, FenceRecord, SeenRecord};
use nats_elect_core::release::ReleaseSecret;
use nats_elect_core::{
    Bucket, Candidate, Effect, Election, Fresh, Input, Link, Moment, Snapshot, Write, WriteKind,
    WriteOutcome,
};
use nats_elect_testing::NatsServer;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use uuid::Uuid;

#[path = "../examples/drill/clock.rs"]
#[expect(dead_code, reason = "nothing is measured with it, but itself")]
mod clock;

const DAY: Duration = Duration::from_secs(86_400);

fn is_leader(criterion: &mut Criterion) {
    let server = NatsServer::start().expect("a private server");
    let runtime = Runtime::new().expect("a runtime");
    let (manager, role, _) = runtime.block_on(leading(&server.url(), None));
    let mut group = criterion.benchmark_group("is_leader");
    group.bench_function("floor: one reading of the clock", |bencher| {
        bencher.iter(clock::Moment::now);
    });
    group.bench_function("one thread", |bencher| {
        bencher.iter(|| assert!(black_box(&role).is_leader()));
    });
    group.bench_function("two threads", |bencher| {
        let done = Arc::new(AtomicBool::new(false));
        let (other, until) = (role.clone(), Arc::clone(&done));
        let other = thread::spawn(move || {
            while !until.load(Ordering::Relaxed) {
                black_box(other.is_leader());
            }
        });
        bencher.iter(|| assert!(black_box(&role).is_leader()));
        done.store(true, Ordering::Relaxed);
        other.join().expect("it only asks");
    });
    group.finish();
    drop(manager);
}

async fn leading(url: &str, key: Option<SigningKey>) -> (RoleManager, RoleHandle, Term) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let handler = handler_fn(move |term: Term| {
        let _ = tell.send(term.clone());
        async move {
            term.cancelled().await;
            Ok(())
        }
    });
    let mut builder = RoleManager::builder().servers(url).bucket_auto_create();
    if let Some(key) = key {
        builder = builder.bucket("signed").signing_key(key);
    }
    let manager = builder
        .role("scheduler", RoleConfig::default(), handler)
        .start()
        .await
        .expect("a manager");
    let role = manager.role("scheduler").expect("the role");
    let term = told.recv().await.expect("a term");
    (manager, role, term)
}

fn core(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("core");
    let mut leader = Machine::new();
    leader.lead();
    group.bench_function("one heartbeat: sent, confirmed", |bencher| {
        bencher.iter(|| leader.heartbeat());
    });
    let mut follower = Machine::new();
    group.bench_function("one heartbeat, seen by a follower", |bencher| {
        let mut beat = 0;
        let next = || {
            beat += 1;
            foreign_record(beat)
        };
        bencher.iter_batched(next, |entry| follower.observe(entry), BatchSize::SmallInput);
    });
    group.finish();
}

/// One election on a clock of its own.
struct Machine {
    election: Election,
    now: Moment,
    /// What stands in the bucket after the claim.
    keys: Snapshot,
    revision: u64,
    /// The good answers to what was asked for.
    answers: Vec<Input>,
}

impl Machine {
    fn new() -> Self {
        let mut config = RoleConfig::default();
        // Hardly anything but heartbeats.
        config.health.interval = Some(DAY);
        config.fencing.validation_interval = Some(DAY);
        let candidate = Candidate {
            instance_id: "node-1".to_owned(),
            incarnation: Uuid::from_u128(1),
            first_beat: 0,
            paused: false,
            settings: config.settings().expect("good settings"),
        };
        let now = Moment::from_nanos(1_000_000_000);
        let mut machine = Self {
            election: Election::new(candidate, now),
            now,
            keys: Snapshot {
                role: None,
                fence: None,
                epoch: Some(1),
                last_sequence: None,
            },
            revision: 0,
            answers: Vec::new(),
        };
        let bucket = Bucket {
            epoch: 1,
            max_age: None,
            unique_sequences: true,
        };
        machine.step(Input::Link(Link::Up(bucket)));
        machine
    }

    fn step(&mut self, input: Input) {
        let fresh = Fresh {
            lease_token: LeaseToken::new(Uuid::from_u128(2)),
            release_secret: ReleaseSecret::new(2),
            chance: 0.5,
        };
        let effects = self.election.step(self.now, fresh, input);
        for effect in &effects {
            match effect {
                Effect::Write(write) => {
                    let answer = self.write(write);
                    self.answers.push(answer);
                }
                Effect::Read { op, .. } => {
                    let outcome = Ok(self.keys.clone());
                    self.answers.push(Input::ReadEnded { op: *op, outcome });
                }
                Effect::CheckHealth { term } => {
                    let (term, healthy) = (*term, true);
                    self.answers.push(Input::Health { term, healthy });
                }
                _ => {}
            }
        }
        black_box(effects);
    }

    fn write(&mut self, write: &Write) -> Input {
        self.revision += 1;
        match &write.kind {
            WriteKind::Claim { record, .. } => {
                self.keys.role = Some(Entry {
                    revision: self.revision,
                    content: Content::parse(&record.to_json()),
                });
            }
            WriteKind::Fence { fence, .. } => {
                self.keys.fence = Some(FenceEntry {
                    revision: self.revision,
                    record: FenceRecord::parse(&fence.to_json()),
                });
            }
            WriteKind::Renew { .. } | WriteKind::Release { .. } => {}
        }
        let revision = self.revision;
        Input::WriteEnded {
            op: write.op,
            outcome: WriteOutcome::Acked { revision },
        }
    }

    /// Claims the role, which nobody ever led.
    fn lead(&mut self) {
        while self.election.status().fencing_token.is_none() {
            match self.answers.pop() {
                Some(answer) => self.step(answer),
                None => self.tick(),
            }
        }
    }

    fn tick(&mut self) {
        let due = self.election.next_wakeup().expect("something is due");
        self.now = self.now.max(due);
        self.step(Input::Tick);
    }

    fn heartbeat(&mut self) {
        self.tick();
        self.now = self.now + Duration::from_millis(1);
        while let Some(answer) = self.answers.pop() {
            self.step(answer);
        }
    }

    fn observe(&mut self, entry: Entry) {
        self.now = self.now + Duration::from_secs(1);
        self.step(Input::Observed(entry));
    }
}

fn foreign_record(beat: u64) -> Entry {
    Entry {
        revision: beat,
        content: Content::Record(Box::new(SeenRecord {
            id: "node-2".to_owned(),
            priority: 0,
            meta: std::collections::BTreeMap::new(),
            ttl: Some(Duration::from_secs(15)),
            incarnation: Some(Uuid::from_u128(3)),
            beat: Some(beat),
            release: None,
            heirs: Heirs::NONE,
            proof: None,
            application: None,
        })),
    }
}

/// Measures a raw update, a heartbeat without and with a signature, and the verification that a
/// follower does for every other heartbeat at most.
#[expect(clippy::disallowed_methods, reason = "a verifier has a wall clock")]
fn signing(criterion: &mut Criterion) {
    let server = NatsServer::start().expect("a private server");
    let runtime = Runtime::new().expect("a runtime");
    let mut group = criterion.benchmark_group("signing");
    let store = runtime.block_on(async {
        let client = async_nats::connect(server.url()).await.expect("connect");
        let config = kv::Config {
            bucket: "raw".to_owned(),
            storage: StorageType::Memory,
            ..Default::default()
        };
        let jetstream = async_nats::jetstream::new(client);
        let made = jetstream.create_key_value(config).await;
        made.expect("a bucket")
    });
    let mut last = runtime.block_on(store.put("key", "".into())).expect("put");
    group.bench_function("floor: one raw update", |bencher| {
        bencher.iter(|| {
            let value = vec![b'x'; 1000].into();
            last = runtime
                .block_on(store.update("key", value, last))
                .expect("an update");
        });
    });
    let (unsigned, role, _) = runtime.block_on(leading(&server.url(), None));
    group.bench_function("a heartbeat, unsigned", |bencher| {
        bencher.iter(|| runtime.block_on(role.validate()).expect("a leader"));
    });
    drop(unsigned);
    let seed = nkeys::KeyPair::new_user().seed().expect("a seed");
    let key = SigningKey::from_seed(&seed).expect("a key");
    let trusted = TrustedKeys::from(key.public_key().clone());
    let (signed, role, term) = runtime.block_on(leading(&server.url(), Some(key)));
    group.bench_function("a heartbeat, signed", |bencher| {
        bencher.iter(|| runtime.block_on(role.validate()).expect("a leader"));
    });
    let at = SystemTime::now();
    let text = term.proof().expect("a signed heartbeat").to_string();
    drop(signed);
    group.bench_function("verify: text to leader", |bencher| {
        bencher.iter(|| {
            let proof: LeaderProof = black_box(&text).parse().expect("a proof");
            proof.verify(&trusted, at, MAX_SKEW).expect("valid")
        });
    });
    group.finish();
}

criterion_group!(benches, is_leader, core, signing);
criterion_main!(benches);
