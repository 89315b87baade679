//! A process that owns shards of a group dies, and another instance owns them next.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use nats_elect::{Group, ManagerConfig, RoleManager, StopOptions, Storage, Term, handler_fn};
use nats_elect_testing::{NatsServer, eventually};
use tokio::sync::mpsc;

use crate::clock::Stamp;
use crate::ends::Test;
use crate::notes::{Notes, PACE};
use crate::stage::SOON;
use crate::took::{LONG, rounds, tell};
use crate::victim::{Orders, Victim};

pub const TESTS: &[(&str, Test)] = &[("the_units_of_a_killed_process_are_not_waited_for", || {
    Box::pin(killed())
})];

const GROUP: &str = "partitions";
const SHARDS: u32 = 384;
/// The victim is to have so many of them at least.
pub const SHARE: usize = 100;

/// The group of a victim. Each of its handlers has a place for its last act.
pub fn of_victim(notes: &Arc<Notes>) -> Group {
    let notes = Arc::clone(notes);
    let handler = handler_fn(move |term: Term| {
        let notes = Arc::clone(&notes);
        async move {
            let shard = term.shard().expect("a shard");
            loop {
                // The clock is read before the look at the lease.
                let now = Stamp::now();
                if !term.is_valid() || term.is_cancelled() {
                    return Ok(());
                }
                notes.write_in(shard, now);
                tokio::time::sleep(PACE * SHARDS).await;
            }
        }
    });
    Group::sharded(GROUP, SHARDS, handler)
}

/// Whether a victim has its share.
pub fn has_share(manager: &RoleManager) -> bool {
    mine(manager).len() >= SHARE
}

async fn killed() {
    let (mut last, mut all) = (Vec::new(), Vec::new());
    for _ in 0..rounds(1) {
        let took = killed_once().await;
        last.extend(took.iter().max());
        all.extend(took);
    }
    tell("SIGKILL, each shard", all);
    tell("SIGKILL, the last shard", last);
}

/// Returns after how long each shard of the victim had its next handler.
async fn killed_once() -> Vec<Duration> {
    let server = NatsServer::start().expect("a server");
    let folder = tempfile::tempdir().expect("a folder");
    let config = ManagerConfig::default()
        .servers(server.url())
        .bucket_auto_create()
        .storage(Storage::Memory);
    let (tell, mut started) = mpsc::unbounded_channel();
    // One of them plans, and tells the other one what to take.
    let heirs = [
        heir(&config, "heir-1", &tell),
        heir(&config, "heir-2", &tell),
    ];
    let heirs = futures::future::join_all(heirs).await;
    let kept = || -> BTreeSet<String> { heirs.iter().flat_map(mine).collect() };
    eventually(SOON, "owners", async || {
        (kept().len() == SHARDS as usize).then_some(())
    })
    .await;

    let orders = Orders {
        roles: Vec::new(),
        has_shards: true,
        ..Orders::new(&config, GROUP, LONG, folder.path())
    };
    let mut victim = Victim::of(&orders).await;
    let kept = kept();
    let at = victim.kill();
    let mut next = BTreeMap::new();
    while next.len() + kept.len() < SHARDS as usize {
        let (shard, stamp) = in_time(started.recv()).await.expect("a handler");
        if stamp > at && !kept.contains(&u32::to_string(&shard)) {
            next.insert(shard, stamp);
        }
    }
    for (shard, started) in &next {
        let last = Notes::last_in(&orders.acts, *shard);
        assert!(last < *started, "two act on shard {shard} at once");
    }
    for heir in heirs {
        heir.stop(StopOptions::default()).await.expect("a stop");
    }
    assert!(next.len() >= SHARE, "{}", next.len());
    let took: Vec<_> = next.values().map(|started| started.since(at)).collect();
    let longest = took.iter().max().expect("a shard");
    assert!(*longest < LONG / 2, "{longest:?}");
    took
}

/// An instance that tells which of its handlers start, and when.
async fn heir(
    config: &ManagerConfig,
    id: &str,
    tell: &mpsc::UnboundedSender<(u32, Stamp)>,
) -> RoleManager {
    let tell = tell.clone();
    let handler = handler_fn(move |term: Term| {
        let tell = tell.clone();
        async move {
            let _ = tell.send((term.shard().expect("a shard"), Stamp::now()));
            term.cancelled().await;
            Ok(())
        }
    });
    let manager = RoleManager::builder()
        .config(config.clone().instance_id(id))
        .group(Group::sharded(GROUP, SHARDS, handler));
    manager.start().await.expect("an heir")
}

fn mine(manager: &RoleManager) -> Vec<String> {
    manager.group(GROUP).expect("the group").mine()
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("in time")
}
