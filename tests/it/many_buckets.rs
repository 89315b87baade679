//! Buckets that are replaced again and again under members that run throughout.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use nats_elect::{Group, RoleHandler, RoleManager, handler_fn};
use nats_elect_testing::{NatsServer, TcpProxy, eventually};
use rand::random_range;

use crate::replaced_buckets::Replaced;
use crate::support::bucket::Stranger;
use crate::support::clock::Stamp;
use crate::support::member::{GROUP, LEASE, all_owned, group, joining, stop};
use crate::support::{SOON, ms};

const SHARDS: u32 = 8;
/// Members wait for the longest lease from when they noticed. The last one is cut off for a lease.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many handlers of each shard run, and how often one began beside another.
#[derive(Default)]
struct Counts {
    running: [AtomicUsize; SHARDS as usize],
    overlaps: AtomicUsize,
}

/// A running handler of a shard.
struct Running(Arc<Counts>, usize);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running[self.1].fetch_sub(1, Ordering::SeqCst);
    }
}

fn counted(counts: &Arc<Counts>) -> impl RoleHandler + use<> {
    let counts = Arc::clone(counts);
    handler_fn(move |term| {
        let shard = term.shard().expect("a shard") as usize;
        if counts.running[shard].fetch_add(1, Ordering::SeqCst) > 0 {
            counts.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let running = Running(Arc::clone(&counts), shard);
        async move {
            term.cancelled().await;
            drop(running);
            Ok(())
        }
    })
}

/// Moves a few shards. Some stay: the plan may forbid it.
async fn stir(members: &[RoleManager]) {
    for _ in 0..3 {
        let unit = random_range(0..SHARDS).to_string();
        let to = members[random_range(0..members.len())].instance_id();
        drop(group(&members[0]).move_unit(&unit, to).await);
    }
}

/// Returns how often two handlers of a shard ran at one time.
async fn overlaps(kind: Replaced, rounds: usize) -> usize {
    let mut server = NatsServer::start().expect("start");
    let stranger = Stranger::connect(&server.url()).await;
    let counts = Arc::<Counts>::default();
    let (mut proxies, mut members) = (Vec::new(), Vec::new());
    for number in 0..3 {
        let proxy = TcpProxy::start(server.url()).expect("start");
        let shards = Group::sharded(GROUP, SHARDS, counted(&counts));
        let member = joining(&proxy.url(), &format!("m{number}"), shards);
        members.push(member.storage(kind.storage()).start().await.expect("start"));
        proxies.push(proxy);
    }
    let refs: Vec<_> = members.iter().collect();
    all_owned(&refs, SHARDS).await;
    for round in 0..rounds {
        let backup = kind.backup(&stranger).await;
        stir(&members).await;
        for proxy in &proxies {
            match random_range(0..6) {
                0 => proxy.black_hole(),
                1 => proxy.cut(),
                _ => {}
            }
        }
        let replaced_at = Stamp::now();
        kind.happen(&mut server, &stranger, backup).await;
        tokio::time::sleep(LEASE.mul_f64(random_range(0.0..1.0))).await;
        proxies.iter().for_each(TcpProxy::restore);
        // By then no handler runs that began before.
        tokio::time::sleep(LEASE + ms(1000)).await;
        eventually(PATIENCE, "an owner for each shard", async || {
            let runs = |it: &AtomicUsize| it.load(Ordering::SeqCst) > 0;
            counts.running.iter().all(runs).then_some(())
        })
        .await;
        let took = Stamp::now().since(replaced_at);
        eprintln!("REPLACED {kind:?} {round}: owned again after {took:?}");
    }
    eventually(SOON, "members", async || {
        let joined = |it: &RoleManager| group(it).has_joined();
        members.iter().all(joined).then_some(())
    })
    .await;
    for member in members {
        stop(member).await;
    }
    counts.overlaps.load(Ordering::SeqCst)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "takes minutes: NATS_ELECT_REPLACED_ROUNDS says how many rounds of each kind, on two servers each"]
async fn members_that_run_throughout_never_share_a_unit_of_a_replaced_bucket() {
    let rounds = std::env::var("NATS_ELECT_REPLACED_ROUNDS");
    let rounds: usize = rounds.map_or(1, |it| it.parse().expect("a number"));
    let kinds = [Replaced::Deleted, Replaced::Restarted, Replaced::Restored].repeat(2);
    let found = join_all(kinds.iter().map(|kind| overlaps(*kind, rounds))).await;
    assert_eq!(found.iter().sum::<usize>(), 0, "{kinds:?}: {found:?}");
}
