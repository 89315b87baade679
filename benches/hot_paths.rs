//! The operations of applications and elections that happen all the time:
//! `cargo bench --bench hot_paths`.
//!
//! `is_leader` is shown beside one reading of the clock, its floor, and a heartbeat beside a raw update.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::SystemTime;

use async_nats::jetstream::kv;
use async_nats::jetstream::stream::StorageType;
use criterion::{Criterion, criterion_group, criterion_main};
use nats_elect::{RoleConfig, RoleHandle, RoleManager, Term, handler_fn};
use nats_elect_signing::{LeaderProof, SigningBuilder, SigningKey, TrustedKeys};
use nats_elect_testing::NatsServer;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

fn is_leader(criterion: &mut Criterion) {
    let server = NatsServer::start().expect("a private server");
    let runtime = Runtime::new().expect("a runtime");
    let (manager, role, _) = runtime.block_on(leading(&server.url(), None));
    let mut group = criterion.benchmark_group("is_leader");
    group.bench_function("floor: one reading of the clock", |bencher| {
        bencher.iter(drill::Moment::now);
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
    let text = term.proof().expect("a signed heartbeat");
    drop(signed);
    group.bench_function("verify: text to leader", |bencher| {
        bencher.iter(|| {
            let proof: LeaderProof = black_box(&text).parse().expect("a proof");
            proof
                .verify(&trusted, at, LeaderProof::MAX_SKEW)
                .expect("valid")
        });
    });
    group.finish();
}

criterion_group!(benches, is_leader, signing);
criterion_main!(benches);
